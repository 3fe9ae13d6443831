// The service: audit trail, keys, webhooks, health, live rates.

import { call, get, post, put, remove, route } from "/assets/console_api.js";
import { boardChoice, refresh } from "/assets/console_boards.js";
import {
  ask, button, card, facts, field, form, h, heading, shown, table, tag, text,
} from "/assets/console_dom.js";

export async function audit(query = "") {
  const given = Object.fromEntries(new URLSearchParams(query));
  const { boards } = await get("/v1/boards");
  const found = await get("/v1/facts", { administrative: given.kind || given.player ? "" : "true", limit: 100, ...given });
  const filters = form("Filter", async (values) => {
    const named = Object.entries(values).filter(([, value]) => value !== "");
    location.hash = `#audit?${new URLSearchParams(named)}`;
  },
  boardChoice(boards.map((one) => one.name)),
  field("Kind", "kind", { value: given.kind ?? "" }), field("Player", "player", { value: given.player ?? "" }),
  field("Actor", "actor", { value: given.actor ?? "" }), field("Since", "since", { value: given.since ?? "" }),
  field("Until", "until", { value: given.until ?? "" }));
  const next = new URLSearchParams({ ...given, after: found.next_after ?? "" });
  return [
    heading("Audit trail"),
    card(null, filters),
    card(null, table([
      ["Position", (fact) => fact.position, true], ["At", (fact) => fact.at], ["Kind", (fact) => fact.kind],
      ["Board", (fact) => fact.board], ["Player", (fact) => fact.player], ["Actor", (fact) => fact.actor],
      ["Address", (fact) => fact.address], ["Request", (fact) => fact.request_id],
      ["Body", (fact) => h("details", {}, h("summary", {}, "show"), h("pre", {}, JSON.stringify(fact.body, null, 2)))],
    ], found.facts, "No fact matches.")),
    found.next_after ? h("a", { href: `#audit?${next}` }, "Later facts") : null,
  ];
}

const SCOPES = ["read", "submit", "moderate", "admin"];

export async function keys() {
  const { keys: found } = await get("/v1/keys");
  const made = form("Create", async (values, shownForm) => {
    const scopes = new FormData(shownForm).getAll("scope");
    const boards = values.boards.split(/[\s,]+/).filter(Boolean);
    const created = await post("/v1/keys", {
      scopes,
      ...(values.title ? { title: values.title } : {}),
      ...(boards.length ? { boards } : {}),
      ...(values.expires ? { expires: values.expires } : {}),
    });
    await ask("The new key", "It is shown only this once.", "I have kept it", async () => {},
      h("textarea", { readOnly: true, value: created.key, rows: 2 }));
    refresh("The key is valid");
  },
  field("Title", "title", { maxLength: 128 }),
  h("fieldset", {}, h("legend", {}, "Scopes"), SCOPES.map((scope) =>
    h("label", { class: "check" }, h("input", { type: "checkbox", name: "scope", value: scope, checked: scope === "read" }), scope))),
  field("Boards, parted by commas; all if empty", "boards"), field("Expires, such as 30d", "expires"));
  return [
    heading("Keys"),
    card(null, table([
      ["Id", (key) => key.id], ["Title", (key) => key.title],
      ["Scopes", (key) => (key.signing ? `signs (${key.signing})` : key.scopes.join(", "))],
      ["Boards", (key) => key.boards?.join(", ") ?? "all"], ["Created", (key) => key.created],
      ["Last used", (key) => key.last_used], ["Expires", (key) => key.expires],
      ["", (key) => h("div", { class: "actions" }, button("Revoke", async () => {
        const done = await ask(`Revoke ${key.id}?`, "It opens nothing any more, on every node.", "Revoke",
          () => remove(route`/v1/keys/${key.id}`));
        if (done) refresh(`${key.id} is revoked`);
      }, "danger small"))],
    ], found, "No key: the service is open to every process on this machine.")),
    card("New key", made),
  ];
}

export async function webhooks(name) {
  if (name) return deliveries(name);
  const { webhooks: found } = await get("/v1/webhooks");
  const made = form("Set", async (values, shownForm) => {
    const events = new FormData(shownForm).getAll("event");
    const boards = values.boards.split(/[\s,]+/).filter(Boolean);
    const put_ = await put(route`/v1/webhooks/${values.name}`, {
      url: values.url, events, ...(boards.length ? { boards } : {}),
    });
    if (put_.secret) {
      await ask("The secret", "It signs each delivery, and is shown only this once.", "I have kept it", async () => {},
        h("textarea", { readOnly: true, value: put_.secret, rows: 2 }));
    }
    refresh(`${values.name} is set`);
  },
  field("Name", "name", { required: true }), field("Address", "url", { required: true, type: "url", placeholder: "https://…" }),
  field("Boards, parted by commas; all if empty", "boards"),
  h("fieldset", {}, h("legend", {}, "Events"), ["window.opened", "window.sealed", "window.final", "review.held", "reward.given"].map((event) =>
    h("label", { class: "check" }, h("input", { type: "checkbox", name: "event", value: event, checked: event.startsWith("window") }), event))));
  return [
    heading("Webhooks"),
    card(null, table([
      ["Name", (one) => h("a", { href: `#webhooks/${encodeURIComponent(one.name)}` }, text(one.name))], ["Address", (one) => one.url],
      ["Events", (one) => one.events.join(", ")], ["Boards", (one) => one.boards.join(", ")],
      ["State", (one) => tag(one.state)], ["Delivered through", (one) => one.delivered_through, true],
      ["", (one) => h("div", { class: "actions" }, button("Delete", async () => {
        const done = await ask(`Delete ${one.name}?`, "Nothing is posted to it any more.", "Delete", () => remove(route`/v1/webhooks/${one.name}`));
        if (done) refresh(`${one.name} is deleted`);
      }, "danger small"))],
    ], found, "No webhook yet.")),
    card("New webhook", made),
  ];
}

async function deliveries(name) {
  const { deliveries: found } = await get(route`/v1/webhooks/${name}/deliveries`);
  const replay = form("Replay", async ({ from }) => {
    await post(`${route`/v1/webhooks/${name}`}:replay`, { from: Number(from) });
    refresh("The events are delivered again");
  }, field("From position", "from", { required: true, inputMode: "numeric" }));
  return [
    heading(`Deliveries of ${name}`, h("a", { href: "#webhooks" }, "All webhooks")),
    card(null, replay),
    card(null, table([
      ["Tried at", (one) => one.tried_at], ["Event", (one) => one.type], ["Board", (one) => one.board],
      ["Position", (one) => one.position, true], ["State", (one) => tag(one.state)],
      ["Attempts", (one) => one.attempts, true], ["Status", (one) => one.status, true], ["Problem", (one) => one.problem],
      ["Next try", (one) => one.next_try],
    ], found, "No delivery since the start of this node.")),
  ];
}

export async function health() {
  const [ready, clock] = await Promise.all([
    call("GET", "/readyz").catch((error) => ({ status: "not ready", problem: error.message })),
    get("/v1/clock").catch(() => null),
  ]);
  const live = h("dl", { class: "figures" });
  const all = h("div", { class: "scroll" });
  const stop = follow(live, all);
  const shownHealth = [
    heading("Health"),
    card("Service", facts([...Object.entries(ready), ...Object.entries(clock ?? {})]
      .map(([name, value]) => [name.replaceAll("_", " "), value]))),
    card("Live", live),
    card("Metrics", all),
  ];
  shownHealth.stop = stop;
  return shownHealth;
}

const EVERY_MS = 2000;

/** Show rates from two scrapes of the metrics, again and again; return a function that stops it. */
function follow(live, all) {
  let before = null;
  let stopped = false;
  const look = async () => {
    try {
      const now = { at: performance.now(), samples: samples(await call("GET", "/metrics")) };
      if (before) {
        const seconds = (now.at - before.at) / 1000;
        live.replaceChildren(...rates(before.samples, now.samples, seconds));
      }
      before = now;
      all.replaceChildren(table([["Metric", (row) => row[0]], ["Value", (row) => row[1], true]], [...now.samples]));
    } catch (error) {
      live.replaceChildren(h("p", { class: "trouble" }, error.message));
    }
    if (!stopped) setTimeout(look, EVERY_MS);
  };
  look();
  return () => { stopped = true; };
}

function samples(body) {
  const found = new Map();
  for (const line of body.split("\n")) {
    const at = line.lastIndexOf(" ");
    if (line && !line.startsWith("#") && at > 0) found.set(line.slice(0, at), Number(line.slice(at + 1)));
  }
  return found;
}

function rates(before, now, seconds) {
  const growth = new Map();
  for (const [name, value] of now) {
    const [family] = name.split("{");
    if (family.endsWith("_total")) growth.set(family, (growth.get(family) ?? 0) + value - (before.get(name) ?? 0));
  }
  return [...growth].map(([name, grown]) =>
    h("div", {}, h("dt", {}, `${name.replace(/^rankd_|_total$/g, "").replaceAll("_", " ")} a second`), h("dd", {}, shown(Math.round((grown / seconds) * 10) / 10))));
}
