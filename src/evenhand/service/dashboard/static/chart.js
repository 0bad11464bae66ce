// Scales and drawings. A drawing has a fixed number of elements, however many rows it shows.

import { s } from "/assets/page.js";

/** A linear scale from values to pixels. */
export function scale(from, to, low, high) {
  const wide = to - from || 1;
  return (value) => low + ((value - from) / wide) * (high - low);
}

/** Round values for an axis. */
export function ticks(from, to, most) {
  const rough = (to - from) / Math.max(1, most);
  if (!(rough > 0)) return [from];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const found = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

/** A line through points, of which each column of pixels keeps its first, lowest, highest and last. */
export function line(n, x, y) {
  const parts = [];
  let column = null;
  let low = 0, high = 0, first = 0, last = 0;
  const close = () => {
    if (column === null) return;
    const rounded = [first, low, high, last].map((value) => value.toFixed(1));
    parts.push(`${parts.length ? "L" : "M"}${column} ${rounded[0]}`);
    if (low !== high) parts.push(`V${rounded[1]}V${rounded[2]}V${rounded[3]}`);
  };
  for (let i = 0; i < n; i++) {
    const value = y(i);
    if (value === null || value === undefined) continue;
    // Half pixels where there is room for them.
    const at = Math.round(x(i) * 2) / 2;
    if (at !== column) {
      close();
      column = at;
      first = low = high = value;
    }
    low = Math.min(low, value);
    high = Math.max(high, value);
    last = value;
  }
  close();
  return parts.join("");
}

/** Vertical strokes at these positions, at most one per pixel. */
export function strokes(places, top, bottom) {
  const seen = new Set(places.map((place) => Math.round(place * 2) / 2));
  return [...seen].map((place) => `M${place} ${top}V${bottom}`).join("");
}

/** Calls back with the width of an element, now and whenever it changes. */
export function measured(element, draw) {
  let width = 0;
  new ResizeObserver((entries) => {
    const now = Math.floor(entries[0].contentRect.width);
    if (now && now !== width) draw((width = now));
  }).observe(element);
  return () => width;
}

/** A drawing of this size, hidden from screen readers: the text of its figure describes it. */
export function canvas(width, height) {
  return s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", focusable: "false" });
}

/** Makes an element a slider over n rows: keys and pointer choose a row. */
export function slider(element, { label, rows, place, text, chosen }) {
  let at = null;
  element.tabIndex = 0;
  element.setAttribute("role", "slider");
  element.setAttribute("aria-label", label);
  const choose = (i, by) => {
    const n = rows();
    if (!n) return;
    at = Math.max(0, Math.min(n - 1, i));
    element.setAttribute("aria-valuemax", n - 1);
    element.setAttribute("aria-valuenow", at);
    element.setAttribute("aria-valuetext", text(at));
    chosen(at, by);
  };
  const none = () => {
    at = null;
    chosen(null);
  };
  const reset = () => {
    const n = rows();
    element.setAttribute("aria-valuemin", 0);
    element.setAttribute("aria-valuemax", Math.max(0, n - 1));
    element.setAttribute("aria-valuenow", at ?? Math.max(0, n - 1));
    element.setAttribute("aria-valuetext", n ? text(at ?? n - 1) : "nothing yet");
  };
  const moves = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };
  element.addEventListener("keydown", (event) => {
    const n = rows();
    if (event.key in moves) choose((at ?? (moves[event.key] < 0 ? n : n - 2)) + moves[event.key], "key");
    else if (event.key === "Home") choose(0, "key");
    else if (event.key === "End") choose(n - 1, "key");
    else if (event.key === "Escape") none();
    else return;
    event.preventDefault();
  });
  element.addEventListener("pointermove", (event) => {
    const i = place(event);
    if (i !== null && i >= 0) choose(i, "pointer");
  });
  element.addEventListener("pointerleave", () => document.activeElement !== element && none());
  element.addEventListener("blur", none);
  reset();
  return { reset, at: () => at };
}
