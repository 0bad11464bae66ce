// Log of a stream: filter, rows (newest first), and export of the matching rows.

import { afterPause, ask, calmly, count, fill, h, many, put, say } from "/assets/page.js";

const PAGE = 25;
const MORE = 100;
const KEPT = 500;

/** Form with the period, the search text and "only interventions"; calls `changed` on every change. */
export class Filter {
  constructor(marked, changed) {
    const id = "filter";
    this.text = h("input", { id: `${id}-text`, type: "search", maxlength: 200, autocomplete: "off", spellcheck: "false" });
    this.marked = h("input", { id: `${id}-marked`, type: "checkbox" });
    this.range = h("select", { id: `${id}-range` },
      [["", "all"], ["900", "the last 15 minutes"], ["3600", "the last hour"], ["86400", "the last day"], ["604800", "the last week"], ["own", "from ... to ..."]]
        .map(([value, words]) => h("option", { value }, words)));
    this.since = h("input", { id: `${id}-since`, type: "datetime-local", step: 1 });
    this.until = h("input", { id: `${id}-until`, type: "datetime-local", step: 1 });
    this.own = h("span", { class: "own", hidden: true }, label(this.since, "From"), label(this.until, "To"));
    this.element = h("form", { class: "filter", role: "search", "aria-label": "Filter", submit: (event) => event.preventDefault() },
      label(this.text, "Text"), label(this.range, "Time"), this.own,
      h("span", { class: "check" }, this.marked, h("label", { for: this.marked.id }, marked)),
      h("button", { type: "button", class: "plain", click: () => this.clear() }, "Clear"),
      h("p", { class: "note" }, "The period applies to the whole page, the other filters to the log."));
    const soon = afterPause(300, changed);
    this.changed = changed;
    this.element.addEventListener("input", () => {
      this.own.hidden = this.range.value !== "own";
      soon();
    });
  }

  clear() {
    this.element.reset();
    this.own.hidden = true;
    this.changed();
  }

  /** Only these, from now on. */
  set({ text = "", marked = false }) {
    this.text.value = text;
    this.marked.checked = marked;
    this.changed();
  }

  /** The times alone, for charts. */
  times() {
    const found = new URLSearchParams();
    const put = (name, seconds) => Number.isFinite(seconds) && found.set(name, seconds.toFixed(3));
    if (this.range.value === "own") {
      if (this.since.value) put("since", new Date(this.since.value).getTime() / 1000);
      if (this.until.value) put("until", new Date(this.until.value).getTime() / 1000 + 1);
    } else if (this.range.value) {
      put("since", Date.now() / 1000 - Number(this.range.value));
    }
    return found;
  }

  all() {
    const found = this.times();
    if (this.text.value.trim()) found.set("text", this.text.value.trim());
    if (this.marked.checked) found.set("marked", "true");
    return found;
  }

  get plain() {
    return ![...this.all().keys()].length;
  }
}

function label(input, words) {
  return h("span", { class: "field" }, h("label", { for: input.id }, words), input);
}

export class Log {
  /**
   * @param {string} name of the stream
   * @param {Filter} filter what is looked for
   * @param {{heads: [string, string][], cells: (row: object) => (Node | string)[]}} columns of the table
   */
  constructor(name, filter, columns) {
    this.path = `/v1/dashboard/streams/${encodeURIComponent(name)}`;
    this.filter = filter;
    this.columns = columns;
    this.body = h("tbody");
    this.told = h("p", { class: "note", role: "status" });
    this.older = h("button", { type: "button", hidden: true, click: () => this.#older() }, "Show older");
    this.csv = h("a", { download: true }, "CSV");
    this.json = h("a", { download: true }, "JSON");
    this.element = h("section", { "aria-labelledby": "log" },
      h("h2", { id: "log" }, "Log"), filter.element,
      h("p", { class: "export" }, "Export the matching entries: ", this.csv, " ", this.json),
      this.told,
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Log table" },
        h("table", { class: "log" }, h("thead", {}, h("tr", {}, columns.heads.map(([words, kind]) => h("th", { scope: "col", class: kind }, words)))), this.body)),
      this.older);
    this.asked = 0;
    this.extended = false;
    this.fresh = calmly(500, () => this.#newer());
  }

  /** Load the rows again from the start, with the current filter. */
  async load() {
    const turn = ++this.asked;
    this.extended = false;
    const query = this.filter.all();
    this.csv.href = `${this.path}/export.csv?${query}`;
    this.json.href = `${this.path}/export.json?${query}`;
    const found = await this.#ask({});
    if (turn !== this.asked || !found) return;
    this.top = found.number;
    fill(this.body, found.rows.map((row) => this.#row(row)));
    this.#tell(found);
  }

  heard() {
    this.fresh();
  }

  async #newer() {
    const turn = this.asked;
    const found = await this.#ask({ after: this.top ?? 0, limit: MORE });
    if (turn !== this.asked || !found) return;
    if (found.more) {
      await this.load();
      return;
    }
    this.top = found.number;
    if (!found.rows.length) return;
    this.body.prepend(...found.rows.map((row) => this.#row(row)));
    const most = this.extended ? Infinity : KEPT;
    while (this.body.rows.length > most) {
      this.body.lastElementChild.remove();
      this.reached = Number(this.body.lastElementChild.dataset.n);
      this.older.hidden = false;
    }
    this.#words();
  }

  async #older() {
    const turn = this.asked;
    this.extended = true;
    const found = await this.#ask({ before: this.reached, limit: MORE });
    if (turn !== this.asked || !found) return;
    put(this.body, found.rows.map((row) => this.#row(row)));
    this.#tell(found);
  }

  async #ask(more) {
    const query = this.filter.all();
    for (const [name, value] of Object.entries({ limit: PAGE, ...more })) query.set(name, value);
    try {
      return (await ask(`${this.path}/rows?${query}`)).said;
    } catch (error) {
      say(this.told, `The log cannot be read: ${error.message}`);
      return null;
    }
  }

  #tell(found) {
    this.reached = found.reached;
    this.more = found.more;
    this.older.hidden = !found.more;
    this.#words();
  }

  #words() {
    const n = this.body.rows.length;
    if (!n && !this.more) say(this.told, this.filter.plain ? "Nothing has happened yet." : "No entry matches.");
    else if (this.more) say(this.told, `The latest ${many(n, "entry", "entries")}${this.filter.plain ? "" : " that match"}; searched back to number ${count(this.reached)}.`);
    else say(this.told, `${many(n, "entry", "entries")}${this.filter.plain ? "" : " found"} in total.`);
    say(this.older, this.filter.plain ? "Show older" : "Search further back");
  }

  #row(row) {
    const cells = this.columns.cells(row);
    return h("tr", { class: row.marked ? "marked" : null, "data-n": row.n },
      cells.map((cell, i) => h(i ? "td" : "th", { scope: i ? null : "row", class: this.columns.heads[i][1] }, cell)));
  }
}
