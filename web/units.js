// Times and numbers as people write them.

/** A time with three digits and a unit. */
export function span(nanoseconds) {
  const sign = nanoseconds < 0 ? "−" : "";
  const size = Math.abs(nanoseconds);
  const [divisor, unit] = size < 1e3 ? [1, "ns"] : size < 1e6 ? [1e3, "µs"] : size < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  const value = size / divisor;
  const digits = divisor === 1 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${sign}${Number(value.toFixed(digits))} ${unit}`;
}

/** A moment, to the microsecond. */
export function moment(nanoseconds) {
  return nanoseconds >= 1e9 ? `${(nanoseconds / 1e9).toFixed(6)} s` : `${(nanoseconds / 1e6).toFixed(3)} ms`;
}

/** Nanoseconds of a text such as 3ms; NaN if it is none. */
export function parseTime(text) {
  const found = /^\s*([0-9]*\.?[0-9]+)\s*(ns|us|µs|ms|s)\s*$/.exec(text);
  return found ? Math.round(Number(found[1]) * { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9 }[found[2]]) : NaN;
}

/** A time as the command line takes it: exact, in the largest unit that keeps it short. */
export function exactTime(nanoseconds) {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]]) {
    if (nanoseconds >= size && Number.isInteger((nanoseconds / size) * 1000)) return `${nanoseconds / size}${unit}`;
  }
  return `${nanoseconds}ns`;
}

/** How much b differs from a, in percent. */
export function change(a, b) {
  if (a === b) return "equal";
  if (!a || !b) return "";
  const percent = (100 * (b - a)) / a;
  const digits = Math.abs(percent) < 10 ? 1 : 0;
  return `${percent > 0 ? "+" : "−"}${Math.abs(percent).toFixed(digits)} %`;
}
