// Shield: its bias over time against the band, its overrides, and its guarantees.

import { canvas, line, measured, scale, slider, strokes, ticks } from "/assets/chart.js";
import { count, fill, fraction, h, many, moment, put, s, say, share } from "/assets/page.js";
import { StreamPage } from "/assets/stream.js";

const MOST = 10_000;
const HEIGHT = 250;
const STRIP = 18;

const REASONS = {
  followed: "the recommendation was followed",
  accepted: "accepted against the recommendation",
  rejected: "rejected against the recommendation",
  "would-accept": "followed; a shield in force would have accepted",
  "would-reject": "followed; a shield in force would have rejected",
};

const KINDS = [
  { name: "accepted instead", of: (row) => row.reason === "accepted" || row.reason === "would-accept" },
  { name: "rejected instead", of: (row) => row.reason === "rejected" || row.reason === "would-reject" },
];

const bit = (value) => (value === 1 ? "accept" : value === 0 ? "reject" : "");

/** Describe a row in one sentence. */
function sentence(row) {
  const at = `Number ${count(row.n)}, ${moment(row.at)}: `;
  const bias = row.shielded === undefined ? "" : ` Bias ${share(row.unshielded)} before the shield, ${share(row.shielded)} after.`;
  if (row.op === "decide") return `${at}${row.group}, recommended to ${bit(row.recommendation)}, ${REASONS[row.reason] ?? row.reason}.${bias}`;
  if (row.op === "label") return `${at}label ${row.label} for ${row.id}.${bias}`;
  return at + (row.text ?? row.op);
}

export class ShieldPage extends StreamPage {
  constructor(stream) {
    super(stream, {
      most: MOST,
      skipped: ["checkpoint"],
      marked: "only interventions",
      heads: [["No.", "number"], ["Time", ""], ["ID", "id"], ["Group", ""], ["Recommended", ""], ["Decided", ""], ["Why", ""], ["Bias with", "number"], ["without", "number"]],
    });
    this.start = h("div");
    this.facts = h("div");
    this.groups = h("div");
    this.chart = new BiasChart(() => this.rows);
    this.element = this.compose("Shield", this.start,
      h("section", { "aria-labelledby": "bias" }, h("h2", { id: "bias" }, "Bias over time"), this.chart.element),
      h("div", { class: "columns" },
        h("section", { "aria-labelledby": "promise" }, h("h2", { id: "promise" }, "Guaranteed from now on"), this.facts),
        h("section", { "aria-labelledby": "counts" }, h("h2", { id: "counts" }, "By group"), this.groups)));
  }

  cells(row) {
    return [count(row.n), moment(row.at), row.id ?? "", row.group ?? "", bit(row.recommendation),
      row.decision !== undefined ? put(h("span", { class: row.marked ? "changed" : null }), row.marked ? "\u25c6 " : "", bit(row.decision)) : "",
      row.reason ? REASONS[row.reason] : row.op === "label" ? `the label is ${row.label}` : row.text ?? "", share2(row.shielded), share2(row.unshielded)];
  }

  paint() {
    this.chart.draw(this.total, this.kappa);
    fill(this.groups, byGroup(this.rows, this.total, this.advisory));
  }

  standing(stands) {
    const about = stands.certificate;
    this.kappa = fraction(about.kappa);
    this.advisory = about.advisory;
    this.chart.named(about.advisory);
    fill(this.start, stands.number ? null : empty(this.stream.name, stands.groups));
    if (stands.number) {
      const fair = about.bias <= this.kappa + 1e-12;
      say(this.lead, `After ${count(about.step)} of ${many(about.horizon, "decision")}${about.how_later ? ` of period ${about.period + 1}` : ""} the bias is ${share(about.bias)}${fair ? ", within the band up to" : "; the largest fair bias is"} ${share(this.kappa)}. ` +
        (about.advisory ? `In force, the shield would make it ${share(about.bias_shielded)}.` : `Before the shield it would be ${share(about.bias_unshielded)}.`));
    } else say(this.lead, "No decision yet.");
    fill(this.facts, promise(about, stands));
    this.chart.draw(this.total, this.kappa);
  }
}

const share2 = (x) => (x === undefined ? "" : share(x));

/** Guarantees for this period and later ones, in the words of the service, and further facts. */
function promise(about, stands) {
  const parts = stands.guarantee.map(([kind, words]) => h("p", {}, h("span", { class: `kind ${kind}` }, kind), " ", words));
  const facts = [
    ["Property", about.property],
    ["Interventions", about.advisory ? `${count(stands.interventions)} advised, none made` : many(stands.interventions, "decision")],
    ["Open labels", about.open_labels ? count(about.open_labels) : null],
    ["Mode", about.advisory ? "advisory: every recommendation is followed" : "in force"],
  ];
  parts.push(h("dl", { class: "facts" }, facts.filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
  return parts;
}

/** Example of a first request. */
function empty(name, groups) {
  const body = JSON.stringify({ id: "1", group: groups[0] ?? "GROUP", recommendation: 1 });
  return [
    h("p", {}, "Send the first decision from a terminal; add ", h("code", {}, "-H 'Authorization: Bearer KEY'"), " if the service requires keys:"),
    h("pre", { tabindex: 0 }, `curl ${location.origin}/v1/shields/${name}/decisions \\\n  -H 'Content-Type: application/json' \\\n  -d '${body}'`),
  ];
}

/** Counts of the rows that are shown. */
function byGroup(rows, total, advisory) {
  const groups = new Map();
  for (const row of rows) {
    if (row.op !== "decide") continue;
    const found = groups.get(row.group) ?? { seen: 0, recommended: 0, accepted: 0, marked: 0 };
    found.seen++;
    found.recommended += row.recommendation;
    found.accepted += row.decision;
    found.marked += row.marked ? 1 : 0;
    groups.set(row.group, found);
  }
  if (!groups.size) return h("p", { class: "note" }, "No decision in this period.");
  const part = (n, of) => [count(n), h("span", { class: "of" }, ` ${((100 * n) / of).toFixed(0)} %`)];
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Counts by group" }, h("table", {},
    h("caption", {}, rows.length < total ? `the latest ${many(rows.length, "entry", "entries")}` : `all ${many(total, "entry", "entries")}`),
    h("thead", {}, h("tr", {}, ["Group", "Seen", "Recommended", "Accepted", advisory ? "Advised" : "Interventions"].map((words, i) => h("th", { scope: "col", class: i ? "number" : null }, words)))),
    h("tbody", {}, [...groups].sort().map(([name, found]) => h("tr", {}, h("th", { scope: "row" }, name),
      h("td", { class: "number" }, count(found.seen)), h("td", { class: "number" }, part(found.recommended, found.seen)),
      h("td", { class: "number" }, part(found.accepted, found.seen)), h("td", { class: "number" }, part(found.marked, found.seen)))))));
}

/** The bias before and after the shield against its band, and the interventions below. */
class BiasChart {
  constructor(rows) {
    this.all = rows;
    this.rows = [];
    this.axis = h("select", { id: "axis", change: () => this.#paint() }, h("option", { value: "n" }, "decisions"), h("option", { value: "at" }, "time"));
    this.plot = h("div", { class: "plot" });
    this.names = { with: h("span"), without: h("span"), tick: h("span") };
    this.named(false);
    this.read = h("p", { class: "readout", "aria-hidden": "true" });
    this.caption = h("figcaption");
    this.element = h("figure", { class: "bias" },
      h("p", { class: "legend" }, key("with", this.names.with), key("without", this.names.without), key("band", h("span", {}, "fair")), key("tick", this.names.tick),
        h("span", { class: "field inline" }, h("label", { for: "axis" }, "Axis"), this.axis)),
      this.plot, this.read, this.caption);
    this.width = measured(this.plot, () => this.#paint());
    this.slider = slider(this.plot, {
      label: "Decisions, one by one", rows: () => this.rows.length,
      text: (i) => sentence(this.rows[i]),
      place: (event) => this.#nearest(event),
      chosen: (i) => this.#choose(i),
    });
  }

  /** In advisory mode, recommendations are followed, and the bias with the shield is hypothetical. */
  named(advisory) {
    this.words = advisory ? { with: "if in force", without: "as decided", tick: "advised" } : { with: "after the shield", without: "before it", tick: "intervention" };
    for (const [name, place] of Object.entries(this.names)) say(place, this.words[name]);
  }

  draw(total, kappa) {
    this.total = total;
    this.kappa = kappa;
    this.rows = this.all().filter((row) => row.shielded !== undefined);
    this.#paint();
  }

  #paint() {
    const width = this.width();
    const { rows, kappa } = this;
    if (!width) return;
    const narrow = width < 520;
    const left = 42, right = narrow ? 10 : 146, top = 8, bottom = top + HEIGHT;
    const strip = narrow ? STRIP + 15 : STRIP;
    const height = bottom + 28 + strip * KINDS.length + 6;
    const drawing = canvas(width, height);
    fill(this.plot, drawing);
    const by = this.axis.value;
    if (!rows.length || kappa === null || kappa === undefined) {
      put(drawing, s("text", { x: width / 2, y: HEIGHT / 2, class: "nothing", "text-anchor": "middle" }, this.total === undefined ? "loading" : "no decision in this period"));
      say(this.caption, "");
      say(this.read, "");
      this.slider.reset();
      return;
    }
    const from = rows[0][by], to = rows.at(-1)[by];
    const high = tallest(rows, kappa);
    const x = scale(from, to === from ? from + 1 : to, left, width - right);
    const y = scale(0, high, bottom, top);
    this.x = x;
    this.by = by;
    const cut = rows.some((row) => row.shielded > high || row.unshielded > high);
    put(drawing,
      s("clipPath", { id: "inside" }, s("rect", { x: left, y: top - 1, width: width - left - right + 1, height: HEIGHT + 2 })),
      s("rect", { class: "fair", x: left, y: y(kappa), width: width - left - right, height: bottom - y(kappa) }),
      ticks(0, high, 5).map((value) => [
        s("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
        s("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, String(value))]),
      s("path", { class: "border", d: strokes(borders(rows).map((row) => x(row[by])), top, bottom) }),
      s("line", { class: "kappa", x1: left, x2: width - right, y1: y(kappa), y2: y(kappa) }),
      s("g", { "clip-path": "url(#inside)" },
        s("path", { class: "without", d: line(rows.length, (i) => x(rows[i][by]), (i) => y(rows[i].unshielded)) }),
        s("path", { class: "with", d: line(rows.length, (i) => x(rows[i][by]), (i) => y(rows[i].shielded)) })));
    const last = rows.at(-1);
    if (!narrow) {
      const names = [[y(kappa), `fair up to ${share(kappa)}`, "end"], [y(Math.min(high, last.shielded)), `${this.words.with.replace(" the shield", "")} ${share(last.shielded)}`, "end strong"], [y(Math.min(high, last.unshielded)), `${this.words.without.replace(" it", "")} ${share(last.unshielded)}`, "end"]];
      for (const [at, words, kind] of apart(names, 15, top + 4, bottom)) put(drawing, s("text", { x: width - right + 8, y: at + 4, class: kind }, words));
    }
    this.#below(drawing, { x, by, left, width, right, bottom, from, to, strip });
    this.mark = s("line", { class: "cursor", y1: top, y2: height - 4, visibility: "hidden" });
    put(drawing, this.mark);
    const shown = this.total > rows.length ? `The latest ${count(rows.length)} of ${many(this.total, "entry", "entries")}` : many(rows.length, "entry", "entries");
    const marked = rows.filter((row) => row.marked).length;
    say(this.caption, `${shown}, ${moment(rows[0].at)} to ${moment(last.at)}; ${this.words.tick === "advised" ? `${count(marked)} advised` : many(marked, "intervention")}. ${borders(rows).length ? "Vertical lines: a new period." : ""}${cut ? ` Above ${share(high)} the lines are cut off.` : ""} Point at the chart, or use the arrow keys, to read single decisions.`);
    this.slider.reset();
    this.#choose(this.slider.at());
  }

  #below(drawing, { x, by, left, width, right, bottom, from, to, strip }) {
    const { rows } = this;
    const most = Math.max(2, Math.floor((width - left - right) / 110));
    if (by === "n") {
      for (const value of ticks(from, to, most).filter((one) => Number.isInteger(one))) {
        put(drawing, s("text", { x: x(value), y: bottom + 17, "text-anchor": x(value) > width - 24 ? "end" : "middle" }, count(value)));
      }
    } else {
      const n = Math.max(1, Math.min(most, Math.floor((width - left - right) / 150)));
      for (let i = 0; i <= n; i++) {
        const value = from + ((to - from) * i) / n;
        put(drawing, s("text", { x: x(value), y: bottom + 17, "text-anchor": i === 0 ? "start" : i === n ? "end" : "middle" }, moment(value)));
      }
    }
    KINDS.forEach((kind, i) => {
      const place = bottom + 28 + strip * i + strip - STRIP;
      const some = rows.filter(kind.of);
      put(drawing,
        s("line", { class: "grid", x1: left, x2: width - right, y1: place + STRIP - 3, y2: place + STRIP - 3 }),
        s("path", { class: i ? "tick down" : "tick", d: strokes(some.map((row) => x(row[by])), place + (i ? 5 : 1), place + STRIP - 3) }),
        s("text", strip === STRIP ? { x: width - right + 8, y: place + STRIP - 5 } : { x: left, y: place - 2 }, `${count(some.length)} ${kind.name.replace(" instead", "")}`));
    });
  }

  #nearest(event) {
    if (!this.rows.length || !this.x) return null;
    const at = event.clientX - this.plot.getBoundingClientRect().left;
    let low = 0, high = this.rows.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.x(this.rows[middle][this.by]) < at) low = middle;
      else high = middle;
    }
    return Math.abs(this.x(this.rows[low][this.by]) - at) < Math.abs(this.x(this.rows[high][this.by]) - at) ? low : high;
  }

  #choose(i) {
    const row = i === null ? null : this.rows[i];
    if (!this.mark) return;
    if (!row) {
      this.mark.setAttribute("visibility", "hidden");
      say(this.read, "");
      return;
    }
    const at = this.x(row[this.by]);
    this.mark.setAttribute("x1", at);
    this.mark.setAttribute("x2", at);
    this.mark.setAttribute("visibility", "visible");
    say(this.read, sentence(row));
  }
}

function key(kind, words) {
  const drawing = canvas(26, 12);
  const shape = { with: s("path", { class: "with", d: "M0 6H26" }), without: s("path", { class: "without", d: "M0 6H26" }),
    band: s("rect", { class: "fair", width: 26, height: 12 }), tick: s("path", { class: "tick", d: "M6 1V11M13 1V11M18 1V11" }) }[kind];
  return h("span", { class: "key" }, put(drawing, shape), " ", words);
}

/** Upper end of the axis: room for the band and nearly all of the lines. Extremes of the first few individuals would flatten the rest. */
function tallest(rows, kappa) {
  const values = rows.flatMap((row) => [row.shielded, row.unshielded]).sort((a, b) => a - b);
  const usual = values[Math.min(values.length - 1, Math.floor(0.97 * values.length))];
  return Math.min(1, Math.max(1.8 * kappa, 1.08 * usual));
}

/** The first rows of periods. */
function borders(rows) {
  const found = rows.filter((row, i) => i && row.period !== rows[i - 1].period);
  return found.length <= 60 ? found : [];
}

/** Labels at heights that do not overlap. */
function apart(names, room, top, bottom) {
  const sorted = [...names].sort((a, b) => a[0] - b[0]);
  for (let i = 1; i < sorted.length; i++) sorted[i][0] = Math.max(sorted[i][0], sorted[i - 1][0] + room);
  let floor = bottom;
  for (let i = sorted.length - 1; i >= 0; i--) {
    sorted[i][0] = Math.max(top, Math.min(sorted[i][0], floor));
    floor = sorted[i][0] - room;
  }
  return sorted;
}

/** Sparkline of the bias. */
export function biasSpark(points, kappa) {
  const width = 260, height = 44;
  const drawing = canvas(width, height);
  if (points.length < 2) return drawing;
  const high = Math.max(1.8 * kappa, ...points.slice(Math.floor(points.length / 10)).flatMap(([, a, b]) => [a, b]));
  const x = scale(points[0][0], points.at(-1)[0], 0, width);
  const place = scale(0, Math.min(1, high), height - 1, 1);
  const y = (value) => Math.max(1, place(value));
  put(drawing, s("rect", { class: "fair", x: 0, y: y(kappa), width, height: height - y(kappa) }),
    s("path", { class: "without", d: line(points.length, (i) => x(points[i][0]), (i) => y(points[i][2])) }),
    s("path", { class: "with", d: line(points.length, (i) => x(points[i][0]), (i) => y(points[i][1])) }));
  drawing.setAttribute("class", "spark");
  return drawing;
}
