// The page's side of the workers that simulate.

let compiled = null;

/** Compiles the module that is in the page, once. */
export function compile() {
  if (!compiled) {
    const packed = document.getElementById("module").textContent;
    const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    compiled = new Response(stream).arrayBuffer().then((buffer) => WebAssembly.compile(buffer));
  }
  return compiled;
}

/** One worker with an instance of the module. */
export class Engine {
  constructor() {
    this.waiting = new Map();
    this.next = 1;
    this.worker = null;
  }

  async start() {
    const module = await compile();
    const source = document.getElementById("worker").textContent;
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    this.worker = new Worker(url);
    URL.revokeObjectURL(url);
    this.worker.postMessage({ module });
    this.worker.onmessage = ({ data }) => {
      const taken = this.waiting.get(data.id);
      this.waiting.delete(data.id);
      if (data.broken) this.abandon();
      taken?.(data);
    };
  }

  /** Answers a request; null if it is abandoned. */
  async ask(request) {
    if (!this.worker) await (this.starting ??= this.start());
    return new Promise((resolve) => {
      const id = this.next++;
      this.waiting.set(id, resolve);
      this.worker.postMessage({ id, request });
    });
  }

  /** Ends what is under way; the next request gets a new instance. */
  abandon() {
    this.worker?.terminate();
    this.worker = null;
    this.starting = null;
    const left = [...this.waiting.values()];
    this.waiting.clear();
    for (const resolve of left) resolve(null);
  }
}

/** An engine that answers the newest request only: a run under way that takes long is abandoned for it. */
export class Latest {
  constructor(patience = 150) {
    this.engine = new Engine();
    this.patience = patience;
    this.busy = false;
    this.wanted = null;
  }

  /** Answers the request, or null where a newer one came. */
  ask(request) {
    this.wanted?.resolve(null);
    return new Promise((resolve) => {
      this.wanted = { request, resolve };
      if (!this.busy) this.pump();
      else if (performance.now() - this.since > this.patience) this.engine.abandon();
    });
  }

  async pump() {
    this.busy = true;
    while (this.wanted) {
      const { request, resolve } = this.wanted;
      this.wanted = null;
      this.since = performance.now();
      const timer = setTimeout(() => this.wanted && this.engine.abandon(), this.patience);
      const answer = await this.engine.ask(request);
      clearTimeout(timer);
      resolve(this.wanted ? null : answer);
    }
    this.busy = false;
  }
}
