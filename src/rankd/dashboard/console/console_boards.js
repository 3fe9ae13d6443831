// Boards: the list, one board with its windows and scores, and its definition.

import { get, post, put, remove, route } from "/assets/console_api.js";
import {
  ask, bars, button, card, choice, field, form, h, heading, link, reason, shown, table, tag, text, toast,
} from "/assets/console_dom.js";

const FIRST_DEFINITION = { title: "", rule: "best", direction: "higher", windows: ["all", "daily", "weekly"] };

export async function boards() {
  const { boards: found } = await get("/v1/boards");
  const define = form("Define", async (values) => {
    const body = values.definition.trim() || "{}";
    await put(route`/v1/boards/${values.name}`, checked(body));
    toast(`${values.name} is defined`);
    location.hash = `#boards/${encodeURIComponent(values.name)}`;
  },
  field("Name", "name", { required: true, maxLength: 64, pattern: "[A-Za-z0-9_.\\-]+" }),
  editor(JSON.stringify(FIRST_DEFINITION, null, 2)));
  define.className = "wide";
  return [
    heading("Boards"),
    card(null, table([
      ["Board", (board) => link(`boards/${encodeURIComponent(board.name)}`, board.name)],
      ["Title", (board) => board.definition.title],
      ["Rule", (board) => board.definition.rule],
      ["Windows", (board) => board.windows.map((one) => one.window).join(", ")],
      ["Players", (board) => board.total, true],
      ["Next reset", (board) => board.next_reset],
    ], found, "No board yet. Define one below.")),
    card("New board", define),
  ];
}

export async function board(name) {
  const [one, { windows }, { schedule }] = await Promise.all([
    get(route`/v1/boards/${name}`),
    get(route`/v1/boards/${name}/windows`),
    get(route`/v1/boards/${name}/schedule`, { next: 6 }),
  ]);
  return [
    heading(one.definition.title || name, tag(one.definition.rule), retire(name)),
    h("dl", { class: "figures card" }, figure("Players", one.total), figure("Next reset", one.next_reset), figure("As of", one.as_of)),
    card("Windows", windowTable(name, windows)),
    h("div", { class: "grid" }, await standings(name, one), await scores(name, one)),
    card("Coming", table([
      ["At", (step) => step.at], ["Step", (step) => step.step], ["Window", (step) => step.window],
    ], schedule, "Nothing is planned.")),
    card("Definition", definition(name, one.definition)),
    card("Corrections", await corrections(name)),
  ];
}

const figure = (label, value) => h("div", {}, h("dt", {}, label), h("dd", {}, text(value)));

function retire(name) {
  return button("Retire", async () => {
    const done = await ask("Retire the board?", `${name} takes no more scores and is listed no more. Its facts stay in the ledger.`,
      "Retire", (values) => remove(route`/v1/boards/${name}`, values), reason());
    if (done) location.hash = "#boards";
  }, "danger small");
}

function windowTable(name, windows) {
  const step = (verb, label, explanation) => (window) => button(label, async () => {
    const done = await ask(`${label} ${window.window}?`, explanation, label,
      ({ reason: why }) => post(`${route`/v1/boards/${name}`}:${verb}`, { window: window.window, reason: why }), reason());
    if (done) refresh(`${window.window}: ${verb} is done`);
  });
  const reset = step("reset", "Reset", "The window closes now, and the next one opens at the same position.");
  const freeze = step("freeze", "Freeze", "The window takes no more scores until its end.");
  const settle = step("settle", "Settle", "The standings become final; a window that is not sealed is sealed first.");
  return table([
    ["Window", (window) => window.window],
    ["State", (window) => tag(window.state)],
    ["From", (window) => window.start],
    ["To", (window) => window.end],
    ["Players", (window) => window.total, true],
    ["", (window) => h("div", { class: "actions" },
      window.state === "open" ? [reset(window), " ", freeze(window), " "] : null,
      ["open", "grace", "frozen", "sealed"].includes(window.state) ? settle(window) : null)],
  ], [...windows].reverse().slice(0, 30));
}

async function standings(name, one) {
  const windows = one.windows.map((window) => window.name);
  const page = await get(route`/v1/boards/${name}/standings`, { limit: 10, window: windows[0] });
  return card(`Top of ${page.window}`, table([
    ["Rank", (row) => row.rank, true],
    ["Player", (row) => (row.player === null ? "(anonymous)" : link(`players/${encodeURIComponent(row.player)}`, row.name ?? row.player))],
    ["Score", (row) => row.score, true],
  ], page.standings, "No player is ranked yet."));
}

async function scores(name, one) {
  const found = await get(route`/v1/boards/${name}/distribution`, { buckets: 12, window: one.windows[0]?.name });
  const rows = [...found.buckets].reverse().map((bucket) => [`${shown(bucket.score_min)} to ${shown(bucket.score_max)}`, bucket.count]);
  return card("Scores", rows.length ? bars(rows) : h("p", { class: "note" }, "No scores yet."));
}

async function corrections(name) {
  const { corrections: found } = await get(route`/v1/boards/${name}/corrections`);
  return table([
    ["Position", (one) => one.position, true], ["At", (one) => one.at], ["Kind", (one) => one.kind],
    ["Reason", (one) => one.reason], ["Windows", (one) => one.windows.join(", ")],
  ], [...found].reverse(), "Nothing was corrected.");
}

function editor(value) {
  return h("label", {}, "Definition, as JSON", h("textarea", { name: "definition", value, spellcheck: false }));
}

/** Return the text of a definition, checked as JSON: the service reads it digit for digit. */
function checked(textOfBody) {
  try {
    JSON.parse(textOfBody);
  } catch (error) {
    throw new Error(`This is not JSON: ${error.message}`);
  }
  return textOfBody;
}

function definition(name, current) {
  const outcome = h("div", { id: "preview" });
  const made = form("Preview", async ({ definition: body }) => {
    const found = await put(route`/v1/boards/${name}`, checked(body));
    outcome.replaceChildren(...changes(name, body, found));
  }, editor(JSON.stringify(current, null, 2)));
  made.className = "wide";
  made.append(h("div", { class: "row" }, button("What would the rules have caught?", async () => {
    try {
      const body = checked(made.elements.definition.value);
      outcome.replaceChildren(...caught(await put(route`/v1/boards/${name}`, body, { preview: "rules" })));
    } catch (error) {
      outcome.replaceChildren(h("p", { class: "trouble" }, error.message));
    }
  }, "quiet")));
  return [made, outcome];
}

function changes(name, body, found) {
  if (!found.changes?.length) return [h("p", { class: "note" }, "Nothing would change.")];
  const apply = form("Apply", async (values) => {
    await put(route`/v1/boards/${name}`, body, { apply: "true", ...(values.drop ? { drop_scores: "true" } : {}) });
    refresh(`${name} is redefined`);
  }, found.drops?.length
    ? h("label", { class: "check" }, h("input", { type: "checkbox", name: "drop", value: "true" }), `Drop the scores of ${found.drops.join(", ")}`)
    : null);
  return [
    table([
      ["Field", (change) => change.field], ["Before", (change) => change.before], ["After", (change) => change.after],
    ], found.changes),
    table([
      ["Window", (window) => window.window], ["Players", (window) => window.total, true],
      ["After", (window) => window.total_after, true],
      ["First", (window) => window.top[0]?.player], ["First after", (window) => window.top_after[0]?.player],
    ], found.windows ?? [], "No ranking changes."),
    apply,
  ];
}

function caught(found) {
  return [
    h("p", {}, `${shown(found.caught)} of ${shown(found.submissions)} past submissions would have been caught.`),
    table([
      ["Rule", (rule) => rule.rule], ["Then", (rule) => rule.then], ["Caught", (rule) => rule.caught, true],
      ["Such as", (rule) => rule.examples.slice(0, 3).map((one) => `${one.player}: ${shown(one.observed)}`).join(", ")],
    ], found.rules),
  ];
}

export function refresh(message) {
  toast(message);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export const boardChoice = (names, label = "Board") => choice(label, "board", [["", "all boards"], ...names.map((name) => [name, name])]);
