// Players: search, one player with its standings, history and state; reviews; retractions.

import { get, post, remove, route } from "/assets/console_api.js";
import { boardChoice, refresh } from "/assets/console_boards.js";
import {
  ask, button, card, choice, facts, field, form, h, heading, link, plot, reason, shown, table, tag, text, toast,
} from "/assets/console_dom.js";

export async function players(query = "") {
  const find = form("Find", async (values) => {
    location.hash = `#players?${encodeURIComponent(values.query)}`;
  }, field("Beginning of a name or an id", "query", { value: query, type: "search", maxLength: 256 }));
  const found = query ? (await get("/v1/players", { query, limit: 50 })).players : [];
  return [
    heading("Players"),
    card(null, find),
    query
      ? card(null, table([
        ["Player", (one) => link(`players/${encodeURIComponent(one.player)}`, one.player)],
        ["Name", (one) => one.name],
        ["Attributes", (one) => Object.entries(one.attributes).map(([name, value]) => `${name} ${value}`).join(", ")],
      ], found, "No player's name or id begins so. A player without a profile opens by its whole id:"),
      found.length ? null : link(`players/${encodeURIComponent(query)}`, query))
      : null,
  ];
}

const STATES = [
  ["ban", "Ban", "The player leaves all rankings, and its submissions are refused."],
  ["hide", "Hide", "The player leaves all rankings; its submissions are counted unseen."],
  ["shadow", "Shadow", "As hidden, but the player's own token sees its standing as before."],
  ["restore", "Restore", "The player returns, with everything that was counted meanwhile."],
];

export async function player(id, board) {
  const [profile, { standings }, { boards }] = await Promise.all([
    get(route`/v1/players/${id}`).catch((error) => {
      if (error.status === 404) return { player: id, name: null, attributes: {}, friends: [], states: [] };
      throw error;
    }),
    get(route`/v1/players/${id}/standings`),
    get("/v1/boards"),
  ]);
  const chosen = board || standings[0]?.board || boards[0]?.name;
  return [
    heading(profile.name ?? id, tag(profile.state ?? "active"), STATES.map((state) => stateButton(id, state))),
    h("div", { class: "grid" },
      card("Profile", facts([
        ["Id", id], ["Name", profile.name], ["Visibility", profile.visibility],
        ...Object.entries(profile.attributes), ["Friends", profile.friends.join(", ")],
        ...(profile.states ?? []).map((one) => [one.state, `${one.reason ?? ""} ${one.until ? `until ${shown(one.until)}` : ""}`]),
      ])),
      card("Standings", table([
        ["Board", (one) => link(`players/${encodeURIComponent(id)}/${encodeURIComponent(one.board)}`, one.board)],
        ["Window", (one) => one.window], ["Rank", (one) => one.rank, true],
        ["Score", (one) => one.score, true], ["Of", (one) => one.total, true],
      ], standings, "The player is ranked nowhere."))),
    chosen ? card(`Rank over time on ${chosen}`, await ranks(chosen, id)) : null,
    chosen ? card(`Submissions to ${chosen}`, await history(chosen, id)) : null,
  ];
}

function stateButton(id, [verb, label, explanation]) {
  return button(label, async () => {
    const done = await ask(`${label} ${id}?`, explanation, label, ({ reason: why, until, boards }) => {
      const named = boards?.split(/[\s,]+/).filter(Boolean);
      return post(`${route`/v1/players/${id}`}:${verb}`, {
        reason: why,
        ...(until ? { until } : {}),
        ...(named?.length ? { boards: named } : {}),
      });
    }, reason(), ...(verb === "restore" ? [] : [
      field("Until, such as 2026-12-31T00:00:00Z; for ever if empty", "until"),
      field("Boards, parted by commas; all if empty", "boards"),
    ]));
    if (done) refresh(`${id}: ${verb} is done`);
  }, verb === "ban" ? "danger small" : "quiet small");
}

async function ranks(board, id) {
  const { points } = await get(route`/v1/boards/${board}/history/${id}/ranks`);
  return plot(points.map((point) => point.rank), `The rank of ${id} over time`, { lowIsBest: true });
}

async function history(board, id) {
  const { facts: found } = await get(route`/v1/boards/${board}/history/${id}`, { limit: 50 });
  return table([
    ["Position", (fact) => fact.position, true], ["At", (fact) => fact.at], ["Kind", (fact) => fact.kind],
    ["Score", (fact) => fact.score ?? fact.delta, true], ["Status", (fact) => (fact.status ? tag(fact.status) : "")],
    ["Build", (fact) => fact.build],
    ["", (fact) => h("div", { class: "actions" }, button("Retract", () => retractOne(board, fact.position)))],
  ], found, "No submission to this board.");
}

async function retractOne(board, position) {
  const effect = await post(route`/v1/boards/${board}/retractions`, { position, reason: "a preview" }, { dry_run: "true" });
  const done = await ask(`Retract the submission at ${shown(position)}?`,
    `${shown(effect.players)} player, ${shown(effect.changes.length + effect.more)} changed standings.`, "Retract",
    ({ reason: why }) => post(route`/v1/boards/${board}/retractions`, { position, reason: why }), reason());
  if (done) refresh("The submission is retracted");
}

export async function reviews(state = "held") {
  const found = await get("/v1/reviews", { state: state === "all" ? "" : state, limit: 50 });
  const select = choice("State", "state", ["held", "flagged", "approved", "rejected", "all"], state);
  select.querySelector("select").addEventListener("change", (event) => {
    location.hash = `#reviews/${event.target.value}`;
  });
  return [
    heading("Reviews", h("span", { class: "note" }, `${shown(found.open)} open`), select),
    card(null, table([
      ["At", (one) => one.at],
      ["Board", (one) => one.board],
      ["Player", (one) => link(`players/${encodeURIComponent(one.player)}/${encodeURIComponent(one.board)}`, one.player)],
      ["Score", (one) => one.score ?? one.delta, true],
      ["Why", (one) => one.reasons.map((why) => `${why.rule}: ${shown(why.observed)}, limit ${shown(why.limit)}`).join("; ")],
      ["State", (one) => tag(one.state)],
      ["Decided by", (one) => one.decided_by],
      ["", (one) => h("div", { class: "actions" },
        button("Evidence", () => evidence(one)), " ",
        ["held", "flagged"].includes(one.state) ? [decision(one, "approve", "Approve"), " ", decision(one, "reject", "Reject")] : null)],
    ], found.reviews, "Nothing to review.")),
  ];
}

function decision(review, verb, label) {
  return button(label, async () => {
    const explanation = verb === "approve"
      ? "The submission counts at its original position."
      : "The submission never counts; one that was only flagged is retracted.";
    const done = await ask(`${label} the submission of ${review.player}?`, explanation, label,
      ({ reason: why }) => post(`${route`/v1/reviews/${review.id}`}:${verb}`, { reason: why }), reason());
    if (done) refresh(`Review ${review.id}: ${verb} is done`);
  });
}

async function evidence(review) {
  const found = await get(route`/v1/reviews/${review.id}`);
  await ask(`${review.player} on ${review.board}`, "The submissions before this one, newest first.", "Close", async () => {}, table([
    ["At", (fact) => fact.at], ["Score", (fact) => fact.score ?? fact.delta, true],
    ["Status", (fact) => fact.status ?? ""], ["Build", (fact) => fact.build],
  ], found.evidence ?? [], "There are none."));
}

export async function retractions() {
  const { boards } = await get("/v1/boards");
  const outcome = h("div", {});
  const made = form("Dry run", async (values) => {
    const { board, reason: why, ...given } = values;
    const body = { reason: why, ...conditions(given) };
    const path = board ? route`/v1/boards/${board}/retractions` : "/v1/retractions";
    const effect = await post(path, body, { dry_run: "true" });
    outcome.replaceChildren(...preview(path, body, effect));
  },
  boardChoice(boards.map((one) => one.name)),
  field("Player", "player"), field("Build", "build"), field("Position", "position", { inputMode: "numeric" }),
  field("Submission key", "key"), field("Since", "since", { placeholder: "2026-11-14T09:00:00Z" }), field("Until", "until"),
  reason());
  const undo = form("Take back", async ({ board, position, reason: why }) => {
    const path = board ? route`/v1/boards/${board}/retractions/${position}` : route`/v1/retractions/${position}`;
    const effect = await remove(path, { reason: why });
    toast(`${shown(effect.submissions)} submissions count again`);
  }, boardChoice(boards.map((one) => one.name)), field("Position of the retraction", "position", { required: true }), reason());
  return [
    heading("Retractions"),
    card("Take submissions back", h("p", { class: "note" }, "All conditions that are given must hold. The earlier best of each player returns by itself."), made, outcome),
    card("Take a retraction back", undo),
  ];
}

function conditions(given) {
  const named = Object.entries(given).filter(([, value]) => value !== "");
  return Object.fromEntries(named.map(([name, value]) => [name, name === "position" ? Number(value) : value]));
}

function preview(path, body, effect) {
  const apply = form(`Retract ${shown(effect.submissions)} submissions`, async () => {
    const done = await post(path, body);
    refresh(`${shown(done.submissions)} submissions of ${shown(done.players)} players are retracted`);
  });
  return [
    h("p", {}, `${shown(effect.submissions)} submissions of ${shown(effect.players)} players.`),
    table([
      ["Board", (one) => one.board], ["Player", (one) => one.player], ["Window", (one) => one.window],
      ["Score", (one) => one.previous_score, true], ["After", (one) => one.score, true],
      ["Rank", (one) => one.previous_rank, true], ["After", (one) => one.rank, true],
    ], effect.changes, "No standing would change."),
    effect.more ? h("p", { class: "note" }, `and ${shown(effect.more)} more`) : null,
    effect.submissions ? apply : null,
  ].filter(Boolean);
}
