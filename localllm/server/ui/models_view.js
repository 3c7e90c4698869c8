// The models on this machine (load, unload, pin, configure, remove) and the downloads in progress.

import * as api from "./api.js";
import { announce, ask, el, fill } from "./dom.js";
import { FindView } from "./find_view.js";
import { editModel, loadWith } from "./model_settings_view.js";
import { session } from "./session.js";
import { words } from "./words.js";

/** Storage key for the names of incomplete downloads, whose data the server keeps. */
const PULLS = "localllm.pulls";

/** @param {number} bytes */
export const size = (bytes) => (bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${Math.max(1, Math.round(bytes / 1e6))} MB`);
/** @param {number} seconds */
const rest = (seconds) => (seconds >= 90 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds)} s`);

/** @typedef {{ text: string, part: number | null, controller: AbortController | null }} Work an operation in progress */

export class ModelsView {
  /** @param {() => void} chat shows the chat */
  constructor(chat) {
    this.chat = chat;
    /** @type {Map<string, Work>} model -> its operation */
    this.works = new Map();
    /** @type {AbortController | null} */
    this.watching = null;
    /** @type {any[]} */
    this.there = [];
    /** Counts the lists asked for: only the newest is shown. */
    this.numLooks = 0;
    for (const id of pulls()) this.works.set(id, { text: words.models.stoppedAt, part: null, controller: null });
    this.here = el("ul", { class: "cards", id: "here" });
    this.note = el("p", { class: "note", role: "status" });
    this.find = new FindView((id, fit) => this.#pull(id, fit), (id) => this.there.some((each) => each.id === id));
    document.addEventListener("visibilitychange", () => { if (document.hidden) this.hide(); else if (this.node.isConnected) this.show(); });
    this.node = el("section", { class: "page", "aria-label": words.models.title },
      el("h2", {}, words.models.here), this.note, this.here, this.find.node);
  }

  async show() {
    await this.#look();
    this.find.show();
    if (!this.watching) this.#watch();
  }

  hide() {
    this.watching?.abort();
    this.watching = null;
  }

  async #look() {
    const look = ++this.numLooks;
    try {
      const [{ models: there }, { models: running }, listed] = await Promise.all([api.available(), api.processes(), api.models()]);
      if (look !== this.numLooks) return;
      this.there = there;
      this.running = new Map(running.map((/** @type {any} */ each) => [each.model, each]));
      this.listed = new Map(listed.data.map((/** @type {any} */ each) => [each.id, each]));
      this.#fill();
    } catch (error) { this.note.textContent = said(error); }
  }

  /** Refreshes the list when other clients load or unload models, while this view is open. */
  async #watch() {
    const { signal } = (this.watching = new AbortController());
    let before = "";
    try {
      for await (const event of api.watch(signal)) {
        const now = event.models.map((/** @type {any} */ each) => `${each.model} ${each.status} ${each.memory_bytes}`).join("\n");
        if (before && now !== before && !this.works.size) await this.#look();
        before = now || " ";
      }
    } catch { /* tried again when the view is next opened; until then, buttons report errors */ }
    if (this.watching?.signal === signal) this.watching = null;
  }

  #fill() {
    const focused = document.activeElement;
    const held = focused?.closest("[data-model]")?.getAttribute("data-model");
    const ids = new Set([...this.there.map((each) => each.id), ...(this.running?.keys() ?? []), ...this.works.keys()]);
    const cards = [...ids].map((id) => this.#card(id));
    fill(this.here, cards.length ? cards : el("li", { class: "note" }, words.models.none));
    if (!held) return;
    const buttons = /** @type {HTMLElement[]} */ ([...this.here.querySelectorAll(`[data-model="${CSS.escape(held)}"] button`)]);
    (buttons.find((each) => each.textContent === focused?.textContent) ?? buttons[0])?.focus();
  }

  /** @param {string} id */
  #card(id) {
    const model = this.there.find((each) => each.id === id);
    const process = this.running?.get(id);
    const work = this.works.get(id);
    const listed = this.listed?.get(id);
    const facts = [
      model?.route ? words.models.routes(model.route) : model?.base && words.models.under(model.base), model && !model.problem && !model.route && size(model.size_bytes), model?.quant, model?.license,
      process ? words.models.phases[/** @type {"ready"} */ (process.status)] : model && words.models.notLoaded,
      process && `${words.models.memory} ${size(process.memory_bytes)}`,
      process?.ctx && words.models.context(process.ctx),
      process && (process.expires_in_s === null ? words.models.pinned : words.models.expires(rest(process.expires_in_s))),
      listed?.capabilities?.join(", ").replaceAll("_", " "),
    ];
    /** @param {string} label @param {() => any} press @param {string} [kind] */
    const button = (label, press, kind) => el("button", { type: "button", class: kind ?? "", onclick: () => this.#done(press) }, label);
    const set = !model?.base && button(words.models.settings, () => editModel(id, () => this.#reload(id)));
    const drop = id !== "demo" && model?.source !== "config.toml" && button(words.models.remove, () => this.#remove(id), "danger");
    const buttons = work
      ? work.controller
        ? [button(words.models.stop, () => work.controller?.abort())]
        : [button(words.models.resume, () => this.#pull(id, null)), button(words.models.forget, () => this.#forget(id))]
      : process
        ? [button(words.models.chat, () => { session.choose(id); this.chat(); }, "primary"), process.expires_in_s !== null && button(words.models.pin, () => this.#load(id, { keep_alive: -1 })), button(words.models.unload, () => api.unload(id)), set]
        : model?.problem
          ? [drop]
          : [button(words.models.load, () => this.#load(id, {}), "primary"), button(words.models.loadWith, () => loadWith(id, (more) => this.#load(id, more))), set, drop];
    const isLoading = !work && process && process.status !== "ready";
    return el("li", { class: "card", "data-model": id },
      el("h3", { dir: "auto" }, id), facts.some(Boolean) && el("p", {}, facts.filter(Boolean).join(" · ")),
      model?.problem && el("p", { class: "error" }, model.problem),
      work && el("p", { class: "work" }, work.text),
      (work?.controller || isLoading) && el("progress", { max: 1, value: work?.part ?? undefined, "aria-label": `${id}: ${words.models.underWay}` }),
      el("div", { class: "row wrap" }, buttons));
  }

  /** Runs an action and refreshes the list. @param {() => any} what */
  async #done(what) {
    this.note.textContent = "";
    try { await what(); } catch (error) {
      this.note.textContent = said(error);
      this.note.scrollIntoView({ block: "nearest" });
    }
    await Promise.all([this.#look(), session.refreshModels()]);
  }

  /** @param {string} id */
  async #remove(id) {
    const { freed_bytes: freed } = await api.removal(id);
    const goes = freed === null ? words.models.goes.unknown : freed ? words.models.goes.some(size(freed)) : words.models.goes.none;
    if (await ask(words.models.reallyRemove(id), [el("p", {}, goes)], { danger: true, ok: words.models.remove, cancel: words.cancel })) await api.remove(id);
  }

  /** @param {string} id */
  async #reload(id) {
    await api.unload(id);
    await this.#load(id, {});
  }

  /** @param {string} id @param {Record<string, any>} more */
  #load(id, more) {
    return this.#work(id, (signal) => api.load(id, more, signal), (event) => ({ text: `${words.models.phases.loading} ${Math.round(event.fraction * 100)} %`, part: event.fraction }));
  }

  /** @param {string} id @param {any} [fit] its memory plan, if known; null: the user has already confirmed the download */
  #pull(id, fit) {
    keepPull(id, true);
    return this.#done(() => this.#work(id, (signal) => pulling(id, fit, signal), ({ progress }) => {
      if (!progress) return { text: words.models.ready, part: 1 };
      const { phase, done_bytes: done = 0, total_bytes: total, bytes_per_s: speed, waiting_for: host, waiting_s: waited } = progress;
      const figures = total ? `${size(done)} / ${size(total)}${speed ? ` · ${size(speed)}/s · ${words.models.rest(rest((total - done) / speed))}` : ""}` : "";
      const waits = host ? ` · ${words.models.waitsFor(host, Math.round(waited))}` : "";
      return { text: `${words.models.pulling[/** @type {"done"} */ (phase)]} ${figures}${waits}`, part: total ? done / total : null };
    }));
  }

  /** @param {string} id */
  #forget(id) {
    keepPull(id, false);
    this.works.delete(id);
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
    this.here.querySelector(`[data-model="${CSS.escape(id)}"]`)?.scrollIntoView({ block: "nearest" });
    try {
      for await (const event of begin(controller.signal)) this.#progress(id, { ...said(event), controller });
      this.#forget(id);
      announce(`${id}: ${words.models.underWayDone}`);
    } catch (error) {
      const isPull = pulls().includes(id), canGoOn = controller.signal.aborted || !(error instanceof api.Refused) || error.code === "pull_failed";
      if (isPull && canGoOn) this.works.set(id, { text: words.models.stoppedAt, part: null, controller: null });
      else this.#forget(id);
      if (!controller.signal.aborted) throw error;
    }
  }

  /** Updates the card in place, so that its buttons keep the focus. @param {string} id @param {Work} work */
  #progress(id, work) {
    this.works.set(id, work);
    const card = this.here.querySelector(`[data-model="${CSS.escape(id)}"]`), bar = card?.querySelector("progress"), text = card?.querySelector(".work");
    if (!bar || !text) return this.#fill();
    text.textContent = work.text;
    if (work.part === null) bar.removeAttribute("value");
    else bar.value = work.part;
  }
}

/**
 * Downloads a model; asks first if it does not fit.
 * @param {string} id @param {any} fit @param {AbortSignal} signal
 */
async function* pulling(id, fit, signal) {
  if (fit === undefined) {
    try {
      const { models } = await api.offers(id, signal);
      fit = models.find((each) => each.chosen)?.fit;
    } catch (error) { if (signal.aborted) throw error; /* the download will report the error */ }
  }
  const doubt = fit && !fit.fits && words.models.fitsNotHere(size(fit.need_bytes));
  if (doubt && !(await ask(words.models.reallyPull(id), [el("p", {}, doubt)], { ok: words.models.pull, cancel: words.cancel }))) return;
  yield* api.pull(id, signal);
}

/** @returns {string[]} */
function pulls() {
  try { return JSON.parse(localStorage.getItem(PULLS) ?? "[]").map(String); } catch { return []; }
}

/** @param {string} id @param {boolean} keep */
function keepPull(id, keep) {
  localStorage.setItem(PULLS, JSON.stringify([...pulls().filter((each) => each !== id), ...(keep ? [id] : [])]));
}

/** @param {unknown} error */
export const said = (error) => (error instanceof api.Refused ? error.message : words.failed.gone);
