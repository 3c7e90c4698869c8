// JSON as a collapsible tree that marks violations of its schema; text that is not JSON is shown unchanged.

import { el } from "./dom.js";
import { problems } from "./schema.js";
import { words } from "./words.js";

const MAX = 2000;

/** @param {string} text @param {string} [schema] @returns {HTMLElement} */
export function jsonTree(text, schema) {
  try {
    const whole = JSON.parse(text);
    const wrong = schema ? problems(whole, JSON.parse(schema)) : new Map();
    let rest = MAX;
    /** @param {any} value @param {string} name @param {string} path @returns {HTMLElement} */
    const node = (value, name, path) => {
      const label = [name === "" ? null : el("span", { class: "name" }, `${name}: `)];
      const fault = wrong.has(path) ? el("span", { class: "error" }, ` ✗ ${wrong.get(path)}`) : null;
      if (--rest < 0) return el("div", {}, label, "…");
      if (typeof value !== "object" || value === null) {
        return el("div", { class: "leaf" }, label, el("span", { class: typeof value === "string" ? "string" : "number", dir: "auto" }, JSON.stringify(value)), fault);
      }
      const entries = Object.entries(value);
      const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
      return el("details", { open: true }, el("summary", {}, label, size, fault), entries.map(([key, each]) => node(each, key, path ? `${path}.${key}` : key)));
    };
    const verdict = schema ? el("p", { class: wrong.size ? "error" : "note" }, wrong.size ? words.chat.unfit(wrong.size) : words.chat.fits) : null;
    return el("div", { class: "json", dir: "ltr" }, verdict, node(whole, "", ""));
  } catch {
    return el("pre", { dir: "auto" }, text);
  }
}
