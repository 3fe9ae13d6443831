// <rankd-board board="arena" top="10" player="p42">: a live leaderboard for any page.
//
// It follows the public stream of the service that the script came from, or of `src`. What players
// wrote goes through textContent. Look: CSS variables (--rankd-ink, --rankd-soft, --rankd-paper,
// --rankd-line, --rankd-accent, --rankd-up, --rankd-down, --rankd-font, --rankd-radius) and parts.

const HOME = new URL(import.meta.url).origin;

const RETRY_MS = 1000;
const RETRY_MS_MAX = 30_000;
const SILENCE_MS = 60_000; // The service sends a comment more often.
const MOVED_MS = 6000; // A movement can be read for so long.
const GLIDE_MS = 500;
const EVENT_LENGTH_MAX = 1 << 22;

const STYLE = `
:host { display: block; font: 15px/1.45 var(--rankd-font, ui-sans-serif, system-ui, sans-serif);
  color: var(--rankd-ink, light-dark(#1c1b18, #eceae4)); color-scheme: light dark;
  background: var(--rankd-paper, light-dark(#fff, #1a1d1c)); padding: 16px;
  border: 1px solid var(--rankd-line, light-dark(#e7e2d8, #303432)); border-radius: var(--rankd-radius, 14px);
  font-variant-numeric: tabular-nums lining-nums; }
:host([hidden]) { display: none; }
header { display: flex; align-items: baseline; justify-content: space-between; gap: 12px; margin-bottom: 8px; }
h2 { font-size: 1.15em; margin: 0; overflow-wrap: anywhere; }
.note { color: var(--rankd-soft, light-dark(#6a665d, #9d9a91)); font-size: .88em; margin: 0; }
table { width: 100%; border-collapse: collapse; }
td, th { padding: 7px 6px; border-top: 1px solid var(--rankd-line, light-dark(#ece8df, #272b29)); text-align: start; }
thead th { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.rank { width: 3.2em; text-align: end; color: var(--rankd-soft, light-dark(#6a665d, #9d9a91)); }
.move { width: 2.6em; font-size: .8em; text-align: center; }
.up { color: var(--rankd-up, light-dark(#1b7a4b, #6fd39b)); }
.down { color: var(--rankd-down, light-dark(#b0402f, #ee8f7d)); }
.score { text-align: end; white-space: nowrap; font-weight: 600; }
.name { overflow-wrap: anywhere; }
tr.mine td { background: color-mix(in srgb, var(--rankd-accent, light-dark(#1d4d45, #8fd0bf)) 12%, transparent); }
tr.apart td { border-top: 3px double var(--rankd-line, light-dark(#ece8df, #272b29)); }
`;

const shared = new CSSStyleSheet();
shared.replaceSync(STYLE);

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) {
    made.className = className;
    made.part = className;
  }
  if (text !== undefined) made.textContent = text;
  return made;
}

/** Return a score with separators, digit for digit: it comes as text. */
function shownScore(score) {
  const [whole, places] = String(score).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, "\u202f");
  return places === undefined ? grouped : `${grouped}.${places}`;
}

const placeOf = (row) => row.ordinal ?? row.rank;

const NOTES = {
  scheduled: "opens soon",
  grace: "closing",
  frozen: "frozen",
  sealed: "closed",
  final: "final",
};

class RankdBoard extends HTMLElement {
  static observedAttributes = ["board", "top", "player", "around", "window", "segment", "src", "token"];

  #rows = new Map();
  #hidden = [];
  #ranks = new Map();
  #moved = new Map();
  #top = 10;
  #total = 0;
  #state = "open";
  #opens = null;
  #position = null;
  #stop = null;
  #queued = false;
  #parts = {};

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [shared];
    const title = element("h2", "title");
    title.append(element("bdi"));
    const note = element("p", "note", "Connecting");
    note.setAttribute("role", "status");
    const head = element("header", "header");
    head.append(title, note);
    const table = element("table", "table");
    const names = document.createElement("tr");
    for (const name of ["Rank", "Movement", "Player", "Score"]) {
      const cell = element("th", "", name);
      cell.scope = "col";
      names.append(cell);
    }
    const labels = document.createElement("thead");
    labels.append(names);
    const body = document.createElement("tbody");
    table.append(labels, body);
    root.append(head, table);
    this.#parts = { title: title.firstChild, note, body, table };
  }

  connectedCallback() {
    this.#restart();
  }

  disconnectedCallback() {
    this.#stop?.abort();
    this.#stop = null;
  }

  attributeChangedCallback() {
    if (!this.isConnected || this.#queued) return;
    this.#queued = true; // Several attributes that change together begin one stream.
    queueMicrotask(() => {
      this.#queued = false;
      if (this.isConnected) this.#restart();
    });
  }

  #restart() {
    this.#stop?.abort();
    this.#stop = new AbortController();
    this.#position = null;
    this.#rows.clear();
    this.#ranks.clear();
    if (this.getAttribute("board")) this.#follow(this.#stop.signal);
    else this.#note("Name a board: <rankd-board board=\"…\">");
  }

  get #home() {
    return (this.getAttribute("src") || HOME).replace(/\/+$/, "");
  }

  #path() {
    const query = new URLSearchParams({ numbers: "string" });
    for (const name of ["top", "player", "around", "window", "segment"]) {
      if (this.hasAttribute(name)) query.set(name, this.getAttribute(name));
    }
    if (!query.has("top")) query.set("top", "10");
    if (!query.has("player")) query.delete("around"); // It is of a player.
    if (this.#position !== null) query.set("last_event_id", this.#position);
    return `${this.#home}/v1/boards/${encodeURIComponent(this.getAttribute("board"))}/stream?${query}`;
  }

  #options(signal) {
    const token = this.getAttribute("token");
    return { signal, credentials: "omit", headers: token ? { authorization: `Bearer ${token}` } : {} };
  }

  async #follow(signal) {
    this.#name(signal);
    for (let tries = 0; !signal.aborted; tries++) {
      try {
        const response = await fetch(this.#path(), this.#options(signal));
        if (!response.ok) {
          const problem = await response.json().catch(() => ({}));
          this.#note(problem.detail || `The service answered ${response.status}`);
          if (response.status < 500 && response.status !== 429) return;
        } else {
          tries = 0;
          await this.#read(response.body, signal);
        }
      } catch {
        if (signal.aborted) return;
        this.#note("Connection lost; trying again");
      }
      const wait = Math.min(RETRY_MS_MAX, RETRY_MS * 2 ** tries) * (0.5 + Math.random() / 2);
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  async #name(signal) {
    const board = this.getAttribute("board");
    this.#parts.title.textContent = board;
    try {
      const where = `${this.#home}/v1/boards/${encodeURIComponent(board)}`;
      const response = await fetch(where, this.#options(signal));
      if (response.ok) this.#parts.title.textContent = (await response.json()).definition.title || board;
    } catch {
      // The name of the board says enough.
    }
  }

  async #read(body, signal) {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let text = "";
    try {
      for (;;) {
        const silence = AbortSignal.timeout(SILENCE_MS);
        const silent = new Promise((_, reject) => silence.addEventListener("abort", () => reject(new Error("silent"))));
        const { done, value } = await Promise.race([reader.read(), silent]);
        if (done || signal.aborted) return;
        text += decoder.decode(value, { stream: true });
        const blocks = text.split("\n\n");
        text = blocks.pop();
        if (text.length > EVENT_LENGTH_MAX) throw new Error("an event has no end");
        for (const block of blocks) this.#take(block);
      }
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  #take(block) {
    const fields = Object.fromEntries(block.split("\n").map((line) => {
      const at = line.indexOf(":");
      return [line.slice(0, at), line.slice(at + 1).trim()];
    }));
    if (!fields.event || !fields.data) return;
    const event = JSON.parse(fields.data);
    this.#position = event.position;
    if (fields.event === "state") {
      this.#rows.clear();
      this.#top = event.top;
      this.#state = event.state;
      this.#opens = event.opens_at ?? null;
      this.#put(event.standings);
    } else if (fields.event === "change") {
      for (const player of event.left) this.#rows.delete(player);
      this.#put(event.rows);
    } else {
      this.dispatchEvent(new CustomEvent(`rankd-${fields.event}`, { detail: event, bubbles: true }));
      return;
    }
    this.#total = event.total;
    this.#draw(event.stale ?? false);
    this.dispatchEvent(new CustomEvent("rankd-change", { detail: { position: event.position }, bubbles: true }));
  }

  #put(rows) {
    this.#hidden = rows.filter((row) => row.player === null);
    for (const row of rows) if (row.player !== null) this.#rows.set(row.player, row);
  }

  #note(text) {
    this.#parts.note.textContent = text;
  }

  #draw(stale) {
    const { body } = this.#parts;
    const before = new Map([...body.children].map((row) => [row.dataset.player, row.getBoundingClientRect().top]));
    const rows = [...this.#rows.values(), ...this.#hidden].sort((one, other) => placeOf(one) - placeOf(other));
    let last = 0;
    const drawn = rows.map((row) => {
      const line = this.#row(row, last && placeOf(row) > last + 1);
      last = placeOf(row);
      return line;
    });
    body.replaceChildren(...drawn);
    this.#ranks = new Map(rows.map((row) => [row.player, row.rank]));
    this.#glide(before);
    const opens = this.#opens ? `opens ${new Date(this.#opens).toLocaleString()}` : NOTES[this.#state];
    const players = `${shownScore(this.#total)} ${this.#total === 1 ? "player" : "players"}`;
    this.#note([players, stale ? "perhaps old" : opens].filter(Boolean).join(" · "));
    if (!rows.length) body.append(this.#empty());
  }

  #empty() {
    const cell = element("td", "note", "No player is ranked here yet.");
    cell.colSpan = 4;
    const line = document.createElement("tr");
    line.append(cell);
    return line;
  }

  #row(row, apart) {
    const line = element("tr", "row");
    line.dataset.player = row.player ?? `#${placeOf(row)}`;
    if (row.player !== null && row.player === this.getAttribute("player")) {
      line.classList.add("mine");
      line.part.add("mine");
      line.setAttribute("aria-current", "true");
    }
    if (apart) line.classList.add("apart");
    const name = element("td", "name");
    name.append(element("bdi", "", row.name ?? row.player ?? "Anonymous"));
    line.append(element("td", "rank", String(row.rank)), this.#movement(row), name, element("td", "score", shownScore(row.score)));
    return line;
  }

  #movement(row) {
    const cell = element("td", "move");
    const before = this.#ranks.get(row.player);
    if (row.player !== null && before !== undefined && before !== row.rank) {
      this.#moved.set(row.player, { by: before - row.rank, until: Date.now() + MOVED_MS });
    }
    const moved = this.#moved.get(row.player);
    if (moved && moved.until > Date.now()) {
      cell.textContent = `${moved.by > 0 ? "▲" : "▼"}${Math.abs(moved.by)}`;
      cell.classList.add(moved.by > 0 ? "up" : "down");
      cell.setAttribute("aria-label", `${moved.by > 0 ? "up" : "down"} ${Math.abs(moved.by)}`);
    }
    return cell;
  }

  #glide(before) {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches || document.hidden) return;
    for (const line of this.#parts.body.children) {
      const was = before.get(line.dataset.player);
      if (was === undefined) continue;
      const by = was - line.getBoundingClientRect().top;
      if (by) line.animate([{ transform: `translateY(${by}px)` }, { transform: "none" }], { duration: GLIDE_MS, easing: "ease-out" });
    }
  }
}

if (!customElements.get("rankd-board")) customElements.define("rankd-board", RankdBoard);

export { RankdBoard };
