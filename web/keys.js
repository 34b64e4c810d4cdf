// The keys that work on the whole page.

/** The keys and what each does. */
export const AXIS_KEYS = [
  ["w s or ↑ ↓", "zoom in and out"], ["a d", "move to earlier and later"], ["f", "show the whole run"],
  ["← →", "the decision before and after, of this CPU"], ["< >", "the decision before and after, of this task"],
  ["t", "lanes by CPU or by task"], ["/", "find a task"], ["x", "swap A and B"], ["=", "make B equal to A"], ["D", "B and the differences only"],
  ["1 … 9", "the gallery"], ["?", "this list"],
];
