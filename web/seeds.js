// The same two runs under several seeds: one simulated run is one draw.

import { Engine } from "./engine.js";
import { SEEDS } from "./metrics.js";

/** Simulates both sides seed by seed, in a worker a side; a newer question ends an older one. */
export class Draws {
  constructor() {
    this.engines = { a: new Engine(), b: new Engine() };
    this.serial = 0;
    this.known = null;
    this.text = "";
  }

  /** Ends what is under way. */
  forget() {
    this.serial += 1;
    this.text = "";
    this.known = null;
    for (const engine of Object.values(this.engines)) engine.abandon();
  }

  /**
   * Runs the requests of both sides from their seed on; `tell` is told how many seeds are done. The result is { a: [run…], b: [run…] };
   * null where a newer question came or a run failed.
   */
  async ask(requests, tell) {
    const text = JSON.stringify(requests);
    if (this.known && this.text === text) return this.known;
    if (this.text) this.forget();
    this.text = text;
    const mine = ++this.serial;
    const found = { a: [], b: [] };
    for (let number = 0; number < SEEDS; number++) {
      tell(number);
      const answers = await Promise.all(["a", "b"].map((side) =>
        this.engines[side].ask({ ...requests[side], seed: requests[side].seed + number, standings: [], drawn: false })));
      if (mine !== this.serial) return null;
      if (answers.some((answer) => !answer || answer.head.error)) return null;
      answers.forEach((answer, place) => found["ab"[place]].push({ head: answer.head }));
    }
    this.known = found;
    return found;
  }
}
