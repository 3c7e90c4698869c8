// What is on this machine, what is loaded, and what can be had.

import * as api from "./api.js";
import { ask, el, fill } from "./dom.js";
import { session } from "./session.js";
import { words } from "./words.js";

/** @param {number} bytes */
export const size = (bytes) => (bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${Math.max(1, Math.round(bytes / 1e6))} MB`);
/** @param {number} seconds */
const rest = (seconds) => (seconds >= 90 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds)} s`);

/** @typedef {{ text: string, part: number | null, controller: AbortController | null }} Work something that takes a while */

export class ModelsView {
  /** @param {() => void} chat shows the chat */
  constructor(chat) {
    this.chat = chat;
    /** @type {Map<string, Work>} model -> what becomes of it */
    this.works = new Map();
    this.here = el("ul", { class: "cards", id: "here" });
    this.found = el("ul", { class: "cards", id: "found" });
    this.note = el("p", { class: "note", role: "status" });
    this.field = el("input", { type: "search", id: "find", "aria-label": words.models.find, placeholder: words.models.find });
    const form = el("form", { class: "row", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); this.#search(); } },
      this.field, el("button", {}, words.models.search), el("button", { type: "button", onclick: () => this.field.value.trim() && this.#pull(this.field.value.trim()) }, words.models.pull));
    this.node = el("section", { class: "page", "aria-label": words.models.title },
      el("h2", {}, words.models.here), this.here,
      el("h2", {}, words.models.get), el("p", { class: "note" }, words.models.findNote), form, this.note, this.found);
  }

  async show() {
    try {
      const [{ models: there }, { models: running }, listed] = await Promise.all([api.available(), api.processes(), api.models()]);
      this.there = there;
      this.running = new Map(running.map((/** @type {any} */ each) => [each.model, each]));
      this.listed = new Map(listed.data.map((/** @type {any} */ each) => [each.id, each]));
      this.#fill();
      if (!this.found.children.length) this.#search();
    } catch (error) { this.note.textContent = said(error); }
  }

  #fill() {
    const ids = new Set([...(this.there ?? []).map((/** @type {any} */ each) => each.id), ...(this.running?.keys() ?? []), ...this.works.keys()]);
    const cards = [...ids].map((id) => this.#card(id));
    fill(this.here, cards.length ? cards : el("li", { class: "note" }, words.models.none));
  }

  /** @param {string} id */
  #card(id) {
    const model = this.there?.find((/** @type {any} */ each) => each.id === id);
    const process = this.running?.get(id);
    const work = this.works.get(id);
    const listed = this.listed?.get(id);
    const facts = [
      model && size(model.size_bytes), model?.quant, model?.license,
      process ? words.models.phases[/** @type {"ready"} */ (process.status)] : model && words.models.notLoaded,
      process && `${words.models.memory} ${size(process.memory_bytes)}`,
      process?.ctx && words.models.context(process.ctx),
      process && (process.expires_in_s === null ? words.models.pinned : words.models.expires(rest(process.expires_in_s))),
      listed?.capabilities?.join(", "),
    ];
    /** @param {string} label @param {() => any} press @param {string} [kind] */
    const button = (label, press, kind) => el("button", { type: "button", class: kind ?? "", onclick: () => this.#done(press) }, label);
    const buttons = work
      ? [work.controller ? button(words.models.stop, () => work.controller?.abort()) : button(words.models.resume, () => this.#pull(id))]
      : process
        ? [button(words.models.chat, () => { session.choose(id); this.chat(); }, "primary"), process.expires_in_s !== null && button(words.models.pin, () => this.#load(id, { keep_alive: -1 })), button(words.models.unload, () => api.unload(id))]
        : [button(words.models.load, () => this.#load(id, {}), "primary"), button(words.models.remove, () => this.#remove(id), "danger")];
    return el("li", { class: "card", "data-model": id },
      el("h3", { dir: "auto" }, id), el("p", {}, facts.filter(Boolean).join(" · ")),
      work && el("p", { role: "status" }, work.text), work?.part !== null && work?.part !== undefined && el("progress", { max: 1, value: work.part, "aria-label": work.text }),
      el("div", { class: "row wrap" }, buttons));
  }

  /** Does it and shows what is now. @param {() => any} what */
  async #done(what) {
    this.note.textContent = "";
    try { await what(); } catch (error) { this.note.textContent = said(error); }
    await Promise.all([this.show(), session.findModels()]);
  }

  /** @param {string} id */
  async #remove(id) {
    if (await ask(words.models.remove, [words.models.reallyRemove(id)], { danger: true, ok: words.models.remove, cancel: words.cancel })) await api.remove(id);
  }

  /** @param {string} id @param {Record<string, any>} more */
  #load(id, more) {
    return this.#work(id, (signal) => api.load(id, more, signal), (event) => ({ text: words.models.phases.loading, part: event.fraction }));
  }

  /** @param {string} id */
  #pull(id) {
    return this.#done(() => this.#work(id, (signal) => api.pull(id, signal), ({ progress }) => {
      if (!progress) return { text: words.models.ready, part: 1 };
      const { phase, done_bytes: done = 0, total_bytes: total, bytes_per_s: speed } = progress;
      const figures = total ? `${size(done)} / ${size(total)}${speed ? ` · ${size(speed)}/s` : ""}` : "";
      return { text: `${words.models.pulling[/** @type {"done"} */ (phase)]} ${figures}`, part: total ? done / total : null };
    }));
  }

  /**
   * @param {string} id
   * @param {(signal: AbortSignal) => AsyncGenerator<any>} begin
   * @param {(event: any) => { text: string, part: number | null }} said
   */
  async #work(id, begin, said) {
    const controller = new AbortController();
    this.works.set(id, { text: words.models.pulling.looking, part: null, controller });
    this.#fill();
    try {
      for await (const event of begin(controller.signal)) { this.works.set(id, { ...said(event), controller }); this.#fill(); }
      this.works.delete(id);
    } catch (error) {
      if (!controller.signal.aborted) { this.works.delete(id); throw error; }
      this.works.set(id, { text: words.models.stoppedAt, part: null, controller: null });
    }
  }

  async #search() {
    try {
      const { models } = await api.search(this.field.value.trim());
      fill(this.found, models.map((/** @type {any} */ each) => el("li", { class: "card" },
        el("h3", {}, each.id), el("p", {}, each.description),
        el("p", {}, [size(each.size_bytes), each.quant, each.license, each.fits === null ? "" : each.fits ? words.models.fits : words.models.fitsNot].filter(Boolean).join(" · ")),
        el("div", { class: "row" }, el("button", { type: "button", onclick: () => this.#pull(each.id) }, words.models.pull)))));
      this.note.textContent = models.length ? "" : words.models.nothing;
    } catch (error) { this.note.textContent = said(error); }
  }
}

/** @param {unknown} error */
export const said = (error) => (error instanceof api.Refused ? error.message : words.failed.gone);
