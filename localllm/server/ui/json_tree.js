// JSON as a tree that folds, or as it stands where it is none.

import { el } from "./dom.js";

const MAX = 2000;

/** @param {string} text @returns {HTMLElement} */
export function jsonTree(text) {
  try {
    let left = MAX;
    /** @param {any} value @param {string} name @returns {HTMLElement} */
    const node = (value, name) => {
      const label = name === "" ? null : el("span", { class: "name" }, `${name}: `);
      if (--left < 0) return el("div", {}, label, "…");
      if (typeof value !== "object" || value === null) {
        return el("div", { class: "leaf" }, label, el("span", { class: typeof value === "string" ? "string" : "number", dir: "auto" }, JSON.stringify(value)));
      }
      const entries = Object.entries(value);
      const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
      return el("details", { open: true }, el("summary", {}, label, size), entries.map(([key, each]) => node(each, key)));
    };
    return el("div", { class: "json", dir: "ltr" }, node(JSON.parse(text), ""));
  } catch {
    return el("pre", { dir: "auto" }, text);
  }
}
