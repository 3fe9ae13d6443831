// The live page: follows the public API by a stream, and shows what it says. While there is no
// stream it asks about once a second.
//
// Three rules hold throughout. Whatever a stranger may have written goes through textContent.
// Nothing is asked for more often than the pace allows, and less when nobody looks or nobody
// answers. And an answer that belongs to an earlier choice is dropped, however late it comes.

const TOP_ROWS = 25;
const NEIGHBOURS = 3;

const PACE_MS = 1000;
const HIDDEN_MS = 30000; // A tab in the background needs only to be roughly right when it is back.
const FAILING_MS_MAX = 30000;
const REFUSED_MS = 10000; // What was refused once will be again, until somebody changes something.
const ANSWER_MS_MAX = 8000;
const STALE_TEXT = "The service has lost touch with its data. What you see may be old. This page keeps trying.";
const HEALTH_MS = 5000; // How often the position is asked for, which grows without a change here.
const BOARDS_MS = 15000; // Definitions, windows and the server's clock change rarely.
const SHIFT_MS = 6000; // A movement can be read for so long; half of it in full colour.
const GLIDE_MS = 550;
const RATE_MS = 5000; // The rate is that of about the last five seconds.
const PROFILES_ASKED = 12; // Whose attributes suggest segments.

const KEY_SLOT = "rankd.key";

const at = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");

// ------------------------------------------------------------------------------- choices

const choice = { board: "", window: "", segment: "", player: "" };

/** Take the choices of a link: from its query too, where the part behind # does not say. */
function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const linked = new URLSearchParams(location.search);
  for (const name of Object.keys(choice)) choice[name] = given.get(name) ?? linked.get(name) ?? "";
}

/** Keep the choices behind #, and the query no longer: it would bring back what was dropped. */
function writeAddress() {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(choice)) if (value) given.set(name, value);
  history.replaceState(null, "", `${location.pathname}#${given}`);
}

/** Change what is shown, forget what belonged to the choice before, and ask at once. */
function choose(changes) {
  Object.assign(choice, changes);
  writeAddress();
  const another = ["board", "window", "segment"].some((name) => name in changes);
  if (another) forgetList();
  forgetPinned();
  round += 1;
  hurry();
}

// -------------------------------------------------------------------------------- asking

class Refused extends Error {
  constructor(status, problem, retrySeconds) {
    super(problem.detail || problem.title || `The service answered ${status}.`);
    this.status = status;
    this.code = problem.code || "";
    this.retrySeconds = retrySeconds;
  }
}

class Unanswered extends Error {}

let keyInMemory = "";

function storedKey() {
  try {
    return sessionStorage.getItem(KEY_SLOT) || keyInMemory;
  } catch {
    return keyInMemory; // Storage is off: the key lasts until the page is loaded again.
  }
}

function storeKey(key) {
  keyInMemory = key;
  try {
    if (key) sessionStorage.setItem(KEY_SLOT, key);
    else sessionStorage.removeItem(KEY_SLOT);
  } catch {
    // As above.
  }
}

async function ask(path, tag = "") {
  const headers = {};
  if (storedKey()) headers.authorization = `Bearer ${storedKey()}`;
  if (tag) headers["if-none-match"] = tag;
  let response, text;
  try {
    const signal = AbortSignal.timeout(ANSWER_MS_MAX);
    response = await fetch(path, { headers, signal, cache: "no-store", credentials: "omit" });
    text = await response.text();
  } catch {
    throw new Unanswered();
  }
  if (response.status === 304) return { known: true };
  const body = parse(text);
  if (!response.ok) {
    throw new Refused(response.status, body, Number(response.headers.get("retry-after")) || 0);
  }
  return { known: false, body, tag: response.headers.get("etag") || "" };
}

/** Parse JSON; a number that JavaScript would round, or strip of its decimals, stays text. */
function parse(text) {
  const exact = (name, value, context) =>
    typeof value === "number" && context?.source && String(value) !== context.source
      ? context.source
      : value;
  try {
    return JSON.parse(text, exact);
  } catch {
    return {};
  }
}

const part = encodeURIComponent;

function which(more = {}) {
  const query = new URLSearchParams(more);
  if (choice.window) query.set("window", choice.window);
  if (choice.segment) query.set("segment", choice.segment);
  return query;
}

// ----------------------------------------------------------------------------- the pace

let round = 0; // Grows with each choice.
let failures = 0;
let answeredAt = null;
let timer = 0;
let asking = false;
let again = false;

function hurry() {
  clearTimeout(timer);
  if (asking) again = true;
  else turn();
}

async function turn() {
  asking = true;
  let wait = PACE_MS;
  const mine = round;
  try {
    await refresh(mine);
    if (mine === round) answered();
  } catch (error) {
    wait = mine === round ? failed(error) : 0;
  }
  asking = false;
  if (again) {
    again = false;
    turn();
  } else if (wait !== null) {
    timer = setTimeout(turn, document.hidden ? Math.max(wait, HIDDEN_MS) : wait);
  }
}

function answered() {
  const back = failures > 0;
  failures = 0;
  answeredAt = new Date();
  const stale = listStale || pinnedStale;
  showState(stale ? "lost" : "live", stale ? "Stale" : "Live");
  showTrouble(stale ? STALE_TEXT : "");
  document.body.toggleAttribute("data-stale", stale);
  if (back) say("The service answers again.");
}

/** Show what went wrong; return how long to wait, or null to wait for the reader. */
function failed(error) {
  if (error instanceof Refused && error.status === 401) return askForKey();
  if (error instanceof Refused && error.status < 500 && error.status !== 429) {
    showState("lost", "Refused");
    showTrouble(sentence(error));
    return REFUSED_MS;
  }
  failures += 1;
  const since = answeredAt ? ` What you see is from ${clockTime(answeredAt)}.` : "";
  const why = error instanceof Refused ? `${error.message}.` : "The service does not answer.";
  showState("lost", "No answer");
  showTrouble(`${why.replace(/\.\.$/, ".")}${since} This page keeps trying.`);
  document.body.dataset.stale = "";
  if (!(error instanceof Refused || error instanceof Unanswered)) console.error(error);
  const backedOff = Math.min(PACE_MS * 2 ** (failures - 1), FAILING_MS_MAX);
  const jitter = 0.75 + Math.random() / 2; // So that a thousand pages do not come back at once.
  return Math.max(backedOff * jitter, (error.retrySeconds || 0) * 1000);
}

function sentence(error) {
  if (error.status === 403 && !choice.board) {
    return "This key may not list boards. Open this page with #board= and a name behind its address.";
  }
  const text = error.message.charAt(0).toUpperCase() + error.message.slice(1);
  return text.endsWith(".") ? text : `${text}.`;
}

function askForKey() {
  showState("waiting", "Locked");
  showTrouble(storedKey() ? "The key is unknown or was revoked." : "");
  storeKey("");
  showTitle("rankd", "Its boards are not open to everybody.");
  at("shown").hidden = true;
  at("choices").hidden = true;
  at("key-form").hidden = false;
  at("key").focus();
  return null;
}

// ------------------------------------------------------------------------------- reading

let boards = [];
let boardsAt = -Infinity;
let serverAhead = 0; // Milliseconds by which the server's clock is ahead of this one.
let listTag = "";
let listOf = "";
let listStale = false; // Part of what the tag stands for: an answer 304 leaves it as it is.
let pinnedStale = false;

async function refresh(mine) {
  if (performance.now() - boardsAt > BOARDS_MS || !boards.length) await readBoards(mine);
  if (mine !== round || !choice.board) return;
  follow();
  if (live.isLive) {
    await readPosition();
    return;
  }
  const [list, near] = await Promise.all([readList(), readPinned()]);
  if (mine !== round) return;
  if (list.body) showList(list.body, list.tag);
  if (near) showPinned(near);
}

// ----------------------------------------------------------------------------- the stream

let live = null; // The LiveBoard of this choice.
let positionAt = 0;

/** Follow what is chosen; the same again changes nothing. */
function follow() {
  const query = which({ top: TOP_ROWS });
  if (choice.player) {
    query.set("player", choice.player);
    query.set("around", NEIGHBOURS);
  }
  const path = `/v1/boards/${part(choice.board)}/stream?${query}`;
  const key = storedKey();
  if (live && live.path === path && live.key === key) return;
  live?.close();
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  live = new LiveBoard(path, headers, { parse, changed: showLive, lost: hurry });
  live.key = key;
}

function showLive(board) {
  if (board !== live) return;
  const stale = listStale || pinnedStale;
  listOf = "";
  showList(board.page(TOP_ROWS), "");
  if (choice.player) showPinned(board.around(choice.player, NEIGHBOURS));
  meter(board.position);
  answeredAt = new Date();
  if (failures > 0 || stale !== (listStale || pinnedStale)) answered();
}

async function readPosition() {
  if (performance.now() - positionAt < HEALTH_MS) return;
  positionAt = performance.now();
  meter((await ask("/healthz")).body.position);
}

async function readBoards(mine) {
  const asked = Date.now();
  const { body } = await listBoards();
  if (mine !== round) return;
  boards = body.boards;
  boardsAt = performance.now();
  serverAhead = Date.parse(body.server_time) - (asked + Date.now()) / 2;
  if (!boards.some((board) => board.name === choice.board)) chooseFirst();
  showChoices();
}

/** A key may be for one board only: then that board is the list. */
async function listBoards() {
  try {
    return await ask("/v1/boards");
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 403 || !choice.board) throw error;
    const { body } = await ask(`/v1/boards/${part(choice.board)}`);
    return { body: { boards: [body], server_time: body.server_time } };
  }
}

/** Choose a board for who named none, or none that there is: then the rest was meant for that one. */
function chooseFirst() {
  const first = boards.find((board) => board.total > 0) || boards[0];
  if (choice.board) Object.assign(choice, { window: "", segment: "" });
  choice.board = first ? first.name : "";
}

async function readList() {
  const path = `/v1/boards/${part(choice.board)}/standings?${which({ limit: TOP_ROWS })}`;
  const answer = await ask(path, listOf === path ? listTag : "");
  listOf = path;
  if (answer.known) meter((await ask("/healthz")).body.position); // The page is the same, time is not.
  else meter(answer.body.as_of);
  return answer;
}

let pinnedAgainAt = 0;

async function readPinned() {
  if (!choice.player || performance.now() < pinnedAgainAt) return null;
  const query = which({ above: NEIGHBOURS, below: NEIGHBOURS });
  const path = `/v1/boards/${part(choice.board)}/standings/${part(choice.player)}/around?${query}`;
  try {
    return (await ask(path)).body;
  } catch (error) {
    if (!(error instanceof Refused) || error.code !== "not_ranked") throw error;
    pinnedAgainAt = performance.now() + REFUSED_MS;
    return { absent: true };
  }
}

// -------------------------------------------------------------------------------- showing

function showState(state, text) {
  at("state").dataset.state = state;
  setText("state-text", text);
}

function showTrouble(text) {
  setText("trouble", text);
  at("trouble").hidden = !text;
}

/** Write only what differs, so that nothing is read aloud twice and no selection is lost. */
function setText(id, text) {
  if (at(id).textContent !== text) at(id).textContent = text;
}

function say(text) {
  at("said").textContent = text;
}

function showTitle(title, subtitle) {
  at("title").firstElementChild.textContent = title;
  setText("subtitle", subtitle);
  document.title = title === "rankd" ? title : `${title} · rankd`;
}

function showChoices() {
  const board = boards.find((each) => each.name === choice.board);
  at("key-form").hidden = true;
  at("empty").hidden = Boolean(board);
  at("shown").hidden = !board;
  at("choices").hidden = !board;
  if (!board) {
    showFirstSteps();
    return;
  }
  const title = board.definition.title || board.name;
  showTitle(title, described(board.definition));
  setText("caption", `The best ${TOP_ROWS} of ${title}`);
  at("board-choice").hidden = boards.length < 2;
  showOptions(at("board"), boards.map((each) => [each.name, each.definition.title || each.name]));
  at("board").value = board.name;
  showWindows(board);
  const segments = board.definition.segments || [];
  at("segment-choice").hidden = !segments.length;
  if (document.activeElement !== at("segment")) at("segment").value = choice.segment;
  at("segment").title = `Everybody, or for example ${segments[0]}:…`;
  showHeads(board.definition);
  showReset();
}

const RULES = {
  best: "The best score of a player counts",
  latest: "The latest score of a player counts",
  sum: "The scores of a player add up",
  first: "The first score of a player counts",
};

function described(definition) {
  const rule = RULES[definition.rule] || "";
  const lower = definition.direction === "lower" ? "; lower is better" : "";
  return `${rule}${lower}.`;
}

function showHeads(definition) {
  const columns = (definition.columns || []).map((column) => column.name);
  document.querySelector("#standings th.score").textContent =
    columns.length > 1 ? columns.join(" · ") : "Score";
}

function showOptions(select, options) {
  const same =
    select.length === options.length &&
    options.every(([value, text], n) => select[n].value === value && select[n].text === text);
  if (!same) select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
}

/** Return the window that is shown: the one that was chosen, or what the service takes for none. */
function chosenWindow(board) {
  const names = board.windows.map((window) => window.name);
  return choice.window || (names.includes("all") ? "all" : names[0]);
}

function showWindows(board) {
  const names = [...new Set(board.windows.map((window) => window.name))];
  const chosen = chosenWindow(board);
  if (chosen && !names.includes(chosen)) names.push(chosen);
  at("window-choice").hidden = names.length < 2;
  const key = names.join("\n");
  if (at("windows").dataset.names !== key) {
    at("windows").dataset.names = key;
    at("windows").replaceChildren(...names.map(windowChoice));
  }
  for (const radio of at("windows").querySelectorAll("input")) radio.checked = radio.value === chosen;
}

function capitalized(name) {
  return name.charAt(0).toUpperCase() + name.slice(1);
}

function windowChoice(name) {
  const label = document.createElement("label");
  const radio = document.createElement("input");
  radio.type = "radio";
  radio.name = "window";
  radio.value = name;
  const text = document.createElement("span");
  text.textContent = name === "all" ? "All time" : capitalized(name);
  label.append(radio, text);
  return label;
}

function showFirstSteps() {
  showTitle("rankd", "The service runs and waits for its first board.");
  const url = `${location.origin}/v1/boards/arena`;
  const json = "-H 'content-type: application/json'";
  setText(
    "first-steps",
    `curl -X PUT ${url} ${json} -d '{"rule": "best"}'\n` +
      `curl ${url}/scores ${json} -d '{"player": "ada", "score": 4300}'`,
  );
}

// ---------------------------------------------------------------------------- the figures

let meterAt = null;
let rate = null;

function meter(position) {
  const now = performance.now();
  if (meterAt && now > meterAt.now && position >= meterAt.position) {
    const elapsed = now - meterAt.now;
    const seen = ((position - meterAt.position) / elapsed) * 1000;
    const weight = 1 - Math.exp(-elapsed / RATE_MS);
    rate = rate === null ? seen : rate + weight * (seen - rate);
    setText("rate", rate >= 100 ? grouped(Math.round(rate)) : rate.toFixed(1));
  }
  meterAt = { now, position };
  setText("as-of", grouped(position));
}

/** Put commas between the thousands; digits are only ever moved apart. */
function grouped(number) {
  const [whole, decimals] = String(number).split(".");
  const apart = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return decimals === undefined ? apart : `${apart}.${decimals}`;
}

function clockTime(date) {
  return date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

/** Return when a scheduled window opens, or an open one ends. */
function turnsAt(window) {
  return window.opens_at || window.end;
}

/** Return the window that is shown; where it neither opens nor ends, the next that does. */
function nextTurn() {
  const board = boards.find((each) => each.name === choice.board);
  if (!board) return null;
  const turning = board.windows.filter(turnsAt);
  const own = turning.find((window) => window.name === chosenWindow(board));
  const first = turning.sort((a, b) => Date.parse(turnsAt(a)) - Date.parse(turnsAt(b)))[0];
  return own || first || null;
}

function resetLabel(window) {
  if (!window) return "Next reset";
  return window.opens_at ? `${capitalized(window.name)} opens in` : `Next ${window.name} reset`;
}

function showReset() {
  const window = nextTurn();
  setText("reset-label", resetLabel(window));
  if (!window) {
    setText("reset", "never");
    return;
  }
  const left = Math.ceil((Date.parse(turnsAt(window)) - (Date.now() + serverAhead)) / 1000);
  setText("reset", left > 0 ? countdown(left) : "now");
  if (left === 0 || left === -2) boardsAt = -Infinity; // The next window has another end.
}

function countdown(seconds) {
  const two = (number) => String(number).padStart(2, "0");
  const days = Math.floor(seconds / 86400);
  const hours = Math.floor(seconds / 3600) % 24;
  const clock = `${two(hours)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return days ? `${days} d ${clock}` : clock;
}

// ------------------------------------------------------------------------------ the lists

/** A table body whose rows are kept by player, so that they can be seen to move. */
class List {
  constructor(body, small) {
    this.body = body;
    this.small = small;
    this.rows = new Map();
  }

  clear() {
    this.rows.clear();
    this.body.replaceChildren();
  }

  show(standings) {
    const before = this.tops();
    const held = document.activeElement;
    const first = this.rows.size === 0;
    const rows = standings.map((standing) => this.row(standing, first));
    const kept = new Set(standings.map(rowKey));
    for (const [player, row] of this.rows) {
      if (!kept.has(player)) {
        row.element.remove();
        this.rows.delete(player);
      }
    }
    rows.forEach((row, place) => {
      const there = this.body.children[place];
      if (there !== row.element) this.body.insertBefore(row.element, there || null);
    });
    if (held !== document.activeElement && this.body.contains(held)) {
      held.focus({ preventScroll: true }); // Moving an element takes the focus from it.
    }
    if (!first) this.glide(before);
  }

  tops() {
    if (calm.matches || document.hidden) return null;
    return new Map([...this.rows].map(([player, row]) => [player, row.element.offsetTop]));
  }

  glide(before) {
    if (!before) return;
    for (const [player, row] of this.rows) {
      const moved = before.has(player) ? before.get(player) - row.element.offsetTop : null;
      if (moved === 0) continue;
      const start =
        moved === null ? { opacity: 0 } : { transform: `translateY(${moved}px)` };
      row.element.animate([start, {}], { duration: GLIDE_MS, easing: "cubic-bezier(.2,.8,.2,1)" });
    }
  }

  row(standing, first) {
    const key = rowKey(standing);
    let row = this.rows.get(key);
    const known = row !== undefined;
    if (!known) {
      row = makeRow(standing.player, this.small);
      this.rows.set(key, row);
    }
    const score = shownScore(standing);
    if (known) {
      if (row.rank !== standing.rank) shift(row, row.rank - standing.rank);
      if (row.score.textContent !== score) flash(row.element);
    } else if (!first) {
      shift(row, null);
    }
    row.rank = standing.rank;
    row.anonymous = standing.player === null;
    row.element.dataset.rank = standing.rank;
    row.element.classList.toggle("chosen", !row.anonymous && standing.player === choice.player);
    row.place.textContent = grouped(standing.rank);
    row.score.textContent = score;
    row.name.textContent = row.anonymous ? "Anonymous" : standing.name || standing.player;
    row.id.textContent = standing.name ? standing.player : "";
    return row;
  }

  age(now) {
    for (const row of this.rows.values()) {
      if (row.shiftedAt === 0) continue;
      if (now - row.shiftedAt > SHIFT_MS) {
        row.shift.replaceChildren();
        row.shiftedAt = 0;
      } else if (now - row.shiftedAt > SHIFT_MS / 2) {
        row.shift.firstChild.dataset.age = "old";
      }
    }
  }
}

// Rows of anonymous players are told apart by their ranks: a null player is each of them.
function rowKey(standing) {
  return standing.player === null ? `\0${standing.ordinal || standing.rank}` : standing.player;
}

function makeRow(player, small) {
  const element = document.createElement("tr");
  const cell = (kind, name = "td") => {
    const made = document.createElement(name);
    made.className = kind;
    return made;
  };
  const row = { element, rank: 0, shiftedAt: 0, place: cell("rank"), shift: cell("move"), score: cell("score") };
  const who = cell("player", "th");
  who.scope = "row";
  const pin = document.createElement("button");
  pin.type = "button";
  pin.className = "who";
  row.name = document.createElement("span");
  row.name.className = "name";
  row.name.dir = "auto"; // Also shuts in whatever would turn the text around.
  row.id = document.createElement("span");
  row.id.className = "id";
  row.id.dir = "auto";
  pin.append(row.name, row.id);
  if (player === null) pin.disabled = true;
  else pin.addEventListener("click", () => choose({ player }));
  who.append(pin);
  element.append(row.place, ...(small ? [] : [row.shift]), who, row.score);
  return row;
}

function shownScore(standing) {
  const columns = standing.columns ? Object.values(standing.columns) : [standing.score];
  return columns.map(grouped).join(" · ");
}

/** Show how far a row moved since the answer before; null says that it came in. */
function shift(row, by) {
  const mark = document.createElement("span");
  mark.className = "shift";
  mark.dataset.way = by === null ? "new" : by > 0 ? "up" : "down";
  if (by !== null) {
    const word = document.createElement("span");
    word.className = "unseen";
    word.textContent = by > 0 ? "up " : "down ";
    mark.append(word);
  }
  mark.append(by === null ? "new" : grouped(Math.abs(by)));
  row.shift.replaceChildren(mark);
  row.element.dataset.moved = by === null ? "new" : by; // Stays when the mark has faded.
  row.shiftedAt = performance.now();
}

function flash(element) {
  element.classList.add("scored");
  requestAnimationFrame(() => requestAnimationFrame(() => element.classList.remove("scored")));
}

const top25 = new List(at("rows"), false);
const near = new List(at("neighbours"), true);

function forgetList() {
  top25.clear();
  listTag = "";
  listStale = false;
}

function forgetPinned() {
  near.clear();
  pinnedAgainAt = 0;
  pinnedStale = false;
  at("pinned").hidden = true;
  at("find-note").hidden = true;
}

function whyEmpty(page) {
  if (page.opens_at) return `Opens ${new Date(page.opens_at).toLocaleString()}.`;
  return ["sealed", "final"].includes(page.state) ? "Nobody was ranked here." : "Nobody is ranked here yet.";
}

function showList(page, tag) {
  listTag = tag;
  listStale = page.stale;
  setText("total", grouped(page.total));
  at("nobody").hidden = page.standings.length > 0;
  setText("nobody", whyEmpty(page));
  top25.show(page.standings);
  if (document.activeElement === at("segment")) suggestSegments();
}

function showPinned(page) {
  pinnedStale = Boolean(page.stale);
  const own = page.absent ? null : page.standings.find((each) => each.player === choice.player);
  at("pinned").hidden = !own;
  at("find-note").hidden = Boolean(own);
  if (!own) {
    setText("find-note", `${choice.player} is not ranked here.`);
    return;
  }
  const first = near.rows.size === 0;
  const share = Math.max(own.rank / page.total * 100, 0.01);
  setText("place-rank", `#${grouped(own.rank)}`);
  const within = share < 10 ? Number(share.toFixed(2)) : Math.ceil(share);
  setText("place-of", `of ${grouped(page.total)}, top ${within}%`);
  near.show(page.standings);
  if (first) say(`${own.name || own.player} holds rank ${grouped(own.rank)} of ${grouped(page.total)}.`);
}

// ------------------------------------------------------------------------------ listening

/** Take a name that is on the list for the player who bears it; anything else is an id. */
function playerMeant(text) {
  const wanted = text.trim();
  const alike = (row) => row.name.textContent.toLowerCase() === wanted.toLowerCase();
  for (const [player, row] of top25.rows) if (!row.anonymous && player !== wanted && alike(row)) return player;
  return wanted;
}

function segmentMeant(text) {
  const board = boards.find((each) => each.name === choice.board);
  const [only, ...more] = board?.definition.segments || [];
  const plain = text.trim();
  return plain && !plain.includes(":") && only && !more.length ? `${only}:${plain}` : plain;
}

let suggestedIn = -1; // The round in which segments were suggested last.

/** Suggest segments, once for each choice: those that the players on the list belong to. */
async function suggestSegments() {
  if (suggestedIn === round || !top25.rows.size) return;
  suggestedIn = round;
  const board = boards.find((each) => each.name === choice.board);
  const named = [...top25.rows].filter(([, row]) => !row.anonymous);
  const players = named.map(([player]) => player).slice(0, PROFILES_ASKED);
  const asked = players.map((player) => ask(`/v1/players/${part(player)}`).catch(() => null));
  const found = new Set();
  for (const answer of await Promise.all(asked)) {
    for (const name of board?.definition.segments || []) {
      const value = answer?.body.attributes?.[name];
      if (value !== undefined) found.add(`${name}:${value}`);
    }
  }
  at("segment-values").replaceChildren(...[...found].sort().map((value) => new Option("", value)));
}

function listen() {
  at("board").addEventListener("change", () => {
    at("segment").value = "";
    at("segment-values").replaceChildren();
    choose({ board: at("board").value, window: "", segment: "" });
    showChoices();
    say(`${at("title").textContent} is shown.`);
  });
  at("windows").addEventListener("change", (event) => {
    choose({ window: event.target.value });
    say(`Window ${event.target.value} is shown.`);
  });
  at("segment").addEventListener("focus", suggestSegments);
  at("segment").addEventListener("change", () => {
    const segment = segmentMeant(at("segment").value);
    at("segment").value = segment;
    choose({ segment });
  });
  at("choices").addEventListener("submit", (event) => event.preventDefault());
  at("find").addEventListener("submit", (event) => {
    event.preventDefault();
    if (at("player").value.trim()) choose({ player: playerMeant(at("player").value) });
  });
  at("unpin").addEventListener("click", () => {
    at("player").value = "";
    choose({ player: "" });
    at("player").focus();
  });
  at("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const key = at("key").value.trim();
    at("key").value = "";
    if (!/^[\x21-\x7e]+$/.test(key)) {
      showTrouble("A key is made of plain letters, digits and signs.");
      return;
    }
    storeKey(key);
    hurry();
  });
  addEventListener("hashchange", () => {
    if (!location.hash.includes("=")) return; // A place on the page, not a choice.
    readAddress();
    choose({ ...choice });
    showChoices();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && at("key-form").hidden) hurry();
  });
}

function tick() {
  if (document.hidden) return;
  showReset();
  top25.age(performance.now());
}

readAddress();
listen();
setInterval(tick, 1000);
turn();
