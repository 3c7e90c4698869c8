// How likely each token was: a shade behind it, and the others on hover or focus.

import { el } from "./dom.js";

/** @param {number} logprob */
const percent = (logprob) => `${(100 * Math.exp(logprob)).toFixed(1)} %`;

/** @param {import("./tree.js").Likely[]} tokens @returns {HTMLElement} */
export function shaded(tokens) {
  return el("div", { class: "likely", dir: "auto" }, tokens.map(({ token, logprob, top_logprobs }) => {
    const level = Math.min(4, Math.floor(-logprob));
    const others = top_logprobs.map((each) => `${JSON.stringify(each.token)} ${percent(each.logprob)}`).join("\n");
    return el("span", { class: `p${Math.max(0, level)}`, title: `${percent(logprob)}\n\n${others}` }, token);
  }));
}
