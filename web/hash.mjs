// Answers requests, one a line of standard input, and prints the SHA-256 of each answer: node web/hash.mjs MODULE.wasm

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const module = new WebAssembly.Module(readFileSync(process.argv[2]));
let engine = new WebAssembly.Instance(module, {}).exports;

for await (const line of createInterface({ input: process.stdin })) {
  const request = new TextEncoder().encode(line);
  const place = engine.schedlab_request(request.length);
  new Uint8Array(engine.memory.buffer, place, request.length).set(request);
  try {
    engine.schedlab_answer();
    const answer = new Uint8Array(engine.memory.buffer, engine.schedlab_address(), engine.schedlab_length());
    console.log(createHash("sha256").update(answer).digest("hex"));
  } catch (error) {
    console.log(`trapped: ${error}`);
    engine = new WebAssembly.Instance(module, {}).exports;
  }
}
