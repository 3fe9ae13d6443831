// Calls of the public API, with the key of this tab. A number that JavaScript would round stays text.

const KEY_SLOT = "rankd.console.key";
const ANSWER_MS_MAX = 60_000;

export class Refused extends Error {
  constructor(status, problem) {
    const said = problem.detail || problem.title || `The service answered ${status}.`;
    const fields = (problem.errors ?? []).map((one) => `${one.field} ${one.message}`.trim());
    super([said, ...fields.filter((field) => !said.includes(field))].join(" "));
    this.status = status;
    this.code = problem.code ?? "";
  }
}

let inMemory = "";

export function storedKey() {
  try {
    return sessionStorage.getItem(KEY_SLOT) ?? inMemory;
  } catch {
    return inMemory; // Storage is off: the key lasts until the page is loaded again.
  }
}

export function storeKey(key) {
  inMemory = key;
  try {
    if (key) sessionStorage.setItem(KEY_SLOT, key);
    else sessionStorage.removeItem(KEY_SLOT);
  } catch {
    // As above.
  }
}

export function parse(text) {
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

/** Return the answer to a call. Raises Refused, also where nothing answers. */
export async function call(method, path, body) {
  const headers = storedKey() ? { authorization: `Bearer ${storedKey()}` } : {};
  if (body !== undefined) headers["content-type"] = "application/json";
  let response, text;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
      signal: AbortSignal.timeout(ANSWER_MS_MAX),
    });
    text = await response.text();
  } catch {
    throw new Refused(0, { detail: "The service cannot be reached." });
  }
  if (!response.ok) throw new Refused(response.status, parse(text));
  return response.headers.get("content-type")?.includes("json") ? parse(text) : text;
}

export const get = (path, parameters = {}) => call("GET", withQuery(path, parameters));
export const post = (path, body = {}, parameters = {}) => call("POST", withQuery(path, parameters), body);
export const put = (path, body, parameters = {}) => call("PUT", withQuery(path, parameters), body);
export const remove = (path, parameters = {}) => call("DELETE", withQuery(path, parameters));

function withQuery(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value != null);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

/** A path with each value escaped: route`/v1/boards/${name}`. */
export function route(parts, ...values) {
  return parts.reduce((path, part, number) => path + encodeURIComponent(values[number - 1]) + part);
}
