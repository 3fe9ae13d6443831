// Elements, tables, forms and dialogs. Text of others goes through textContent, always.

/** Return an element: h("td", {class: "number"}, "12"). Functions are listeners, of `on…`. */
export function h(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && key !== "list") element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  if (properties.class) element.className = properties.class;
  return element;
}

export const text = (value) => h("bdi", { class: TIME.test(value) ? "whole" : "" }, shown(value));

const TIME = /^\d{4}-\d\d-\d\dT/;

/** Return a value for people: numbers with separators, times without the T. */
export function shown(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return value.toLocaleString("en", { maximumFractionDigits: 6 });
  if (typeof value === "string" && TIME.test(value)) {
    return value.replace("T", " ").replace(/(\.\d+)?Z$/, "");
  }
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** Return a table; a column is [heading, cell of a row, whether it is a number]. */
export function table(columns, rows, none = "Nothing here.") {
  if (!rows.length) return h("p", { class: "note" }, none);
  const head = columns.map(([name, , number]) => h("th", { scope: "col", class: number ? "number" : "" }, name));
  const body = rows.map((row) =>
    h("tr", {}, columns.map(([, cell, number]) => {
      const found = cell(row);
      const content = found instanceof Node || Array.isArray(found) ? found : text(found);
      return h("td", { class: number ? "number" : "" }, content);
    })),
  );
  const named = columns.some(([name]) => name);
  const table_ = h("table", {}, named ? h("thead", {}, h("tr", {}, head)) : null, h("tbody", {}, body));
  return h("div", { class: "scroll" }, table_);
}

/** Return a table of names and values, without those that have none. */
export function facts(pairs) {
  const there = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return table([["", (pair) => pair[0]], ["", (pair) => pair[1]]], there);
}

export const card = (title, ...content) =>
  h("section", { class: "card" }, title ? h("h2", {}, title) : null, content);

export const heading = (title, ...beside) =>
  h("div", { class: "head" }, h("h1", {}, text(title)), h("div", { class: "row" }, beside));

export const tag = (state) => h("span", { class: "tag", "data-state": state }, state);

export const link = (hash, label) => h("a", { href: `#${hash}` }, text(label));

export const button = (label, act, kind = "quiet small") =>
  h("button", { type: "button", class: kind, onclick: act }, label);

/** Return an input with its label. */
export function field(label, name, properties = {}) {
  return h("label", {}, label, h("input", { name, autocomplete: "off", spellcheck: false, ...properties }));
}

export function choice(label, name, options, chosen = "") {
  const items = options.map((option) => {
    const [value, shownAs] = Array.isArray(option) ? option : [option, option];
    return h("option", { value, selected: value === chosen }, shownAs);
  });
  return h("label", {}, label, h("select", { name }, items));
}

/** Return a form that hands its values to a function; while that runs it takes no second click. */
export function form(label, submit, ...content) {
  const trouble = h("p", { class: "trouble", role: "alert", hidden: true });
  const send = h("button", { type: "submit" }, label);
  const made = h("form", {
    onsubmit: async (event) => {
      event.preventDefault();
      trouble.hidden = true;
      send.disabled = true;
      try {
        await submit(Object.fromEntries(new FormData(made)), made);
      } catch (error) {
        trouble.textContent = error.message;
        trouble.hidden = false;
      } finally {
        send.disabled = false;
      }
    },
  }, content, send, trouble);
  return made;
}

const dialog = () => document.getElementById("dialog");

/** Ask for some fields before an action; resolves with true once it is done. */
export function ask(title, explanation, label, submit, ...fields) {
  return new Promise((resolve) => {
    const shownDialog = dialog();
    const close = (done) => {
      shownDialog.close();
      resolve(done);
    };
    const made = form(label, async (values) => {
      await submit(values);
      close(true);
    }, h("p", {}, explanation), fields);
    made.append(button("Cancel", () => close(false), "quiet"));
    shownDialog.replaceChildren(h("h2", { id: "dialog-title" }, title), made);
    shownDialog.oncancel = () => resolve(false);
    shownDialog.showModal();
  });
}

export const reason = () => field("Reason, kept in the audit trail", "reason", { required: true, maxLength: 500 });

let toastTimer = 0;

export function toast(message) {
  const shownToast = document.getElementById("toast");
  shownToast.textContent = message;
  shownToast.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { shownToast.hidden = true; }, 5000);
}

/** Return bars, one for each [label, number]. */
export function bars(rows) {
  const most = Math.max(1, ...rows.map(([, number]) => number));
  return h("div", { class: "bars" }, rows.map(([label, number]) => {
    const bar = h("i", {});
    bar.style.width = `${(100 * number) / most}%`;
    return [h("span", {}, label), h("div", {}, bar), h("span", {}, shown(number))];
  }));
}

const SVG = "http://www.w3.org/2000/svg";

function shape(name, properties, content = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(properties)) made.setAttribute(key, value);
  made.textContent = content;
  return made;
}

/** Return a line through numbers, the best one on top; gaps where there is none. */
export function plot(points, label, { lowIsBest = false } = {}) {
  const known = points.filter((value) => value !== null);
  if (known.length < 2) return h("p", { class: "note" }, "Not enough points for a line yet.");
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const y = (value) => {
    const share = high === low ? 0.5 : (value - low) / (high - low);
    return 12 + 116 * (lowIsBest ? share : 1 - share);
  };
  let path = "";
  let pen = false;
  points.forEach((value, number) => {
    if (value === null) { pen = false; return; }
    const x = 60 + (580 * number) / Math.max(1, points.length - 1);
    path += `${pen ? "L" : "M"}${x.toFixed(1)} ${y(value).toFixed(1)}`;
    pen = true;
  });
  const drawn = shape("svg", { viewBox: "0 0 640 140", role: "img", "aria-label": label });
  drawn.setAttribute("class", "plot");
  const best = lowIsBest ? low : high;
  const worst = lowIsBest ? high : low;
  drawn.append(
    shape("line", { x1: 60, x2: 640, y1: 134, y2: 134 }),
    shape("path", { d: path }),
    shape("text", { x: 0, y: 16 }, shown(best)),
    shape("text", { x: 0, y: 130 }, shown(worst)),
  );
  return drawn;
}
