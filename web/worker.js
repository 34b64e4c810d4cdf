// The engine's side: one instance of the module, one request at a time.

let exports = null;

/** Reads a message: see crates/web/src/message.rs. The arrays are views of one buffer. */
function read(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const arrays = {};
  let at = 8 + length;
  for (const [name, kind, count] of head.arrays) {
    const View = { f64: Float64Array, u32: Uint32Array, u16: Uint16Array, u8: Uint8Array }[kind];
    arrays[name] = new View(buffer, at, count);
    at += Math.ceil((count * View.BYTES_PER_ELEMENT) / 8) * 8;
  }
  return { head, arrays };
}

function answer(request) {
  const text = new TextEncoder().encode(JSON.stringify(request));
  const place = exports.schedlab_request(text.length);
  new Uint8Array(exports.memory.buffer, place, text.length).set(text);
  let trap = null;
  try {
    exports.schedlab_answer();
  } catch (error) {
    trap = error;
  }
  const length = exports.schedlab_length();
  if (trap && length === 0) throw trap;
  const buffer = exports.memory.buffer.slice(exports.schedlab_address(), exports.schedlab_address() + length);
  return { buffer, trap };
}

onmessage = ({ data }) => {
  if (data.module) {
    exports = new WebAssembly.Instance(data.module, {}).exports;
    return;
  }
  const began = performance.now();
  try {
    const { buffer, trap } = answer(data.request);
    const { head, arrays } = read(buffer);
    postMessage({ id: data.id, head, arrays, took: performance.now() - began, broken: Boolean(trap) }, [buffer]);
  } catch (error) {
    const text = "the run needs more memory than a page has (1 GiB); allowed: a shorter or smaller workload";
    postMessage({ id: data.id, head: { error: text, part: "run", detail: String(error) }, arrays: {}, took: 0, broken: true });
  }
};
