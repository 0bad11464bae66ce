// Elements, texts, numbers and requests. All external data enters a page as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element: `h("p", {class: "note"}, "text", child)`; a function as attribute is a listener. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for drawings. */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  put(element, ...children);
  return element;
}

/** Append children. */
export function put(element, ...children) {
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/** Replace all children. */
export function fill(element, ...children) {
  element.replaceChildren();
  return put(element, ...children);
}

/** Set a text only if it has changed, so that screen readers do not repeat it. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const whole = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const dated = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });

/** Format a whole number. */
export const count = (n) => whole.format(n);

/** A share or a bias. */
export const share = (x) => (x === null || x === undefined ? "unknown" : x.toFixed(3));

/** "1 decision", "2 decisions". */
export const many = (n, one, several = one + "s") => `${count(n)} ${n === 1 ? one : several}`;

/** Format a time in seconds, without the date if it is today. */
export function moment(at) {
  const date = new Date(at * 1000);
  return (date.toDateString() === new Date().toDateString() ? clock : dated).format(date);
}

/** "1/10" or "0.1" as a number. */
export function fraction(text) {
  const [above, below] = String(text).split("/").map(Number);
  return below ? above / below : above;
}

/** The text of a list in a sentence. */
export const listed = (parts) => parts.join(", ");

/** Fetch the JSON of an address. Without a valid key, go to the login page. */
export async function ask(path, options = {}) {
  const answer = await fetch(path, { credentials: "same-origin", headers: { accept: "application/json" }, ...options });
  if (answer.status === 401) {
    location.assign("/login");
    throw new Error("log in again");
  }
  const said = await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(said?.error ? [said.error.message, said.error.hint].filter(Boolean).join("; ") : `the service answered ${answer.status}`);
  return { said, headers: answer.headers };
}

/** Throttle a function: call it at most once per interval in milliseconds, and once more at the end. */
export function calmly(milliseconds, act) {
  let last = 0;
  let waiting = null;
  return () => {
    if (waiting !== null) return;
    waiting = setTimeout(() => { waiting = null; last = performance.now(); act(); }, Math.max(0, last + milliseconds - performance.now()));
  };
}

/** Debounce a function: call it when an interval in milliseconds has passed without another call. */
export function afterPause(milliseconds, act) {
  let waiting = null;
  return () => {
    clearTimeout(waiting);
    waiting = setTimeout(act, milliseconds);
  };
}
