// Requests to the server, and its replies as JSON or as a stream of events. Knows nothing of the page.

const KEY = "localllm.key";
/** The server's base URL without a trailing slash; another application may have mounted it under a path. */
const ROOT = new URL("..", import.meta.url).href.slice(0, -1);

/** An error reply of the server. */
export class Refused extends Error {
  /** @param {number} status @param {string} code @param {string} message @param {string | null} param */
  constructor(status, code, message, param = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
  }
}

/** @type {() => Promise<void>} Asks for a key; resolves when there is a new one. */
let askForKey = async () => {};

/** @param {() => Promise<void>} how */
export function onKeyWanted(how) {
  askForKey = how;
}

/** Keeps the key for this tab only. @param {string} key */
export function keepKey(key) {
  sessionStorage.setItem(KEY, key);
}

export function hasKey() {
  return sessionStorage.getItem(KEY) !== null;
}

/**
 * @param {string} path
 * @param {any} [body] sent by POST, a file as it is, anything else as JSON, which a function makes of the number of times
 *   that the server had lost files that it refers to; undefined: GET
 * @param {AbortSignal} [signal]
 * @returns {Promise<Response>}
 */
async function fetched(path, body, signal) {
  for (let numLosses = 0; ; ) {
    /** @type {Record<string, string>} */
    const headers = { accept: "application/json" };
    const key = sessionStorage.getItem(KEY);
    if (key) headers.authorization = `Bearer ${key}`;
    const given = typeof body === "function" ? await body(numLosses) : body;
    const isFile = given instanceof Blob;
    if (given !== undefined) headers["content-type"] = isFile ? "application/octet-stream" : "application/json";
    const method = given === undefined ? "GET" : "POST";
    const response = await fetch(ROOT + path, { method, headers, signal, body: given === undefined ? null : isFile ? given : JSON.stringify(given) });
    if (response.ok) return response;
    if (response.status === 401) { await askForKey(); continue; }
    const refused = await refusal(response);
    if (refused.code !== "blob_not_found" || numLosses === 2) throw refused;
    numLosses += 1;
  }
}

/** @param {Response} response */
async function refusal(response) {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text);
    return new Refused(response.status, error.code ?? "", error.message ?? text, error.param ?? null);
  } catch {
    return new Refused(response.status, "", text || response.statusText);
  }
}

/** @param {string} path @param {any} [body] @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function call(path, body, signal) {
  return (await fetched(path, body, signal)).json();
}

/**
 * The events of a stream. Throws `Refused` for an error event.
 * @param {string} path
 * @param {any} body
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<any>}
 */
export async function* events(path, body, signal) {
  const response = await fetched(path, body, signal);
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      held += value;
      let end;
      while ((end = held.indexOf("\n\n")) >= 0) {
        const event = held.slice(0, end);
        held = held.slice(end + 2);
        if (!event.startsWith("data: ")) continue;
        const data = event.slice(6);
        if (data === "[DONE]") return;
        const parsed = JSON.parse(data);
        if (parsed.error) throw new Refused(200, parsed.error.code, parsed.error.message, parsed.error.param ?? null);
        yield parsed;
      }
    }
  } finally {
    reader.cancel().catch(() => {});  // disconnecting cancels the request
  }
}

/** The disk space that removing a model would free. @param {string} model */
export const removal = (model) => call("/localllm/remove", { model, dry_run: true });
/** @param {string} query @param {AbortSignal} [signal] @returns {Promise<{ catalog: any[], hub: any[], hub_problem: string | null }>} */
export const find = (query, signal) => call("/localllm/search", { query }, signal);
/** @param {string} model @param {AbortSignal} [signal] @returns {Promise<{ models: any[], free_bytes: number | null, devices_problem: string | null }>} */
export const offers = (model, signal) => call("/localllm/offers", { model }, signal);
/** @param {string} model @param {Record<string, any>} settings @returns {Promise<{ settings: any[], needs_reload: boolean }>} */
export const settings = (model, settings) => call("/localllm/settings", { model, settings });
export const models = () => call("/v1/models");
/** @returns {Promise<{ models: any[], max_media_bytes?: number, max_request_media_bytes?: number, max_megapixels?: number }>} */
export const available = () => call("/localllm/models");
export const processes = () => call("/localllm/ps");
/** Has the server keep a file; returns how requests refer to it. @param {Blob} file @returns {Promise<string>} */
export const keep = async (file) => (await call("/localllm/blobs", file)).url;
/** @param {Record<string, any> | ((numLosses: number) => Promise<any>)} body @param {AbortSignal} signal */
export const chat = (body, signal) => events("/v1/chat/completions", body, signal);
/** @param {(numLosses: number) => Promise<any>} body @returns {Promise<number>} */
export const countTokens = async (body) => (await call("/v1/chat/completions/input_tokens", body)).input_tokens;
/** @param {string} model @param {Record<string, any>} more @param {AbortSignal} signal */
export const load = (model, more, signal) => events("/localllm/load", { model, ...more }, signal);
/** @param {string} model */
export const unload = (model) => call("/localllm/unload", { model });
/** @param {string} model */
export const remove = (model) => call("/localllm/remove", { model });
/** @param {string} model @param {AbortSignal} signal */
export const pull = (model, signal) => events("/localllm/pull", { model }, signal);
/** @param {string} query */
export const search = (query) => call(`/localllm/catalog?query=${encodeURIComponent(query)}`);
/** @typedef {{ tool: string, permissions: { write: boolean }, definition: any }} Tool */
/** The tools of the server's MCP servers; empty if there are none or the key may not use them. @returns {Promise<Tool[]>} */
export const tools = () => call("/tools").catch((error) => { if (error.status === 403) return []; throw error; });
/** @param {string} tool @param {any} params @param {AbortSignal} signal @returns {Promise<{ plain_text_response?: string, error?: string, content?: import("./attachments.js").Part[] }>} */
export const runTool = (tool, params, signal) => call("/tools", { tool, params }, signal);
/** What a loaded model answers with where nothing else is asked for. @param {string} model @returns {Promise<Record<string, number>>} */
export const defaults = async (model) => (await call(`/props?model=${encodeURIComponent(model)}&autoload=false`)).default_generation_settings.params;
export const doctor = () => call("/localllm/doctor");
/** @param {AbortSignal} signal */
export const watch = (signal) => events("/localllm/watch", undefined, signal);
