// Dialogs for one model: its permanent settings, as with `localllm set`, and the options of a single load.

import * as api from "./api.js";
import { announce, ask, complain, el } from "./dom.js";
import { said } from "./models_view.js";
import { words } from "./words.js";

const COMMON = ["ctx", "slots", "keep_alive", "thinking", "temperature", "top_p", "top_k", "max_tokens", "aliases", "system"];
const LONG = ["system", "chat_template"];
const say = words.own;

/** @param {any} value */
const text = (value) => (value === null ? "" : Array.isArray(value) ? (value.some((each) => /[,\n]|^\s|\s$/.test(each)) ? JSON.stringify(value) : value.join(", ")) : String(value));

/** Shows and changes a model's settings; offers a reload if they require one. @param {string} model @param {() => any} reload */
export async function editModel(model, reload) {
  const { settings } = await api.settings(model, {});
  /** @type {Map<string, HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement>} */
  const fields = new Map(settings.map((row) => [row.key, field(row)]));
  /** @param {any} row */
  const labelled = (row) => el("label", { class: LONG.includes(row.key) ? "wide" : "", title: explained(row) }, titled(row.key), fields.get(row.key), el("small", { class: "note" }, row.fixed ?? (row.own || row.source === "default" ? "" : say.from(row.source))));
  /** @param {(row: any) => boolean} which */
  const group = (which) => settings.filter(which).map(labelled);
  const problem = el("p", { class: "error", role: "alert" });
  const others = el("details", {}, el("summary", {}, say.others),
    el("h3", {}, say.loading), el("div", { class: "grid" }, group((row) => row.loading && !COMMON.includes(row.key))),
    el("h3", {}, say.answering), el("div", { class: "grid" }, group((row) => !row.loading && !COMMON.includes(row.key))));
  const common = el("div", { class: "grid" }, COMMON.map((key) => labelled(settings.find((row) => row.key === key))));
  for (;;) {
    const taken = await ask(say.title(model), [el("p", { class: "note" }, say.note), common, others, problem], { ok: say.save, cancel: words.cancel });
    if (!taken) return;
    /** @type {Record<string, string | null>} */
    const changed = {};
    for (const row of settings) {
      const now = /** @type {HTMLInputElement} */ (fields.get(row.key)).value;
      if (!row.fixed && now !== (row.own ? text(row.value) : "")) changed[row.key] = now === "" ? null : now;
    }
    try {
      const { needs_reload: needsReload } = await api.settings(model, changed);
      announce(say.saved);
      if (needsReload && (await ask(say.reloadTitle, [el("p", {}, say.reloadWhy)], { ok: say.reload, cancel: say.later }))) await reload();
      return;
    } catch (error) {
      const wrong = error instanceof api.Refused && error.param ? fields.get(error.param) : undefined;
      if (wrong && others.contains(wrong)) others.open = true;
      complain(problem, said(error), wrong);
    }
  }
}

/** What a setting is, and its range. @param {any} row */
function explained(row) {
  return row.minimum === null ? row.text : `${row.text} (${row.minimum} – ${row.maximum})`;
}

/** @param {string} key */
function titled(key) {
  const title = words.settings[/** @type {"top_p"} */ (key)] ?? say.titles[/** @type {"ctx"} */ (key)];
  return title ? [title, " ", el("code", {}, key)] : el("code", {}, key);
}

/** @param {any} row */
function field(row) {
  const value = row.own || row.fixed ? text(row.value) : "", inherited = row.default === null ? (row.key === "aliases" ? "" : row.key === "ctx" || !row.loading ? say.fromModel : say.automatic) : text(row.default);
  const props = { value, disabled: Boolean(row.fixed), placeholder: inherited, autocomplete: "off", spellcheck: "false", dir: "auto", name: row.key };
  if (row.kind === "choice" || row.kind === "boolean") {
    const choices = row.kind === "boolean" ? ["true", "false"] : row.choices;
    const select = el("select", { name: row.key, disabled: props.disabled }, el("option", { value: "" }, say.asDefault(inherited)), choices.map((/** @type {string} */ each) => el("option", { value: each }, each)));
    select.value = value;
    return select;
  }
  return LONG.includes(row.key) ? el("textarea", { ...props, rows: 2 }) : el("input", { ...props, inputmode: row.kind === "integer" ? "numeric" : row.kind === "number" ? "decimal" : undefined });
}

/** Asks for the options of a single load. @param {string} model @param {(more: Record<string, any>) => any} load */
export async function loadWith(model, load) {
  const ctx = el("input", { type: "number", min: 1, step: 1, name: "ctx", placeholder: say.fromModel });
  const slots = el("input", { type: "number", min: 1, step: 1, name: "slots", placeholder: say.asSet });
  const stays = el("input", { type: "checkbox", name: "stays" });
  const taken = await ask(say.loadTitle(model), [
    el("p", { class: "note" }, say.loadNote),
    el("label", {}, titled("ctx"), ctx), el("label", {}, titled("slots"), slots),
    el("label", { class: "check" }, stays, words.models.pin),
  ], { ok: words.models.load, cancel: words.cancel });
  if (!taken) return;
  await load({ ...(ctx.value && { ctx: Number(ctx.value) }), ...(slots.value && { slots: Number(slots.value) }), ...(stays.checked && { keep_alive: -1 }) });
}
