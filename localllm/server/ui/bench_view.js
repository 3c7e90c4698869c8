// A short benchmark of a model with one, two and four concurrent answers, as many as a browser's connections allow.
// `localllm bench` measures more.

import * as api from "./api.js";
import { el, fill, svg } from "./dom.js";
import { said } from "./models_view.js";
import { words } from "./words.js";

const STREAMS = [1, 2, 4];
const TOKENS = 96, PROMPT_WORDS = 48, WARMUP_TOKENS = 8;
const KEPT = "localllm.bench";
const WIDTH = 420, HEIGHT = 190, LEFT = 64, BOTTOM = 160, TOP = 20;

/** @typedef {{ streams: number, perSecond: number, firstMs: number }} Row `firstMs`: mean time to the first token */
/** @typedef {{ model: string, at: number, rows: Row[] }} Bench */

export class BenchView {
  constructor() {
    /** @type {AbortController | null} */
    this.running = null;
    this.model = "";
    this.button = el("button", { type: "button", disabled: true, onclick: () => (this.running ? this.running.abort() : this.#measure()) }, words.bench.measure);
    this.note = el("p", { class: "note", role: "status" });
    this.shown = el("div");
    this.node = el("section", { id: "bench" }, el("h2", {}, words.bench.title), el("p", { class: "note" }, words.bench.note), this.button, this.note, this.shown);
    const kept = localStorage.getItem(KEPT);
    if (kept) this.#show(JSON.parse(kept));
  }

  /** Sets the model to measure. @param {string[]} loaded @param {string} chosen */
  offer(loaded, chosen) {
    this.model = loaded.includes(chosen) ? chosen : loaded[0] ?? "";
    this.button.disabled = !this.model && !this.running;
  }

  async #measure() {
    const { signal } = (this.running = new AbortController());
    this.button.textContent = words.bench.stop;
    /** @type {Bench} */
    const bench = { model: this.model, at: Date.now(), rows: [] };
    try {
      await answer(bench.model, WARMUP_TOKENS, signal);
      for (const streams of STREAMS) {
        this.note.textContent = words.bench.running(bench.model, streams);
        bench.rows.push(await measured(bench.model, streams, signal));
        this.#show(bench);
      }
      localStorage.setItem(KEPT, JSON.stringify(bench));
      this.note.textContent = "";
    } catch (error) {
      fill(this.shown);
      this.note.textContent = signal.aborted ? words.bench.stopped : error instanceof api.Refused ? said(error) : words.failed.gone;
    }
    this.running = null;
    this.button.textContent = words.bench.measure;
  }

  /** @param {Bench} bench */
  #show({ model, at, rows }) {
    fill(this.shown,
      el("p", {}, words.bench.measured(model, new Date(at).toLocaleString())), plot(rows),
      el("div", { class: "scrolls", tabindex: 0 }, el("table", {},
        el("thead", {}, el("tr", {}, words.bench.columns.map((name) => el("th", { scope: "col" }, name)))),
        el("tbody", {}, rows.map(({ streams, perSecond, firstMs }) =>
          el("tr", {}, [streams, perSecond, perSecond / streams, firstMs].map((value) => el("td", {}, shown(value)))))))));
  }
}

/** @param {number} value */
const shown = (value) => value.toLocaleString(words.lang, { maximumFractionDigits: value < 10 ? 1 : 0 });

/** Measures concurrent streams of two answers each. @param {string} model @param {number} streams @param {AbortSignal} signal @returns {Promise<Row>} */
async function measured(model, streams, signal) {
  const began = performance.now();
  const answers = (await Promise.all(Array.from({ length: streams }, async () => [
    await answer(model, TOKENS, signal), await answer(model, TOKENS, signal)]))).flat();
  const seconds = (performance.now() - began) / 1000;
  return {
    streams,
    perSecond: answers.reduce((sum, each) => sum + each.tokens, 0) / seconds,
    firstMs: answers.reduce((sum, each) => sum + each.firstMs, 0) / answers.length,
  };
}

/** One answer to a random prompt, which no cache contains. @param {string} model @param {number} tokens @param {AbortSignal} signal */
async function answer(model, tokens, signal) {
  const content = Array.from({ length: PROMPT_WORDS }, () => words.bench.prompt[Math.floor(Math.random() * words.bench.prompt.length)]).join(" ");
  const began = performance.now();
  let firstMs = 0, count = 0;
  const body = { model, messages: [{ role: "user", content }], max_tokens: tokens, ignore_eos: true, stream: true, stream_options: { include_usage: true } };
  for await (const event of api.chat(body, signal)) {
    if (event.choices.length) firstMs ||= performance.now() - began;
    count = event.usage?.completion_tokens ?? count;
  }
  return { firstMs, tokens: count };
}

/** A plot of tokens per second by number of streams. @param {Row[]} rows */
function plot(rows) {
  const most = Math.max(...rows.map((row) => row.perSecond));
  const points = rows.map((row, index) => ({ ...row, x: LEFT + 30 + (index * (WIDTH - LEFT - 60)) / (STREAMS.length - 1), y: BOTTOM - (row.perSecond / most) * (BOTTOM - TOP - 10) }));
  const label = `${words.bench.columns[1]}: ${rows.map((row) => `${row.streams}: ${shown(row.perSecond)}`).join(", ")}`;
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "bench", role: "img", "aria-label": label },
    [0, 0.5, 1].map((part) => {
      const y = BOTTOM - part * (BOTTOM - TOP - 10);
      return [svg("path", { class: "grid", d: `M${LEFT} ${y}H${WIDTH}` }), svg("text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, shown(most * part))];
    }).flat(),
    svg("polyline", { class: "line", points: points.map(({ x, y }) => `${x},${y}`).join(" ") }),
    points.map(({ x, y, streams }) => [svg("circle", { cx: x, cy: y, r: 4 }), svg("text", { x, y: BOTTOM + 20, "text-anchor": "middle" }, words.bench.streams(streams))]).flat());
}
