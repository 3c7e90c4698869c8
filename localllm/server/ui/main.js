// The page: its three views, keyboard shortcuts, theme, and the dialog for an API key.

import * as api from "./api.js";
import { ChatView } from "./chat_view.js";
import { ask, el, fill, sign } from "./dom.js";
import { icon } from "./icons.js";
import { MachineView } from "./machine_view.js";
import { ModelsView } from "./models_view.js";
import { session } from "./session.js";
import { editSettings } from "./settings_view.js";
import { Sidebar } from "./sidebar.js";
import { words } from "./words.js";

const THEMES = /** @type {const} */ (["auto", "light", "dark"]);
const VIEWS = /** @type {const} */ (["chat", "models", "machine"]);

/** @typedef {typeof VIEWS[number]} View */

api.onKeyWanted(once(async () => {
  const field = el("input", { type: "password", autocomplete: "off", "aria-label": words.key.field, required: true });
  const wrong = api.hasKey() ? el("p", { class: "error", role: "alert" }, words.key.wrong) : null;
  await ask(words.key.title, [el("label", {}, words.key.field, field), wrong, el("p", { class: "note" }, words.key.note)], { ok: words.key.go, cancel: null });
  api.keepKey(field.value);
}));

/** Merges concurrent calls into one. @param {() => Promise<void>} what @returns {() => Promise<void>} */
function once(what) {
  /** @type {Promise<void> | null} */
  let running = null;
  return () => (running ??= what().finally(() => { running = null; }));
}

const chat = new ChatView();
const sidebar = new Sidebar((found, text = "") => {
  show("chat");
  toggleSidebar(false);
  if (found) chat.reveal(found, text); else chat.composer.field.focus();
});
const models = new ModelsView(() => show("chat"));
const machine = new MachineView();
const views = { chat, models, machine };
const main = el("main", { id: "main" });
const tabs = new Map(VIEWS.map((name) => [name, el("button", { type: "button", onclick: () => show(name) }, words.views[name])]));
const theme = sign("", icon("theme"), () => setTheme(THEMES[(THEMES.indexOf(/** @type {any} */ (localStorage.getItem("localllm.theme") ?? "auto")) + 1) % THEMES.length]));

/** @param {View} name */
function show(name) {
  for (const [each, tab] of tabs) tab.setAttribute("aria-current", each === name ? "page" : "false");
  document.body.dataset.view = name;
  fill(main, views[name].node);
  if (name === "models") models.show();
  else models.hide();
  if (name === "machine") machine.show();
  if (location.hash !== `#${name}`) history.replaceState(null, "", `#${name}`);
}

/** @param {string} name */
function setTheme(name) {
  localStorage.setItem("localllm.theme", name);
  document.documentElement.dataset.theme = name;
  const label = words.theme[/** @type {"auto"} */ (name)];
  theme.title = label;
  theme.setAttribute("aria-label", label);
}

function showKeys() {
  ask(words.keyboard, [el("p", {}, el("a", { href: "docs", target: "_blank" }, words.docs)), el("dl", { class: "keys" }, words.keys.map(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)]).flat())], { ok: words.close, cancel: null });
}

document.addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (document.body.classList.contains("sidebar-open")) toggleSidebar(false);
    else if (session.isWriting) session.stop();
    else target.blur();
    return;
  }
  if (target.closest("input, textarea, select")) return;
  /** @type {Record<string, () => void>} */
  const keys = {
    "?": showKeys,
    n: () => document.getElementById("new")?.click(),
    "/": () => { toggleSidebar(true); sidebar.search.focus(); },
    m: () => { show("chat"); chat.composer.field.focus(); },
    r: () => { const view = chat.last("assistant"); if (view && !session.isWriting) session.again(view.message); },
    e: () => chat.last("user")?.edit(),
    j: () => chat.step(1), k: () => chat.step(-1),
    ArrowLeft: () => chat.turn(-1), ArrowRight: () => chat.turn(1),
    c: () => chat.last("assistant")?.goOn(),
    s: () => editSettings(),
    t: () => theme.click(),
    f: () => { show("models"); models.find.field.focus(); },
    1: () => show("chat"), 2: () => show("models"), 3: () => show("machine"),
  };
  const press = keys[event.key];
  if (press && !(event.key.startsWith("Arrow") && target.closest("[data-arrows]"))) { event.preventDefault(); press(); }
});

/** @param {boolean} open */
function toggleSidebar(open) {
  document.body.classList.toggle("sidebar-open", open);
  document.querySelector(".menu")?.setAttribute("aria-expanded", String(open));
}

Object.assign(document.documentElement, { lang: words.lang, dir: words.dir });
document.getElementById("first")?.remove();  // the placeholder shown before scripts run
document.body.append(
  el("a", { href: "#main", class: "skip", onclick: (/** @type {Event} */ event) => { event.preventDefault(); chat.list.focus(); } }, words.skip),
  el("header", { class: "top" },
    sign(words.chats.open, icon("menu"), () => toggleSidebar(!document.body.classList.contains("sidebar-open")), { class: "sign menu", "aria-controls": "sidebar", "aria-expanded": "false" }),
    el("h1", {}, words.title), el("nav", { class: "tabs", "aria-label": words.title }, [...tabs.values()]),
    sign(words.keyboard, icon("help"), showKeys), theme),
  el("div", { class: "frame" }, sidebar.node, main),
  el("div", { id: "live", class: "offscreen", role: "status", "aria-live": "polite" }),
);
main.addEventListener("click", () => toggleSidebar(false));
setTheme(localStorage.getItem("localllm.theme") ?? "auto");
const showHash = () => show(VIEWS.find((name) => `#${name}` === location.hash) ?? "chat");
addEventListener("hashchange", showHash);
addEventListener("localllm:model", (event) => { session.choose(/** @type {CustomEvent} */ (event).detail); session.refreshModels(); show("chat"); });  // from the menu of `localllm app`
addEventListener("unhandledrejection", ({ reason }) => chat.fail(reason instanceof api.Refused ? reason.message : words.failed.unexpected(String(reason))));
showHash();
session.start().catch((error) => { chat.context.textContent = error instanceof api.Refused ? error.message : words.failed.gone; });
