// Guarded generator: a lane for every value, the latest items, and the changed prompts with their reasons.

import { canvas, measured, slider, strokes } from "/assets/chart.js";
import { ask, count, fill, h, listed, many, moment, put, s, say } from "/assets/page.js";
import { StreamPage } from "/assets/stream.js";

const MOST = 5_000;
const LANE = 30;
const PICTURES = 12;
const CHANGED = 20;

const BROKEN = {
  missed: "deadline missed",
  disobeyed: "item did not show the required value, after all retries",
  unrecognised: "item with a required value was not recognisable, after all retries",
  failed: "item with a required value was not generated, after all retries",
  "in-flight": "more concurrent requests than stated",
};

const STATUS = {
  ok: "ok",
  retry: "generated again",
  violation: "violation: an assumption of the deadlines is broken",
  failed: "no item",
  withdrawn: "withdrawn: the request ended before the item arrived",
  unguarded: "unguarded: its conditions or values are unknown",
  refused: "refused: there is no item",
};

/** The value that is due first. */
export function urgent(specification) {
  const lane = [...specification.lanes].sort((a, b) => a.left - b.left)[0];
  return lane ? `${lane.value} ${due(lane)}` : "nothing";
}

function due(lane) {
  if (lane.left <= 0) return "is overdue";
  return lane.left === 1 ? "must come next" : `within the next ${count(lane.left)}`;
}

/** The value of a specification that a row shows, as its lanes are named. */
function valueOf(row, specification) {
  const parts = specification.groups.map((group) => row.values[group]);
  return parts.every(Boolean) ? parts.join(" + ") : null;
}

const shown = (row) => (row.op === "complete" && !row.conditions.length ? "meets no condition" : listed(Object.entries(row.values).filter(([, value]) => value).map(([group, value]) => `${group} ${value}`)) || "no recognised value");

const asked = (row) => row.prompt || "a prompt that was not logged (log_prompts = false)";

/** Describe a row in one or two sentences. */
function sentence(row) {
  const what = row.op === "complete" ? row.conditions.length ? `it shows ${shown(row)}` : shown(row) : STATUS[row.status] ?? row.status;
  return `Number ${count(row.n)}, ${moment(row.at)}: ${asked(row)}; ${what}.` + (row.changed ? ` The prompt was changed to: ${row.sent}.` : "") + (row.status !== "ok" && row.reason ? ` ${row.reason}.` : "");
}

export class GeneratorPage extends StreamPage {
  constructor(stream, { model }) {
    super(stream, {
      most: MOST,
      skipped: ["checkpoint", "admit"],
      marked: "only changes, failures and violations",
      heads: [["No.", "number"], ["Time", ""], ["Prompt", "prompt"], ["Shown", ""], ["Result", ""], ["Picture", "picture"]],
    });
    this.specifications = [];
    this.broken = h("div");
    this.strip = h("ul", { class: "strip" });
    this.stripped = h("p", { class: "note" }, "No picture was kept in this period.");
    this.changes = h("ol", { class: "changes" });
    this.changed = h("p", { class: "note" });
    this.words = h("pre", { class: "words", tabindex: 0, "aria-label": "Guarantee in words" });
    this.lanes = new Lanes(this);
    this.element = this.compose("Guarded generator", this.broken,
      model ? new Maker(model).element : null,
      h("section", { "aria-labelledby": "lanes" }, h("h2", { id: "lanes" }, "Deadlines"), this.lanes.element),
      h("section", { "aria-labelledby": "made" }, h("h2", { id: "made" }, "Latest items"), this.strip, this.stripped),
      h("section", { "aria-labelledby": "changed" }, h("h2", { id: "changed" }, "Changed prompts"), this.changed, this.changes),
      h("section", { "aria-labelledby": "promise" }, h("h2", { id: "promise" }, "Guaranteed from now on"), this.words));
  }

  cells(row) {
    return [count(row.n), moment(row.at), this.#prompt(row), row.op === "complete" ? shown(row) : "", this.#result(row), this.#thumb(row, 48)];
  }

  close() {
    super.close();
    peek(null);
  }

  standing(stands) {
    this.specifications = stands.specifications;
    const missed = stands.specifications.reduce((sum, one) => sum + one.counts.missed, 0);
    const next = stands.specifications.map((one) => `${one.name}: ${urgent(one)}`);
    say(this.lead, `${missed ? many(missed, "deadline") + (missed === 1 ? " was" : " were") + " missed." : "No deadline was missed."} ${next.length ? `Due first - ${next.join("; ")}.` : ""}${stands.open ? ` ${many(stands.open, "request")} in progress.` : ""}`);
    say(this.words, stands.guarantee);
    fill(this.broken, troubles(stands, this.broken.querySelector("details")?.open));
    this.draw();
  }

  paint() {
    this.lanes.draw(this.rows, this.specifications);
    this.#strip();
    this.#changes();
  }

  #strip() {
    const some = this.rows.filter((row) => row.picture).slice(-PICTURES).reverse();
    this.stripped.hidden = some.length > 0;
    renew(this.strip, some, (row) => this.#framed(row));
  }

  #framed(row) {
    return h("li", { "data-n": row.n }, h("figure", {}, this.#thumb(row, 96),
      h("figcaption", {}, listed(Object.values(row.values).filter(Boolean)) || shown(row), row.changed ? h("span", { class: "changed" }, " \u25c6 changed") : null)));
  }

  #changes() {
    const some = this.rows.filter((row) => row.changed && row.status !== "retry");
    say(this.changed, some.length ? `${many(some.length, "prompt")} of ${many(this.rows.filter((row) => row.op === "complete" && row.status !== "retry").length, "item")} in this period${some.length > CHANGED ? `; the latest ${CHANGED}` : ""}. The log contains all of them.` : "No prompt was changed in this period.");
    renew(this.changes, some.slice(-CHANGED).reverse(), (row) => this.#change(row));
  }

  #change(row) {
    return h("li", { "data-n": row.n }, this.#thumb(row, 72), h("dl", {},
      pair("Before", asked(row)), pair("After", row.sent),
      pair("Why", row.why || "the first item would have caused a missed deadline"),
      pair("Shown", `${shown(row)}${row.status === "ok" ? "" : ` (${STATUS[row.status] ?? row.status})`}`)),
      h("p", { class: "note" }, `No. ${count(row.n)}, ${moment(row.at)}`));
  }

  #prompt(row) {
    if (row.text) return row.text;
    return row.changed ? [h("span", { class: "before" }, asked(row)), h("span", { class: "after" }, h("span", { class: "changed" }, "\u25c6 changed to "), row.sent)] : asked(row);
  }

  #result(row) {
    const words = STATUS[row.status] ?? row.status ?? "";
    return [words, row.reason && row.status !== "ok" ? h("span", { class: "why" }, row.reason) : null];
  }

  /** A picture that is enlarged on hover or keyboard focus. */
  #thumb(row, size) {
    if (!row.picture) return "";
    const image = h("img", { src: this.picture(row), width: size, height: size, loading: "lazy", alt: "" });
    let tries = 0;
    // The picture is stored shortly after its entry in the log, or has already been deleted.
    image.addEventListener("error", () => {
      if (tries++ < 2) setTimeout(() => { image.src = `${this.picture(row)}?${tries}`; }, 700);
      else image.closest(".thumb")?.replaceWith(h("span", { class: "note" }, "not kept"));
    });
    const link = h("a", { class: "thumb", href: this.picture(row), target: "_blank", rel: "noopener", "aria-label": `Picture of number ${row.n}: ${shown(row)}` }, image);
    for (const kind of ["pointerenter", "focus"]) link.addEventListener(kind, () => peek(row, this.picture(row), link.getBoundingClientRect()));
    for (const kind of ["pointerleave", "blur"]) link.addEventListener(kind, () => peek(null));
    return link;
  }

  picture(row) {
    return `${this.path}/pictures/${row.admission}`;
  }
}

/** Make a list show these rows in this order. Existing elements stay in place and keep the focus. */
function renew(list, rows, made) {
  const wanted = new Set(rows.map((row) => String(row.n)));
  for (const child of [...list.children]) if (!wanted.has(child.dataset.n)) child.remove();
  let next = list.firstElementChild;
  for (const row of rows) {
    if (next?.dataset.n === String(row.n)) next = next.nextElementSibling;
    else list.insertBefore(made(row), next);
  }
}

const pair = (name, words) => h("div", {}, h("dt", {}, name), h("dd", {}, words));

function troubles(stands, open = false) {
  const found = stands.specifications.flatMap((one) => Object.entries(BROKEN).filter(([what]) => one.counts[what]).map(([what, words]) => h("li", {}, `${one.name}: ${count(one.counts[what])} \u00d7 ${words}`)));
  if (!found.length) return null;
  return h("section", { class: "wrong", "aria-labelledby": "broken" }, h("h2", { id: "broken" }, "Broken assumptions"), h("ul", {}, found),
    stands.broken.length ? h("details", { open }, h("summary", {}, `The latest ${many(stands.broken.length, "case")}`), h("ul", {}, [...stands.broken].reverse().map((one) => h("li", {}, `${one.specification}: ${one.reason}`)))) : null);
}

document.addEventListener("pointerover", (event) => {
  const on = (element) => element instanceof Element && element.closest(".thumb, .tracks");
  if (!on(event.target) && !on(document.activeElement)) peek(null);
});

/** A larger picture with its details, next to the element under the pointer. */
function peek(row, picture, place) {
  const box = document.getElementById("peek");
  if (!row) {
    box.hidden = true;
    return;
  }
  if (box.dataset.n !== String(row.n)) {
    box.dataset.n = row.n;
    fill(box, row.picture ? h("img", { src: picture, alt: "", width: 168, height: 168, error: (event) => event.target.remove() }) : null,
      h("p", {}, h("strong", {}, row.op === "complete" ? shown(row) : STATUS[row.status] ?? row.status)), h("p", {}, asked(row)), row.changed ? h("p", {}, h("span", { class: "changed" }, "\u25c6 changed to "), row.sent) : null);
  }
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  const left = Math.max(8, Math.min(innerWidth - width - 8, place.left + place.width / 2 - width / 2));
  const above = place.top - height - 10;
  box.style.left = `${left}px`;
  box.style.top = `${above > 8 ? above : Math.min(innerHeight - height - 8, place.bottom + 10)}px`;
}

/** One lane for every value of every specification. */
class Lanes {
  constructor(page) {
    this.page = page;
    this.range = h("select", { id: "range", change: () => this.#paint() }, [["40", "the last 40"], ["200", "the last 200"], ["1000", "the last 1,000"], [String(MOST), "all that are loaded"]].map(([value, words]) => h("option", { value }, words)));
    this.boxes = h("div");
    this.read = h("p", { class: "readout", "aria-hidden": "true" });
    this.element = h("div", { class: "lanes" },
      h("p", { class: "legend" }, mark("own", "appeared by itself"), mark("asked", "appeared after a changed prompt"), mark("left", "distance left to the deadline"), mark("over", "overdue"),
        h("span", { class: "field inline" }, h("label", { for: "range" }, "Items"), this.range)),
      this.boxes, this.read,
      h("p", { class: "note" }, "Each lane is a value, each step an item for which the condition holds. The grey bar shrinks as the deadline approaches, and grows again when the value appears. Point at a lane, or choose one and use the arrow keys, to see the items."));
    this.drawn = new Map();
    this.rows = [];
    this.specifications = [];
  }

  draw(rows, specifications) {
    this.rows = rows;
    this.specifications = specifications;
    this.#paint();
  }

  #paint() {
    const names = this.specifications.map((one) => `${one.name}\n${one.lanes.map((lane) => lane.value).join("\n")}`).join("\n\n");
    if (this.names !== names) {
      this.names = names;
      this.drawn.clear();
      fill(this.boxes, this.specifications.map((one) => this.#box(one)));
    }
    for (const one of this.specifications) this.#fill(one);
  }

  #box(specification) {
    const box = { lanes: new Map(), rows: [], at: null };
    this.drawn.set(specification.name, box);
    const lanes = specification.lanes.map((lane) => {
      const track = h("div", { class: "track" });
      const bar = h("span");
      const meter = h("div", { class: "meter", role: "meter", "aria-label": `${lane.value}: items left`, "aria-valuemin": 0, "aria-valuemax": lane.deadline, "aria-valuenow": 0, "aria-valuetext": "nothing yet" }, bar);
      const left = h("p", { class: "left" });
      box.lanes.set(lane.value, { track, bar, meter, left });
      return h("div", { class: "lane" }, h("p", { class: "name" }, lane.value, h("span", { class: "within" }, ` within ${count(lane.deadline)}`)), track, h("div", { class: "now" }, meter, left));
    });
    box.tracks = h("div", { class: "tracks" }, lanes);
    box.count = h("p", { class: "note" });
    const first = [...box.lanes.values()][0].track;
    box.width = measured(first, () => this.#fill(this.specifications.find((one) => one.name === specification.name)));
    box.slider = slider(box.tracks, {
      label: `${specification.name}, item by item`, rows: () => box.rows.length,
      text: (i) => sentence(box.rows[i]),
      place: (event) => {
        const place = first.getBoundingClientRect();
        const i = Math.floor((event.clientX - place.left - box.start) / box.step);
        return event.clientX < place.left || event.clientX > place.right ? null : Math.min(i, box.rows.length - 1);
      },
      chosen: (i, by) => this.#choose(specification.name, i, by),
    });
    return h("section", { class: "specification" }, h("h3", {}, specification.name), box.tracks, box.count);
  }

  #fill(specification) {
    const box = specification && this.drawn.get(specification.name);
    const width = box?.width();
    if (!width) return;
    const name = specification.name;
    const every = this.rows.filter((row) => row.slots?.[name] !== undefined);
    box.rows = every.slice(-Number(this.range.value));
    const n = box.rows.length;
    // A few items have a fixed width, from the left; many share the full width.
    box.step = Math.min(16, width / Math.max(1, n));
    box.start = 0;
    const middle = (i) => (i + 0.5) * box.step;
    for (const lane of specification.lanes) {
      const parts = box.lanes.get(lane.value);
      const drawing = canvas(width, LANE);
      const own = [], told = [], over = [];
      const area = [];
      box.rows.forEach((row, i) => {
        if (valueOf(row, specification) === lane.value) (row.changed ? told : own).push(middle(i));
        const left = row.left?.[name]?.[lane.value];
        if (left <= 0) over.push(middle(i));
        if (left !== undefined) {
          const high = Math.max(0, Math.min(1, left / lane.deadline)) * (LANE - 4);
          area.push([i * box.step, high]);
        }
      });
      const d = box.step >= 1 ? area.map(([x, high]) => `M${x.toFixed(1)} ${LANE}V${(LANE - high).toFixed(1)}h${box.step.toFixed(2)}V${LANE}Z`).join("") : columns(area);
      const wide = box.step >= 7;
      put(drawing, s("path", { class: "left-area", d }), s("line", { class: "grid", x1: 0, x2: width, y1: LANE - 0.5, y2: LANE - 0.5 }),
        wide ? s("path", { class: "own", d: own.map(circle).join("") }) : s("path", { class: "tick own-tick", d: strokes(own, 8, LANE - 1) }),
        wide ? s("path", { class: "asked", d: told.map(diamond).join("") }) : s("path", { class: "tick asked-tick", d: strokes(told, 1, LANE - 1) }),
        s("path", { class: "over", d: wide ? over.map(cross).join("") : strokes(over, LANE - 8, LANE - 1) }),
        s("line", { class: "cursor", y1: 0, y2: LANE, visibility: "hidden" }));
      fill(parts.track, drawing);
      const filled = Math.max(0, Math.min(1, lane.left / lane.deadline));
      parts.bar.style.width = `${100 * filled}%`;
      parts.meter.setAttribute("aria-valuenow", Math.max(0, Math.min(lane.deadline, lane.left)));
      parts.meter.setAttribute("aria-valuetext", `${due(lane)}, of ${lane.deadline}`);
      parts.meter.dataset.due = lane.left <= 0 ? "over" : lane.left === 1 ? "next" : "later";
      say(parts.left, due(lane));
    }
    say(box.count, `${n < every.length ? `the last ${count(n)} of ` : ""}${many(every.length, "item")}${specification.lanes.length < specification.values ? `; the ${specification.lanes.length} of ${count(specification.values)} values that are due first` : ""}`);
    box.slider.reset();
    if (box.slider.at() !== null) this.#choose(name, box.slider.at(), null);
  }

  #choose(name, i, by) {
    const box = this.drawn.get(name);
    const row = i === null ? null : box.rows[i];
    for (const { track } of box.lanes.values()) {
      const cursor = track.querySelector(".cursor");
      if (!cursor) continue;
      cursor.setAttribute("visibility", row ? "visible" : "hidden");
      if (row) for (const end of ["x1", "x2"]) cursor.setAttribute(end, (i + 0.5) * box.step);
    }
    say(this.read, row ? sentence(row) : "");
    if (!row) peek(null);
    else if (by) {
      const place = box.tracks.querySelector(".track").getBoundingClientRect();
      const x = place.left + (i + 0.5) * box.step;
      peek(row, this.page.picture(row), new DOMRect(x - 8, place.top, 16, box.tracks.getBoundingClientRect().height));
    }
  }
}

const circle = (x) => `M${(x - 4).toFixed(1)} ${LANE / 2}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z`;
const cross = (x) => `M${(x - 3).toFixed(1)} ${LANE - 8}l6 6m0 -6l-6 6`;
const diamond = (x) => `M${x.toFixed(1)} ${LANE / 2 - 6.5}l6.5 6.5l-6.5 6.5l-6.5 -6.5Z`;

/** An area chart of many items: each column of pixels shows the shortest distance. */
function columns(area) {
  const lowest = new Map();
  for (const [x, high] of area) {
    const at = Math.floor(x);
    lowest.set(at, Math.min(lowest.get(at) ?? Infinity, high));
  }
  return [...lowest].map(([x, high]) => `M${x} ${LANE}V${(LANE - high).toFixed(1)}h1V${LANE}Z`).join("");
}

function mark(kind, words) {
  const drawing = canvas(18, 18);
  const shapes = { own: s("path", { class: "own", d: "M5 9a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z" }), asked: s("path", { class: "asked", d: "M9 2.5l6.5 6.5l-6.5 6.5l-6.5 -6.5Z" }),
    over: s("path", { class: "over", d: "M5 5l8 8m0 -8l-8 8" }),
    left: s("path", { class: "left-area", d: "M1 18V3h5V18ZM6 18V8h5V18ZM11 18V13h5V18Z" }) };
  return h("span", { class: "key" }, put(drawing, shapes[kind]), " ", words);
}

/** A form that requests a picture, as any client would. */
class Maker {
  constructor(model) {
    this.model = model;
    this.prompt = h("input", { id: "prompt", type: "text", required: true, maxlength: 1000, value: "a portrait of a business leader", autocomplete: "off" });
    this.button = h("button", {}, "Generate a picture");
    this.result = h("div", { class: "result", role: "status" });
    this.element = h("section", { class: "maker", "aria-labelledby": "maker" }, h("h2", { id: "maker" }, "Generate a picture"),
      h("form", { submit: (event) => { event.preventDefault(); this.#make(); } }, h("span", { class: "field grows" }, h("label", { for: "prompt" }, "Prompt"), this.prompt), this.button), this.result);
  }

  async #make() {
    const prompt = this.prompt.value.trim();
    if (!prompt || this.button.getAttribute("aria-disabled")) return;
    this.button.setAttribute("aria-disabled", "true");
    say(this.button, "Being made");
    try {
      const { said } = await ask("/v1/images/generations", {
        method: "POST", headers: { "content-type": "application/json", accept: "application/json" },
        body: JSON.stringify({ model: this.model, prompt, response_format: "b64_json" }),
      });
      fill(this.result, this.#made(prompt, said));
    } catch (error) {
      fill(this.result, h("p", { class: "wrong" }, `There is no picture: ${error.message}`));
    } finally {
      this.button.removeAttribute("aria-disabled");
      say(this.button, "Generate another picture");
    }
  }

  #made(prompt, said) {
    const one = said.data[0];
    const guard = one.evenhand;
    const told = Object.fromEntries(guard.disclosure.split("; ").map((part) => part.split("=")).map(([name, value]) => [name, plain(value)]));
    const source = `data:${kindOf(one.b64_json)};base64,${one.b64_json}`;
    return [
      h("img", { src: source, alt: `the picture generated for: ${prompt}`, width: 224, height: 224 }),
      h("dl", {},
        pair("Prompt", prompt),
        guard.changed ? pair("Changed to", one.revised_prompt) : pair("Changed", told.slots ? "no: no deadline was at risk" : "no: it counts for no deadline"),
        guard.changed && told.asked ? pair("Required", told.asked) : null,
        told.slots ? pair("Counts for", told.slots.replace(/ (\d+)(, |$)/g, " (slot $1)$2")) : null,
        pair("Result", `${STATUS[guard.status] ?? guard.status}${Number(told.attempts) > 1 ? `, after ${told.attempts} attempts` : ""}${guard.reason ? `: ${guard.reason}` : ""}`)),
    ];
  }
}

function plain(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const kindOf = (data) => (data.startsWith("/9j/") ? "image/jpeg" : data.startsWith("UklGR") ? "image/webp" : data.startsWith("R0lG") ? "image/gif" : "image/png");
