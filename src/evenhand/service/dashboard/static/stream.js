// Base of the pages of all streams: the rows of a period, kept up to date, the state of the stream, and its log.

import { Filter, Log } from "/assets/log.js";
import { ask, calmly, h, say } from "/assets/page.js";

const FIRST = 500;

/**
 * The page of one stream. A kind of stream composes its page (`compose`), and implements
 * `cells(row)`, the cells of a row in the log,
 * `paint()`, which shows `rows`, the latest of the `total` ones in the selected period, and
 * `standing(stands)`, which shows the state of the stream.
 */
export class StreamPage {
  /**
   * @param {object} stream as the service lists it
   * @param {{most: number, skipped: string[], marked: string, heads: [string, string][]}} kind how many rows are kept,
   *   which operations are no rows of a window, what the filter calls marked rows, and the heads of the log
   */
  constructor(stream, { most, skipped, marked, heads }) {
    this.stream = stream;
    this.path = `/v1/dashboard/streams/${encodeURIComponent(stream.name)}`;
    this.most = most;
    this.skipped = skipped;
    this.rows = [];
    this.waiting = [];
    this.lead = h("p", { class: "lead", role: "status" });
    this.filter = new Filter(marked, () => this.reload());
    this.log = new Log(stream.name, this.filter, { heads, cells: (row) => this.cells(row) });
    this.draw = calmly(200, () => this.#draw());
    this.stand = calmly(1_000, () => this.#stand());
    this.again = calmly(3_000, () => this.#window());
    this.ready = false;
  }

  /** The page's element: its name and lead, these parts, and the log. */
  compose(brand, ...parts) {
    return h("div", {}, h("p", { class: "brand" }, brand), h("h1", {}, this.stream.name), this.lead, parts, this.log.element);
  }

  async load() {
    await Promise.all([this.#stand(), this.#window(), this.log.load()]);
    // `standing` draws with a delay; a page that has loaded is complete.
    this.#draw();
  }

  reload() {
    this.#window();
    this.log.load();
  }

  close() {
    this.closed = true;
  }

  heard(news) {
    if (news.stream !== this.stream.name) return;
    this.stand();
    this.log.heard();
    if (news.gap) this.again();
    else if (!this.ready) this.waiting.push(...news.rows);
    else this.#add(news.rows);
  }

  #add(rows) {
    const until = Number(this.filter.times().get("until") ?? Infinity);
    const fresh = rows.filter((row) => row.n > this.number && row.at < until && !this.skipped.includes(row.op));
    this.number = Math.max(this.number, rows.at(-1)?.n ?? 0);
    this.rows.push(...fresh);
    this.total += fresh.length;
    if (this.rows.length > this.most) this.rows.splice(0, this.rows.length - this.most);
    this.draw();
  }

  /** Load the latest rows first, and then all requested rows. */
  async #window() {
    this.ready = false;
    const turn = (this.turn = (this.turn ?? 0) + 1);
    for (const limit of [FIRST, this.most]) {
      const query = this.filter.times();
      query.set("limit", limit);
      let said;
      try {
        ({ said } = await ask(`${this.path}/window?${query}`));
      } catch (error) {
        say(this.lead, `The log cannot be read: ${error.message}`);
        return;
      }
      if (turn !== this.turn) return;
      Object.assign(this, { rows: said.rows, number: said.number, total: said.total });
      this.#draw();
      if (said.total <= limit) break;
    }
    this.ready = true;
    this.#add(this.waiting.splice(0));
    this.#draw();
  }

  async #stand() {
    if (this.closed) return;
    let stands;
    try {
      stands = (await ask(this.path)).said;
    } catch (error) {
      say(this.lead, error.message);
      return;
    }
    this.standing(stands);
  }

  #draw() {
    if (!this.closed) this.paint();
  }
}
