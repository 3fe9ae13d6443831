/**
 * The client of rankd for browsers and Node: one module without dependencies.
 *
 * Scores keep every digit: whole numbers that a double holds exactly are numbers, larger ones are
 * BigInt, and decimals of more than fifteen digits are text. Submissions carry a key, so a retry
 * after a lost answer counts once.
 */

/** Milliseconds that a call may take, with all its tries. */
const TIMEOUT_MS = 30_000;

/** How often a call is tried again after a failure that may pass. */
const RETRIES = 4;

/** Milliseconds before the first retry; each further one waits twice as long, and at most the last. */
const BACK_OFF_MS = 100;
const BACK_OFF_MAX_MS = 10_000;

/** Milliseconds without a byte after which a stream counts as lost: the service sends comments. */
const SILENCE_MS = 60_000;

/** Characters of one event, beyond which a stream is not one of rankd. */
const EVENT_LENGTH_MAX = 1 << 24;

const SCORE_FIELDS = new Set([
  "score", "raw_score", "previous_score", "delta", "score_min", "score_max",
]);

/** Fields with scores under names of their own. */
const SCORE_MAPS = new Set(["columns", "quantiles"]);

const RETRIED = new Set([408, 425, 429, 500, 502, 503, 504]);

/** An answer of the service that is no success. */
export class RankdError extends Error {
  /**
   * @param {number} status of the answer; 0 if there was none
   * @param {Record<string, any>} problem the body, as RFC 9457 has it
   */
  constructor(status, problem) {
    super(problem.detail ?? problem.title ?? `the service answered ${status}`);
    this.name = "RankdError";
    this.status = status;
    this.code = problem.code ?? "unavailable";
    this.applied = problem.applied ?? null;
    this.errors = problem.errors ?? [];
    this.requestId = problem.request_id ?? null;
    this.retryAfter = problem.retryAfter ?? null;
  }
}

/** Return a score as text, number or BigInt, without losing a digit. */
export function readScore(text) {
  if (typeof text !== "string") return text;
  if (!/^-?\d+(\.\d+)?$/.test(text)) return text;
  if (text.includes(".")) {
    return text.replace(/[-.]/g, "").replace(/^0+/, "").length <= 15 ? Number(text) : text;
  }
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : BigInt(text);
}

/** Read the scores of an answer, which come as text, at every depth. */
function readScores(value, field) {
  if (Array.isArray(value)) return value.map((item) => readScores(item, field));
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [
        name,
        name === "metadata" ? item : readScores(item, SCORE_MAPS.has(field) ? field : name),
      ]),
    );
  }
  if (typeof value !== "string") return value;
  return SCORE_FIELDS.has(field) || SCORE_MAPS.has(field) ? readScore(value) : value;
}

/** Write a body; a BigInt is written as text, which the service takes for a score. */
function write(body) {
  return JSON.stringify(body, (_, value) => (typeof value === "bigint" ? String(value) : value));
}

/** Return the query of a path, without the parameters that are not given. */
function query(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null);
  return given.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&");
}

function path(strings, ...values) {
  return strings.reduce((all, part, index) => all + encodeURIComponent(String(values[index - 1])) + part);
}

const pause = (milliseconds, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(done, milliseconds);
    function done() {
      signal?.removeEventListener("abort", abort);
      resolve(undefined);
    }
    function abort() {
      clearTimeout(timer);
      reject(signal.reason);
    }
    if (signal?.aborted) abort();
    else signal?.addEventListener("abort", abort, { once: true });
  });

function backOff(tries, retryAfter) {
  const longest = Math.min(BACK_OFF_MAX_MS, BACK_OFF_MS * 2 ** tries);
  const wait = longest * (0.5 + Math.random() / 2);
  return retryAfter === null ? wait : Math.max(wait, retryAfter * 1000);
}

/** A connection to one service. */
export class Rankd {
  /**
   * @param {string} url such as https://ranks.example
   * @param {object} [options]
   * @param {string} [options.token] an API key, or a player's token
   * @param {number} [options.timeout] milliseconds for a call with all its tries
   * @param {number} [options.retries] tries after the first
   * @param {typeof fetch} [options.fetch] in place of the platform's
   */
  constructor(url, options = {}) {
    this.url = url.replace(/\/+$/, "");
    this.timeout = options.timeout ?? TIMEOUT_MS;
    this.retries = options.retries ?? RETRIES;
    this._token = options.token ?? null;
    this._fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
  }

  /** Submit a score. The receipt has rank, previous rank, verdict, and the same for each window. */
  submit(board, player, score, options = {}) {
    const { key = crypto.randomUUID(), signal, ...rest } = options;
    const scored = score === undefined || score === null ? {} : { score };
    return this._call("POST", path`/v1/boards/${board}/scores`, {
      body: { player, ...scored, ...rest, key },
      signal,
    });
  }

  /** Add to a player's score. */
  add(board, player, delta, options = {}) {
    return this.submit(board, player, undefined, { ...options, delta });
  }

  /** Submit many scores in one commit; a result for each, a receipt or a refusal. */
  async submitMany(scores, options = {}) {
    const keyed = scores.map((score) => ({ key: crypto.randomUUID(), ...score }));
    const answer = await this._call("POST", "/v1/scores:batch", {
      body: { scores: keyed },
      signal: options.signal,
    });
    return answer.results;
  }

  /** Begin a run: its token goes with one submission, as `run`. */
  startRun(board, player) {
    return this._call("POST", path`/v1/boards/${board}/runs`, { body: { player } });
  }

  /** The best players of a board, as a page. */
  top(board, limit = 10, options = {}) {
    return this.page(board, { limit, ...options });
  }

  /** A page of standings: limit, offset, from_rank or cursor, window, segment, score_min, … */
  page(board, options = {}) {
    return this._read(path`/v1/boards/${board}/standings`, options);
  }

  /** Every standing of a ranking, best first, page by page as they are asked for. */
  async *walk(board, options = {}) {
    let cursor;
    do {
      const page = await this.page(board, { limit: 1000, ...options, cursor });
      yield* page.standings;
      cursor = page.next_cursor;
    } while (cursor);
  }

  /** One player's standing; null for a player without one. */
  async standing(board, player, options = {}) {
    try {
      return await this._read(path`/v1/boards/${board}/standings/${player}`, options);
    } catch (error) {
      if (error instanceof RankdError && error.code === "not_ranked") return null;
      throw error;
    }
  }

  /** A player with its neighbours: above, below, absent, window, segment. */
  around(board, player, options = {}) {
    return this._read(path`/v1/boards/${board}/standings/${player}/around`, options);
  }

  /** The standings around a rank: range, window, segment. */
  aroundRank(board, rank, options = {}) {
    return this._read(path`/v1/boards/${board}/around/${rank}`, options);
  }

  /** Some players, ranked among themselves. */
  lookup(board, players, options = {}) {
    const { signal, ...which } = options;
    return this._call("POST", `${path`/v1/boards/${board}/standings:lookup`}?${this._query(which)}`, {
      body: { players },
      signal,
      safe: true,
    });
  }

  /** A player and its friends, ranked among themselves. */
  friends(board, player, options = {}) {
    return this._read(path`/v1/boards/${board}/friends/${player}`, options);
  }

  /** The rank of a score, or the score of a rank or a percentile. */
  projection(board, options) {
    return this._read(path`/v1/boards/${board}/projection`, options);
  }

  /** The scores of a ranking as a histogram, with quantiles. */
  distribution(board, options = {}) {
    return this._read(path`/v1/boards/${board}/distribution`, options);
  }

  /** One player on every board. */
  standings(player, options = {}) {
    return this._read(path`/v1/players/${player}/standings`, options);
  }

  /** A player's submissions to a board, newest first, a page at a time. */
  history(board, player, options = {}) {
    return this._read(path`/v1/boards/${board}/history/${player}`, options);
  }

  /** All boards. */
  async boards(options = {}) {
    return (await this._read("/v1/boards", options)).boards;
  }

  /** One board: its definition, open windows, next reset and server time. */
  board(board, options = {}) {
    return this._read(path`/v1/boards/${board}`, options);
  }

  /** The windows of a board, open, closed and scheduled. */
  async windows(board, options = {}) {
    return (await this._read(path`/v1/boards/${board}/windows`, options)).windows;
  }

  /** A player's name, attributes and friends. */
  player(player, options = {}) {
    return this._read(path`/v1/players/${player}`, options);
  }

  /** Set a player's name, attributes or visibility; attributes that are not named stay. */
  updatePlayer(player, profile) {
    return this._call("PATCH", path`/v1/players/${player}`, { body: profile });
  }

  /** Set a player's friends. */
  setFriends(player, friends) {
    return this._call("PUT", path`/v1/players/${player}/friends`, { body: { friends } });
  }

  /**
   * The events of a board as they happen: `state` first, then `change`, `overtaken` and `window`.
   * A lost connection is opened again, and goes on from the last event. Leaving the loop, or
   * aborting `signal`, ends it.
   */
  async *stream(board, options = {}) {
    const { signal, ...which } = options;
    let last = null;
    for (let tries = 0; ; tries++) {
      let wait = null;
      try {
        for await (const event of this._events(board, which, last, signal)) {
          last = event.position;
          tries = 0;
          yield event;
        }
      } catch (error) {
        if (signal?.aborted) return;
        if (error instanceof RankdError && !RETRIED.has(error.status) && error.status !== 0) throw error;
        wait = error.retryAfter ?? null;
      }
      try {
        await pause(backOff(Math.min(tries, 10), wait), signal);
      } catch {
        return;
      }
    }
  }

  /** A part of a board as it is now, again after each change of it. */
  async *watch(board, options = {}) {
    const live = new LiveBoard();
    for await (const event of this.stream(board, options)) {
      if (live.apply(event)) yield live;
    }
  }

  async *_events(board, which, last, signal) {
    const ended = new AbortController();
    const stop = () => ended.abort(signal?.reason);
    signal?.addEventListener("abort", stop, { once: true });
    let silence;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => ended.abort(new Error("the stream is silent")), SILENCE_MS);
    };
    try {
      heard();
      const resume = last === null ? {} : { last_event_id: last };
      const response = await this._fetch(
        `${this.url}${path`/v1/boards/${board}/stream`}?${this._query({ ...which, ...resume })}`,
        { headers: this._headers({ accept: "text/event-stream" }), signal: ended.signal },
      );
      if (!response.ok) throw await failure(response);
      const decoder = new TextDecoder();
      let text = "";
      for await (const bytes of chunks(response.body)) {
        heard();
        text += decoder.decode(bytes, { stream: true });
        const blocks = text.split("\n\n");
        text = blocks.pop() ?? "";
        if (text.length > EVENT_LENGTH_MAX) throw new RankdError(0, { detail: "an event has no end" });
        for (const block of blocks) {
          const event = readEvent(block);
          if (event) yield event;
        }
      }
    } finally {
      clearTimeout(silence);
      signal?.removeEventListener("abort", stop);
      ended.abort();
    }
  }

  _query(parameters) {
    return query({ numbers: "string", ...parameters });
  }

  _headers(more) {
    return this._token === null ? more : { authorization: `Bearer ${this._token}`, ...more };
  }

  _read(where, options) {
    const { signal, ...parameters } = options;
    return this._call("GET", `${where}?${this._query(parameters)}`, { signal });
  }

  async _call(method, where, { body, signal } = {}) {
    const asked = method === "GET" || where.includes("?") ? where : `${where}?numbers=string`;
    const request = {
      method,
      headers: this._headers(body === undefined ? {} : { "content-type": "application/json" }),
      body: body === undefined ? undefined : write(body),
    };
    const over = Date.now() + this.timeout;
    for (let tries = 0; ; tries++) {
      const error = await this._try(asked, request, over, signal);
      if (!(error instanceof Error)) return error.answer;
      const wait = backOff(tries, error.retryAfter ?? null);
      if (!mayPass(error) || tries >= this.retries || Date.now() + wait > over) throw error;
      await pause(wait, signal);
    }
  }

  /** Return the answer, or the error that may pass; throw if the caller gave up. */
  async _try(where, request, over, signal) {
    const timeout = AbortSignal.timeout(Math.max(1, over - Date.now()));
    const both = signal ? AbortSignal.any([signal, timeout]) : timeout;
    try {
      const response = await this._fetch(`${this.url}${where}`, { ...request, signal: both });
      if (!response.ok) return await failure(response);
      const text = await response.text();
      return { answer: text === "" ? null : readScores(JSON.parse(text), "") };
    } catch (error) {
      if (signal?.aborted) throw error;
      return new RankdError(0, { detail: `the service cannot be reached: ${error.message}`, applied: "unknown" });
    }
  }
}

function mayPass(error) {
  return error.status === 0 || RETRIED.has(error.status);
}

async function failure(response) {
  const problem = await response.json().catch(() => ({}));
  const seconds = Number(response.headers.get("retry-after"));
  return new RankdError(response.status, {
    ...problem,
    retryAfter: Number.isFinite(seconds) && seconds > 0 ? seconds : null,
  });
}

/** Yield the parts of a body; not all browsers can iterate over one. */
async function* chunks(body) {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function readEvent(block) {
  let event = null;
  let data = null;
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data = line.slice(5).trim();
  }
  if (event === null || data === null) return null;
  return { event, ...readScores(JSON.parse(data), "") };
}

/** A part of a board as it is now, put together from the events of a stream. */
export class LiveBoard {
  constructor() {
    /** Where it is true; null before the first event. */
    this.position = null;
    this.total = 0;
    this.window = "";
    this.segment = null;
    this.state = "open";
    this.stale = false;
    this.top = 0;
    this._rows = new Map();
    this._hidden = [];
  }

  /** Take an event; return whether the board differs. */
  apply(event) {
    this.position = event.position;
    if (event.event === "state") {
      this.window = event.window;
      this.segment = event.segment;
      this.state = event.state;
      this.top = event.top;
      this._rows.clear();
      this._put(event.standings);
    } else if (event.event === "change") {
      for (const player of event.left) this._rows.delete(player);
      this._put(event.rows);
    } else {
      return false;
    }
    this.total = event.total;
    this.stale = event.stale ?? false;
    return true;
  }

  _put(rows) {
    this._hidden = rows.filter((row) => row.player === null);
    for (const row of rows) if (row.player !== null) this._rows.set(row.player, row);
  }

  /** All standings, best first: the top, and the followed player with its neighbours. */
  get rows() {
    return [...this._rows.values(), ...this._hidden].sort((one, other) => place(one) - place(other));
  }

  /** The best of the board. */
  get standings() {
    return this.rows.filter((row) => place(row) <= this.top);
  }
}

const place = (row) => row.ordinal ?? row.rank;
