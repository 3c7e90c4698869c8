// Activity of the machine in the last minutes, from one stream of events. The stream starts when this view is first
// shown and pauses while the tab is hidden. Also a benchmark, and the report of `localllm doctor`.

import * as api from "./api.js";
import { BenchView } from "./bench_view.js";
import { announce, el, fill } from "./dom.js";
import { said, size } from "./models_view.js";
import { Plot } from "./plots.js";
import { session } from "./session.js";
import { words } from "./words.js";

const SPAN_MS = 5 * 60_000;
const AGAIN_MS = 2000;
/** Interval at which the server checks its models. */
const LOOK_S = 0.5;

export class MachineView {
  constructor() {
    this.plots = {
      made: new Plot(words.machine.speed, SPAN_MS, (value) => value.toFixed(value < 10 ? 1 : 0)),
      computed: new Plot(words.machine.prompts, SPAN_MS, (value) => value.toFixed(0)),
      answers: new Plot(words.machine.answers, SPAN_MS, (value) => value.toFixed(0)),
      memory: new Plot(words.machine.memory, SPAN_MS, size),
    };
    this.note = el("p", { class: "note", role: "status" });
    this.cache = el("p", {});
    this.span = el("h2", {}, words.machine.lastMinutes);
    /** When the first event arrived; 0: none has yet. */
    this.begunAt = 0;
    this.models = el("div");
    this.bench = new BenchView();
    this.doctor = el("pre", { id: "doctor", dir: "ltr", tabindex: 0, hidden: true });
    this.examine = el("button", { type: "button", onclick: () => this.#examine() }, words.machine.examine);
    this.node = el("section", { class: "page", "aria-label": words.machine.title },
      this.span, el("div", { class: "plots" }, Object.values(this.plots).map((plot) => plot.node)),
      this.cache, this.note, this.models, this.bench.node,
      el("section", {}, el("h2", {}, words.machine.doctor), this.examine, this.doctor));
    this.wanted = false;
    document.addEventListener("visibilitychange", () => { if (this.wanted) document.hidden ? this.#stop() : this.#watch(); });
    /** @type {AbortController | null} */
    this.watching = null;
    /** @type {any} */
    this.before = null;
  }

  show() {
    this.wanted = true;
    if (!this.watching) this.#watch();
  }

  /** Shows the report of `localllm doctor`, which takes a second or more. */
  async #examine() {
    this.examine.disabled = true;
    this.doctor.hidden = false;
    this.doctor.textContent = words.machine.examining;
    try {
      this.doctor.textContent = (await api.doctor()).text;
      announce(words.machine.examined);
    } catch (error) {
      this.doctor.textContent = error instanceof api.Refused ? said(error) : words.failed.gone;
    }
    this.examine.disabled = false;
  }

  async #watch() {
    const { signal } = (this.watching = new AbortController());
    while (!signal.aborted) {
      try {
        for await (const event of api.watch(signal)) { this.note.textContent = ""; this.#take(event); }
      } catch (error) {
        if (!signal.aborted) this.note.textContent = error instanceof api.Refused ? said(error) : words.machine.lost;
      }
      if (signal.aborted) return;
      this.#interrupt();
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }

  #stop() {
    this.watching?.abort();
    this.watching = null;
    this.#interrupt();
  }

  /** What happens until the next event is not known. */
  #interrupt() {
    this.before = null;
    for (const plot of Object.values(this.plots)) plot.interrupt();
  }

  /** @param {any} event */
  #take(event) {
    const at = Date.now();
    const { totals, models } = event;
    this.begunAt ||= at;
    const isWhole = at - this.begunAt >= SPAN_MS;
    this.span.textContent = isWhole ? words.machine.lastMinutes : words.machine.since(new Date(this.begunAt).toLocaleTimeString(words.lang, { timeStyle: "short" }));
    if (this.before) {
      // Nothing is sent while nothing changes, so a change happened after the server's last check.
      const gap = event.time_s - this.before.time_s;
      const seconds = Math.min(Math.max(gap, 0.05), LOOK_S);
      /** @param {"made" | "computed"} plot @param {string} name */
      const add = (plot, name) => {
        if (gap > 2 * LOOK_S) for (const ago of [gap - LOOK_S, LOOK_S]) this.plots[plot].add({ at: at - 1000 * ago, value: 0 });
        this.plots[plot].add({ at, value: Math.max(0, (totals[name] - this.before.totals[name]) / seconds) });
      };
      add("made", "completion_tokens");
      add("computed", "prompt_tokens");
    }
    this.before = event;
    /** @param {string} name */
    const sum = (name) => models.reduce((/** @type {number} */ total, /** @type {any} */ model) => total + model[name], 0);
    this.plots.answers.add({ at, value: sum("running") + sum("waiting") });
    this.plots.memory.add({ at, value: sum("memory_bytes") });
    const asked = totals.prompt_tokens + totals.cached_tokens;
    this.cache.textContent = `${words.machine.cache}: ${totals.cached_tokens.toLocaleString()} / ${asked.toLocaleString()}${asked ? ` (${Math.round((100 * totals.cached_tokens) / asked)} %)` : ""}`;
    this.bench.offer(models.map((/** @type {any} */ model) => model.model), session.conversation.model);
    fill(this.models, models.length ? models.map(modelBox) : el("p", { class: "note" }, words.machine.idle));
  }
}

/** @param {any} model */
function modelBox(model) {
  return el("section", { class: "card" },
    el("h3", {}, model.model),
    el("p", {}, `${model.running} ${words.machine.running} · ${model.waiting} ${words.machine.waiting} · ${size(model.memory_bytes)}`),
    el("ul", { class: "slots" }, model.slots.map((/** @type {any} */ slot, /** @type {number} */ index) => el("li", { class: slot.busy ? "busy" : "" },
      el("span", {}, words.machine.slot(index)),
      el("meter", { min: 0, max: model.ctx, value: slot.tokens, "aria-label": words.machine.slot(index) }),
      el("span", {}, `${words.machine.held(slot.tokens, model.ctx)}, ${slot.busy ? words.machine.busy : words.machine.free}`)))));
}
