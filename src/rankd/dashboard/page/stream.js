// A part of a board, followed by server-sent events and put together from them.
//
// It is read by fetch, not by EventSource, which can send no key. A lost stream is opened again
// from the last event on; meanwhile whoever uses it may ask in another way.

const AGAIN_MS_MIN = 250;
const AGAIN_MS_MAX = 5000;
const SILENCE_MS = 60000; // The service sends a comment more often.

const placeOf = (row) => row.ordinal ?? row.rank;

class LiveBoard {
  /** `parse` reads JSON; `changed` is called with the board, `lost` when it is not live any more. */
  constructor(path, headers, { parse, changed, lost }) {
    Object.assign(this, { path, headers, parse, changed, lost });
    this.isLive = false;
    this.position = null;
    this.rows = new Map();
    this.hidden = []; // Rows of hidden players have no id: each change has all of them.
    this.ending = new AbortController();
    this.failures = 0;
    this.run();
  }

  close() {
    this.isLive = false;
    this.ending.abort();
  }

  async run() {
    while (!this.ending.signal.aborted) {
      try {
        await this.read();
      } catch {
        // The service is away, or does not stream: it is tried again.
      }
      if (this.ending.signal.aborted) return;
      const wasLive = this.isLive;
      this.isLive = false;
      if (wasLive) this.lost();
      const wait = Math.min(AGAIN_MS_MIN * 2 ** this.failures, AGAIN_MS_MAX);
      this.failures += 1;
      await new Promise((done) => setTimeout(done, wait * (0.75 + Math.random() / 2)));
    }
  }

  async read() {
    const headers = { ...this.headers, accept: "text/event-stream" };
    if (this.position !== null) headers["last-event-id"] = String(this.position);
    const silence = new AbortController();
    const signal = AbortSignal.any([this.ending.signal, silence.signal]);
    let timer = setTimeout(() => silence.abort(), SILENCE_MS);
    try {
      const response = await fetch(this.path, { headers, signal, cache: "no-store", credentials: "omit" });
      if (!response.ok) return;
      let text = "";
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS);
        const blocks = (text + value).split("\n\n");
        text = blocks.pop();
        for (const block of blocks) this.take(block);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  take(block) {
    this.failures = 0;
    const fields = new Map();
    for (const line of block.split("\n")) {
      const colon = line.indexOf(":");
      if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 1).trimStart());
    }
    if (fields.has("data")) this.apply(fields.get("event"), this.parse(fields.get("data")));
    else if (this.position !== null && !this.isLive) this.show(); // Resumed, and nothing changed.
  }

  apply(name, event) {
    this.position = event.position;
    if (name === "state") {
      const { total, stale, state, opens_at, window } = event;
      Object.assign(this, { total, stale, state, opens_at, window });
      this.rows.clear();
      this.put(event.standings);
    } else if (name === "change") {
      Object.assign(this, { total: event.total, stale: event.stale });
      for (const player of event.left) this.rows.delete(player);
      this.put(event.rows);
    } else {
      return;
    }
    this.show();
  }

  put(rows) {
    this.hidden = rows.filter((row) => row.player === null);
    for (const row of rows) if (row.player !== null) this.rows.set(row.player, row);
  }

  show() {
    this.isLive = true;
    this.changed(this);
  }

  /** Return the rows of some places, in order. */
  between(first, last) {
    const all = [...this.rows.values(), ...this.hidden];
    const some = all.filter((row) => placeOf(row) >= first && placeOf(row) <= last);
    return some.sort((one, other) => placeOf(one) - placeOf(other));
  }

  /** Return the best, as a page of the API. */
  page(top) {
    const { total, stale, state, opens_at, position } = this;
    return { total, stale, state, opens_at, as_of: position, standings: this.between(1, top) };
  }

  /** Return a player's neighbourhood as the API does, with the edges made up. */
  around(player, reach) {
    const own = this.rows.get(player);
    if (!own) return { absent: true };
    const count = Math.min(2 * reach + 1, this.total);
    const first = Math.min(Math.max(placeOf(own) - reach, 1), this.total - count + 1);
    const { total, stale } = this;
    return { total, stale, standings: this.between(first, first + count - 1) };
  }
}

globalThis.LiveBoard = LiveBoard;
