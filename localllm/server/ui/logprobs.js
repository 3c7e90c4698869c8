// Token probabilities: each token is shaded by its own; hovering or the arrow keys show its alternatives.

import { el, fill } from "./dom.js";
import { words } from "./words.js";

/** @param {number} logprob */
const percent = (logprob) => `${(100 * Math.exp(logprob)).toFixed(1)} %`;

/** @param {import("./tree.js").Likely[]} tokens @returns {HTMLElement} */
export function shaded(tokens) {
  const others = el("p", { class: "others note", role: "status", dir: "auto" });
  const nodes = tokens.map(({ token, logprob, top_logprobs }) => el("span", { class: top_logprobs.length ? `p${Math.max(0, Math.min(4, Math.floor(-logprob)))}` : "unscored" }, token));
  let at = -1;
  /** @param {number} next */
  const show = (next) => {
    if (!tokens[next]) return;
    nodes[at]?.classList.remove("chosen");
    nodes[at = next].classList.add("chosen");
    const { token, logprob, top_logprobs } = tokens[at];
    if (!top_logprobs.length) { fill(others, words.chat.unscored); return; }
    const rest = top_logprobs.filter((each) => each.token !== token);
    fill(others, [{ token, logprob }, ...rest].map((each, index) => el(index ? "span" : "b", {}, `${JSON.stringify(each.token)} ${percent(each.logprob)}  `)));
  };
  const text = el("div", { class: "likely", dir: "auto", tabindex: 0, role: "group", "data-arrows": true, "aria-label": words.chat.likely }, nodes);
  text.addEventListener("pointerover", (event) => show(nodes.indexOf(/** @type {HTMLElement} */ (event.target))));
  text.addEventListener("focus", () => show(Math.max(0, at)));
  text.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by) { event.preventDefault(); show(at + by); }
  });
  return el("div", {}, text, others);
}
