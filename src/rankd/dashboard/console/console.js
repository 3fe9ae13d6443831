// The console: a section for each part of the service, chosen by the address behind #.

import { Refused, call, storeKey, storedKey } from "/assets/console_api.js";
import { board, boards } from "/assets/console_boards.js";
import { card, field, form, h, heading } from "/assets/console_dom.js";
import { player, players, retractions, reviews } from "/assets/console_players.js";
import { audit, health, keys, webhooks } from "/assets/console_service.js";

const SECTIONS = [
  ["boards", "Boards", (name) => (name ? board(name) : boards())],
  ["players", "Players", (id, more, query) => (id ? player(id, more) : players(decodeURIComponent(query)))],
  ["reviews", "Reviews", (state) => reviews(state || undefined)],
  ["retractions", "Retractions", () => retractions()],
  ["audit", "Audit", (_, __, query) => audit(query)],
  ["keys", "Keys", () => keys()],
  ["webhooks", "Webhooks", (name) => webhooks(name)],
  ["health", "Health", () => health()],
];

const HEALTH_MS = 5000;

const main = document.getElementById("main");
let round = 0; // Grows with each change of the address: answers to an earlier one are dropped.
let stop = () => {};

function address() {
  const [path, query = ""] = location.hash.slice(1).split("?");
  const [section, name = "", more = ""] = path.split("/").map(decodeURIComponent);
  return { section: section || "boards", name, more, query };
}

async function show() {
  const mine = ++round;
  stop();
  stop = () => {};
  const { section, name, more, query } = address();
  for (const link of document.querySelectorAll("#sections a")) {
    if (link.hash === `#${section}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const found = SECTIONS.find(([id]) => id === section) ?? SECTIONS[0];
  document.title = `${found[1]} · rankd console`;
  let content;
  try {
    content = await found[2](name, more, query);
  } catch (error) {
    content = failed(error);
  }
  if (mine !== round) {
    content.stop?.();
    return;
  }
  stop = content.stop ?? stop;
  main.replaceChildren(...content.filter(Boolean));
}

function failed(error) {
  if (error instanceof Refused && error.status === 401) return [signIn(error)];
  const remedy = error.status === 403 ? "This key lacks the scope for it. Forget it, and open the console with another." : "";
  return [heading("It did not work"), card(null, h("p", { class: "trouble", role: "alert" }, error.message), h("p", { class: "note" }, remedy))];
}

function signIn(error) {
  return card("This service asks for a key",
    h("p", { class: "note" }, "Give one with the scope admin, or moderate for players, reviews and retractions. It stays in this tab and is forgotten when the tab closes."),
    storedKey() ? h("p", { class: "trouble" }, error.message) : null,
    form("Open", async ({ key }) => {
      storeKey(key.trim());
      signed();
      await show();
    }, field("Key", "key", { type: "password", required: true, maxLength: 4000 })));
}

function signed() {
  document.getElementById("sign-out").hidden = !storedKey();
}

async function watchHealth() {
  const shownHealth = document.getElementById("health");
  try {
    await call("GET", "/readyz");
    shownHealth.dataset.state = "good";
    shownHealth.textContent = "ready";
  } catch (error) {
    shownHealth.dataset.state = "bad";
    shownHealth.textContent = error.status ? "not ready" : "no answer";
  }
  setTimeout(watchHealth, document.hidden ? 12 * HEALTH_MS : HEALTH_MS);
}

document.getElementById("sections").append(...SECTIONS.map(([id, label]) => h("a", { href: `#${id}` }, label)));
document.getElementById("sign-out").addEventListener("click", () => {
  storeKey("");
  signed();
  show();
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", show);
signed();
show();
watchHealth();
