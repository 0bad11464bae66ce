// News of the streams: polled every second, from the last known entries on.

const PAUSE = 1_000;
const LONGEST = 15_000;

export class Live {
  /**
   * @param {(news: object) => void} heard new rows of a stream
   * @param {(state: "live" | "lost" | "store", text: string) => void} stands how the connection is
   */
  constructor(heard, stands) {
    this.heard = heard;
    this.stands = stands;
    this.positions = {};
  }

  /** Start after these entries: the number of the last known one, by stream. */
  start(positions) {
    this.positions = positions;
    this.#ask();
  }

  async #ask() {
    const after = Object.entries(this.positions).map(([name, number]) => `${name}=${number}`).join(",");
    try {
      const answer = await fetch(`/v1/dashboard/news?after=${encodeURIComponent(after)}`, { signal: AbortSignal.timeout(LONGEST) });
      if (answer.status === 401) {
        location.assign("/login");
        return;
      }
      const said = await answer.json();
      if (answer.ok) {
        for (const news of said.news) {
          this.positions[news.stream] = news.number;
          this.heard(news);
        }
        this.stands("live", "");
      } else {
        this.stands(answer.status === 503 ? "store" : "lost", said.error.message);
      }
    } catch {
      this.stands("lost", "");
    }
    setTimeout(() => this.#ask(), PAUSE);
  }
}
