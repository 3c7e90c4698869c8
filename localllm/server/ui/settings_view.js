// The dialog for the settings of a chat, with presets.

import * as api from "./api.js";
import { ask, complain, el, fill } from "./dom.js";
import { session } from "./session.js";
import * as store from "./store.js";
import { words } from "./words.js";

/** @typedef {import("./tree.js").Settings} Settings */

/** @type {Record<string, { min: number, max?: number, step: number }>} */
const NUMBERS = {
  temperature: { min: 0, max: 5, step: 0.05 },
  top_p: { min: 0, max: 1, step: 0.01 },
  top_k: { min: 0, step: 1 },
  min_p: { min: 0, max: 1, step: 0.01 },
  repeat_penalty: { min: 0.1, max: 3, step: 0.01 },
  max_tokens: { min: 1, step: 1 },
  seed: { min: 0, step: 1 },
};

/** @type {Record<string, Settings>} */
const PRESETS = {
  default: {},
  precise: { sampling: { temperature: 0.2, top_p: 0.9 } },
  creative: { sampling: { temperature: 1.1, min_p: 0.05 } },
  exact: { sampling: { temperature: 0, seed: 1 } },
};

/** Shows in empty fields what the model takes without them. @param {string} model @param {Record<string, HTMLInputElement>} fields */
async function showDefaults(model, fields) {
  /** @type {Record<string, number>} */
  const values = await api.defaults(model).catch(() => ({}));  // then the fields go on saying that it is the model's
  for (const [name, field] of Object.entries(fields)) {
    const value = values[name];
    if (value >= 0) field.placeholder = Number(value.toPrecision(4)).toLocaleString();
    else if (value === -1) field.placeholder = words.settings.unset[/** @type {"seed"} */ (name)] ?? field.placeholder;
  }
}

export async function editSettings() {
  const { chat } = session;
  const problem = el("p", { class: "error", role: "alert" });
  const own = await store.presets().catch((error) => {
    problem.textContent = words.failed.unstored(error.message);
    return [];
  });
  const system = el("textarea", { rows: 3, dir: "auto" });
  /** @type {Record<string, HTMLInputElement>} */
  const numbers = Object.fromEntries(Object.entries(NUMBERS).map(([name, range]) =>
    [name, el("input", { type: "number", placeholder: words.settings.asModel, inputmode: "decimal", ...range })]));
  if (session.model?.loaded) showDefaults(session.model.id, numbers);
  const thinking = el("select", {}, Object.entries(words.settings.thinkings).map(([value, label]) => el("option", { value }, label)));
  const schema = el("textarea", { rows: 4, class: "mono", spellcheck: "false", placeholder: '{"type": "object", …}' });
  const tools = el("textarea", { rows: 4, class: "mono", spellcheck: "false", placeholder: '[{"name": "weather", "parameters": {…}}]' });
  const lent = el("fieldset", { class: "tools", hidden: true });
  const runsAll = el("input", { type: "checkbox" });
  /** @type {Set<string>} */
  let chosen = new Set();
  const asked = session.tools?.size === 0 ? Promise.resolve(session.tools) : session.findTools();  // a server without tools does not get any later
  asked.then((found) => {
    lent.hidden = !found.size;
    fill(lent, el("legend", {}, words.settings.mcp), [...found.values()].map(({ tool, definition }) => el("label", { class: "check", title: definition.function.description },
      el("input", { type: "checkbox", name: tool, checked: chosen.has(tool), onchange: (/** @type {any} */ event) => { event.target.checked ? chosen.add(tool) : chosen.delete(tool); } }), tool)),
      el("label", { class: "check" }, runsAll, words.settings.runsAll));
  }).catch((error) => { lent.hidden = false; lent.textContent = error instanceof Error ? error.message : ""; });
  const logprobs = el("input", { type: "checkbox" });

  /** @param {Settings} from */
  const show = (from) => {
    system.value = from.system ?? "";
    for (const [name, field] of Object.entries(numbers)) field.value = from.sampling?.[name]?.toString() ?? "";
    thinking.value = from.thinking ?? "";
    schema.value = from.schema ?? "";
    tools.value = from.tools ?? "";
    logprobs.checked = from.logprobs ?? false;
    runsAll.checked = from.runsAll ?? false;
    chosen = new Set(from.mcp);
    for (const box of lent.querySelectorAll("input")) if (box !== runsAll) box.checked = chosen.has(box.name);
  };
  /** @returns {Settings} */
  const read = () => {
    const sampling = Object.fromEntries(Object.entries(numbers).filter(([, field]) => field.value !== "").map(([name, field]) => [name, Number(field.value)]));
    /** @type {Settings} */
    const found = {};
    if (system.value.trim()) found.system = system.value;
    if (Object.keys(sampling).length) found.sampling = sampling;
    if (thinking.value) found.thinking = /** @type {"on" | "off"} */ (thinking.value);
    if (schema.value.trim()) found.schema = schema.value;
    if (tools.value.trim()) found.tools = tools.value;
    if (logprobs.checked) found.logprobs = true;
    if (chosen.size) found.mcp = [...chosen];
    if (runsAll.checked) found.runsAll = true;
    return found;
  };
  const preset = el("select", {});
  const listPresets = () => fill(preset,
    el("option", { value: "" }, "–"),
    Object.keys(PRESETS).map((name) => el("option", { value: `built-in ${name}` }, words.settings.presets[/** @type {keyof typeof words.settings.presets} */ (name)])),
    own.map(({ name }) => el("option", { value: `own ${name}` }, name)));
  preset.addEventListener("change", () => {
    const [kind, ...name] = preset.value.split(" ");
    const chosen = kind === "own" ? own.find((each) => each.name === name.join(" "))?.settings : PRESETS[name[0]];
    drop.disabled = kind !== "own";
    if (chosen) show(kind === "own" ? chosen : { ...read(), sampling: chosen.sampling });
  });
  const name = el("input", { "aria-label": words.settings.presetName, placeholder: words.settings.presetName });
  const keep = el("button", { type: "button", class: "small", onclick: async () => {
    if (!name.value.trim()) return name.focus();
    await store.savePreset(name.value.trim(), read());
    own.splice(0, own.length, ...(await store.presets()));
    listPresets();
    preset.value = `own ${name.value.trim()}`;
    drop.disabled = false;
  } }, words.settings.savePreset);
  const drop = el("button", { type: "button", class: "small", disabled: true, onclick: async () => {
    if (!preset.value.startsWith("own ")) return;
    await store.deletePreset(preset.value.slice(4));
    own.splice(0, own.length, ...(await store.presets()));
    listPresets();
    drop.disabled = true;
  } }, words.settings.removePreset);

  listPresets();
  show(chat.conversation.settings);
  /** @param {string} label @param {HTMLElement} field */
  const labelled = (label, field) => el("label", {}, label, field);
  const content = [
    labelled(words.settings.preset, preset), el("div", { class: "row wrap" }, name, keep, drop),
    labelled(words.settings.system, system),
    el("div", { class: "grid" }, Object.entries(numbers).map(([key, field]) => labelled(words.settings[/** @type {"temperature"} */ (key)], field)), labelled(words.settings.thinking, thinking)),
    el("div", {}, labelled(words.settings.schema, schema)), el("div", {}, labelled(words.settings.tools, tools)), lent,
    el("label", { class: "check" }, logprobs, words.chat.logprobs), problem,
  ];
  while (await ask(words.settings.title, content, { ok: words.ok, cancel: words.cancel, class: "panel" })) {
    const found = read();
    const badSchema = faultOf(found.schema, (value) => typeof value === "object" && value !== null && !Array.isArray(value), words.settings.noObject);
    const badTools = faultOf(found.tools, (value) => Array.isArray(value) && value.every((each) => typeof each === "object" && each !== null), words.settings.noList);
    if (!badSchema && !badTools) return session.configure(found, chat);
    complain(problem, badSchema || badTools, badSchema ? schema : tools);
  }
}

/** What is wrong with a text of JSON; empty if nothing is. @param {string | undefined} text @param {(value: any) => boolean} isRight @param {string} otherwise */
function faultOf(text, isRight, otherwise) {
  if (!text) return "";
  try {
    return isRight(JSON.parse(text)) ? "" : otherwise;
  } catch (error) {
    return words.settings.bad(/** @type {Error} */ (error).message);
  }
}
