// The connection over which the page hears what is new: it comes back by itself, from the last entry that was heard.

const SILENCE = 25_000;
const LONGEST = 15_000;

export class Live {
  /**
   * @param {(news: object) => void} heard new rows of a stream
   * @param {(state: "live" | "lost" | "store", text: string) => void} stands how the connection is
   */
  constructor(heard, stands) {
    this.heard = heard;
    this.stands = stands;
    this.place = "";
    this.source = null;
    this.waits = 500;
    this.later = null;
    this.spoken = performance.now();
    setInterval(() => this.#listen(), 5_000);
    addEventListener("online", () => this.open());
    addEventListener("pagehide", () => this.source?.close());
    addEventListener("pageshow", (event) => event.persisted && this.open());
  }

  /** Begin behind these entries: the number of the last known one, by stream. */
  start(positions) {
    this.place = Object.entries(positions).map(([name, number]) => `${name}=${number}`).join(",");
    this.open();
  }

  open() {
    clearTimeout(this.later);
    this.source?.close();
    this.spoken = performance.now();
    const source = new EventSource(`/v1/events?after=${encodeURIComponent(this.place)}`);
    this.source = source;
    for (const kind of ["hello", "beat", "news", "store"]) {
      source.addEventListener(kind, (event) => {
        this.spoken = performance.now();
        this.waits = 500;
        this.place = event.lastEventId || this.place;
        const said = JSON.parse(event.data);
        if (kind === "news") this.heard(said);
        else if ("failed" in said) this.stands(said.failed ? "store" : "live", said.message ?? "");
      });
    }
    source.addEventListener("error", () => {
      if (source !== this.source) return;
      this.stands("lost", "");
      // A refused connection is not tried again by the browser.
      if (source.readyState === EventSource.CLOSED) this.#again();
    });
  }

  #again() {
    clearTimeout(this.later);
    this.later = setTimeout(() => this.open(), this.waits);
    this.waits = Math.min(LONGEST, 2 * this.waits);
  }

  #listen() {
    if (this.source && performance.now() - this.spoken > SILENCE) {
      this.stands("lost", "");
      this.open();
    }
  }
}
