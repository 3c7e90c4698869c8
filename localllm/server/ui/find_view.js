// Searches the catalog and Hugging Face for models; lists each quantization with memory fit and predicted speed.

import * as api from "./api.js";
import { announce, el, fill } from "./dom.js";
import { said, size } from "./models_view.js";
import { words } from "./words.js";

const say = words.find;

export class FindView {
  /**
   * @param {(name: string, fit?: any) => any} pull
   * @param {(name: string) => boolean} isHere
   */
  constructor(pull, isHere) {
    this.pull = pull;
    this.isHere = isHere;
    this.note = el("p", { class: "note", role: "status" });
    this.found = el("ul", { class: "cards", id: "found" });
    this.hub = el("ul", { class: "cards", id: "hub" });
    this.onHub = el("h3", { hidden: true }, say.onHub);
    this.field = el("input", { type: "search", id: "find", maxlength: 200, "aria-label": say.field, placeholder: say.field });
    this.button = el("button", {}, say.search);
    const form = el("form", { class: "row", role: "search", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); this.#search(); } },
      this.field, this.button, el("button", { type: "button", onclick: () => this.#typed() }, words.models.pull));
    this.node = el("section", { "aria-label": say.title },
      el("h2", {}, say.title), el("p", { class: "note" }, say.note), form, this.note, this.found, this.onHub, this.hub);
    /** @type {AbortController | null} */
    this.searching = null;
    this.shown = false;
  }

  /** Shows the catalog, which needs no network. */
  show() {
    if (!this.shown) this.#search();
  }

  #typed() {
    const name = this.field.value.trim();
    if (name) this.pull(name);
    else this.field.focus();
  }

  async #search() {
    this.searching?.abort();
    const { signal } = (this.searching = new AbortController());
    const query = this.field.value.trim();
    this.note.textContent = query ? say.searching : "";
    this.shown = true;
    try {
      /** @type {{ catalog: any[], hub: any[], hub_problem: string | null }} */
      const { catalog, hub, hub_problem: problem } = query ? await api.find(query, signal) : { catalog: (await api.search("")).models, hub: [], hub_problem: null };
      if (signal.aborted) return;  // a later search has begun
      fill(this.found, catalog.map((each) => this.#card(each.id, each.id, each.description,
        [size(each.size_bytes), each.quant, each.license, each.kind, each.fits === null ? "" : each.fits ? say.fits : say.fitsNot], each.fits ? { fits: true } : undefined)));
      fill(this.hub, hub.map((each) => this.#card(each.id, each.id.replace("hf.co/", ""), "",
        [say.downloads(each.downloads), each.license ?? say.noLicense, each.updated && say.changed(each.updated.slice(0, 10))], undefined, each.gated)));
      this.onHub.hidden = !hub.length;
      const count = catalog.length + hub.length;
      this.note.textContent = problem ? say.hubFailed(problem) : count ? "" : say.nothing;
      if (query && !problem) announce(say.count(count));
    } catch (error) { if (!signal.aborted) this.note.textContent = said(error); }
  }

  /** @param {string} id @param {string} title @param {string} what @param {(string | null | undefined)[]} facts @param {any} fit @param {boolean} [gated] */
  #card(id, title, what, facts, fit, gated) {
    const table = el("div", { class: "offers" });
    const open = el("button", { type: "button", "aria-expanded": "false", onclick: () => this.#open(id, card, open, table) }, say.quantizations);
    const card = el("li", { class: "card", "data-found": id },
      el("h3", { dir: "auto" }, title), what && el("p", {}, what), el("p", {}, facts.filter(Boolean).join(" · ")),
      gated && el("p", { class: "note" }, say.gated), table,
      el("div", { class: "row wrap" }, open, this.isHere(id) ? el("span", { class: "note" }, say.here) : el("button", { type: "button", onclick: () => this.pull(id, fit) }, words.models.pull)));
    return card;
  }

  /** @param {string} id @param {Element} card @param {HTMLElement} open @param {Element} table */
  async #open(id, card, open, table) {
    const isOpen = open.getAttribute("aria-expanded") === "true";
    open.setAttribute("aria-expanded", String(!isOpen));
    card.classList.toggle("open", !isOpen);
    fill(table);
    if (isOpen) return;
    const looking = el("p", { class: "note" }, say.looking);
    fill(table, looking);
    try {
      const offers = await api.offers(id);
      if (looking.parentElement !== table) return;  // closed meanwhile
      fill(table, this.#table(offers));
      announce(say.count(offers.models.length));
    } catch (error) { if (looking.parentElement === table) fill(table, el("p", { class: "error", role: "alert" }, said(error))); }
  }

  /** @param {{ models: any[], free_bytes: number | null, devices_problem: string | null }} offers */
  #table({ models, free_bytes: free, devices_problem: problem }) {
    const rows = models.map((each) => el("tr", { class: each.chosen ? "chosen" : "", "data-quant": each.quant ?? "" },
      el("th", { scope: "row", dir: "auto" }, each.quant ?? "?", each.chosen && el("span", { class: "chip" }, say.chosen)),
      el("td", {}, size(each.size_bytes)), el("td", {}, each.fit ? size(each.fit.need_bytes) : "?"), el("td", {}, each.fit ? fitWords(each.fit) : each.problem),
      el("td", {}, speedWords(each, "answer_tokens_per_s")), el("td", {}, speedWords(each, "prompt_tokens_per_s")),
      el("td", {}, this.isHere(each.name) ? say.here : el("button", { type: "button", class: "small", "aria-label": `${words.models.pull} ${each.quant ?? each.name}`, onclick: () => this.pull(each.name, each.fit ?? undefined) }, words.models.pull))));
    const chosen = models.find((each) => each.chosen), planned = models.find((each) => each.fit)?.fit;
    const notes = [
      chosen?.why && `${chosen.quant}: ${chosen.why}`,
      planned && say.planned(planned, free === null ? "" : size(free)),
      chosen?.license && say.license(chosen.license), problem && say.cpuOnly(problem),
      ...new Set(models.map((each) => each.no_speed && say.noSpeed(each.no_speed))),
    ];
    return [
      el("div", { class: "scrolls", tabindex: 0, role: "region", "aria-label": say.quantizations }, el("table", {}, el("thead", {}, el("tr", {}, say.columns.map((each) => el("th", { scope: "col" }, each)))), el("tbody", {}, rows))),
      ...notes.filter(Boolean).map((each) => el("p", { class: "note" }, each)),
    ];
  }
}

/** @param {any} fit */
function fitWords(fit) {
  if (fit.fits) return fit.gpu_layers ? say.onGpu(fit.gpu_layers, fit.layers) : say.yes;
  const [other] = fit.alternatives;
  return other ? say.fitsWith(other) : say.no;
}

/** A model that does not fit has no prediction: it would be read from disk for every token. @param {any} offer @param {string} which */
function speedWords({ speed, fit }, which) {
  if (fit && !fit.fits) return "–";
  if (!speed) return "?";
  const digits = speed[which] < 10 ? 1 : 0;
  return `${speed[which].toFixed(digits)} ± ${(speed[which] * speed.error).toFixed(digits)}`;
}
