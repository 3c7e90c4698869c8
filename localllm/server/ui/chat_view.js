// The conversation and the field for the next message.

import * as api from "./api.js";
import { announce, chooseFiles, el, fill, sign } from "./dom.js";
import { MessageView } from "./message_view.js";
import { session } from "./session.js";
import { editSettings } from "./settings_view.js";
import { wordsOf } from "./store.js";
import { titleOf } from "./tree.js";
import { words } from "./words.js";

const MAX_FILE_BYTES = 1_000_000;
const COUNT_AFTER_MS = 400;
/** Distance from the end within which the list scrolls along with an answer. */
const NEAR_PX = 80;

export class ChatView {
  constructor() {
    /** @type {Map<string, MessageView>} */
    this.views = new Map();
    /** @type {import("./tree.js").Attachment[]} */
    this.files = [];
    /** @type {Set<string>} */
    this.changed = new Set();
    this.frame = 0;
    this.counting = 0;
    this.followed = true;

    this.models = el("select", { "aria-label": words.chat.model, onchange: () => session.choose(this.models.value) });
    this.context = el("span", { class: "context", title: words.chat.contextLabel });
    const bar = el("div", { class: "bar" }, this.models, this.context, sign(words.settings.open, "⚙", () => editSettings(), { id: "settings" }));
    this.list = el("div", { class: "messages", role: "log", "aria-live": "off", tabindex: 0, "aria-label": words.views.chat });
    this.list.addEventListener("scroll", () => {
      this.followed = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < NEAR_PX;
    });
    this.field = el("textarea", { id: "field", rows: 1, dir: "auto", "aria-label": words.chat.message, placeholder: words.chat.placeholder });
    this.field.addEventListener("input", () => this.#typed());
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); this.#send(); }
    });
    this.attachments = el("div", { class: "attachments" });
    this.button = el("button", { class: "primary", id: "send" }, words.chat.send);
    this.problem = el("p", { class: "error problem", role: "alert", hidden: true });
    const form = el(
      "form", { class: "composer", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); session.isWriting ? session.stop() : this.#send(); } },
      this.attachments,
      el("div", { class: "row" }, sign(words.chat.attach, "+", async () => this.#attach(await chooseFiles("text/*,.md,.json,.py,.js,.ts,.c,.h,.cpp,.rs,.go,.java,.toml,.yaml,.yml,.csv,.log"))), this.field, this.button),
    );
    form.addEventListener("dragover", (event) => event.preventDefault());
    form.addEventListener("drop", (event) => { event.preventDefault(); this.#attach([...(event.dataTransfer?.files ?? [])]); });
    this.settings = el("p", { class: "note set", hidden: true });
    this.node = el("section", { class: "chat", "aria-label": words.views.chat }, bar, this.list, this.problem, this.settings, form);

    session.addEventListener("path", () => this.#showPath());
    session.addEventListener("models", () => this.#showModels());
    session.addEventListener("message", (event) => this.#later(/** @type {CustomEvent} */ (event).detail));
    session.addEventListener("unstored", (event) => this.fail(words.failed.unstored(/** @type {CustomEvent} */ (event).detail?.message)));
    session.addEventListener("ended", (event) => announce(this.views.get(/** @type {CustomEvent} */ (event).detail)?.status.textContent || words.chat.answered));
    this.#showPath();
    this.#showModels();
  }

  /** Shows a changed message with the next frame, once for all changes until then. @param {string} id */
  #later(id) {
    this.changed.add(id);
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      for (const each of this.changed) this.views.get(each)?.update();
      this.changed.clear();
      this.#follow();
    });
  }

  #follow() {
    if (this.followed) this.list.scrollTop = this.list.scrollHeight;
  }

  #showPath() {
    const path = session.tree.path();
    const views = path.map((message) => {
      const there = this.views.get(message.id);
      if (there?.message === message) { there.update(true); return there; }
      return new MessageView(message);
    });
    this.views = new Map(views.map((view) => [view.message.id, view]));
    const nodes = views.map((view) => view.node);
    const before = [...this.list.children];
    if (nodes.length === 0) {
      fill(this.list, el("div", { class: "empty" }, el("h2", {}, words.chat.empty), el("p", {}, words.chat.note)));
    } else {
      for (const [index, node] of nodes.entries()) {
        if (this.list.children[index] !== node) this.list.insertBefore(node, this.list.children[index] ?? null);
      }
      while (this.list.children.length > nodes.length) this.list.lastElementChild?.remove();
    }
    if (before[0] !== this.list.children[0]) this.followed = true;
    this.#showSettings();
    const isWriting = session.isWriting;
    this.button.textContent = isWriting ? words.chat.stop : words.chat.send;
    this.button.classList.toggle("stop", isWriting);
    if (isWriting) { announce(words.chat.answering); this.followed = true; }
    this.#follow();
    this.#count();
  }

  #showModels() {
    const { models, conversation } = session;
    const ids = models.map((model) => model.id);
    if (conversation.model && !ids.includes(conversation.model)) ids.push(conversation.model);
    fill(this.models, ids.map((id) => el("option", { value: id, selected: id === conversation.model }, id)));
    this.models.value = conversation.model;
    this.models.hidden = !ids.length;
    this.#showSettings();
    this.last("assistant")?.update(true);  // whether it can be continued depends on the model's context
    if (!models.length && session.asked) this.context.textContent = words.chat.noModels;
    this.#count();
  }

  /** Says what the chat is set to, since it changes the answers and is not seen in the messages. */
  #showSettings() {
    const { chat } = session;
    const names = namesOf(chat.conversation.settings);
    const isNew = !chat.tree.messages.size;
    this.settings.hidden = !names.length;
    fill(this.settings, isNew && chat.tookOver ? words.settings.takenOver(names) : words.settings.set(names), " ",
      isNew && el("button", { type: "button", class: "small", onclick: () => { session.configure({}); this.field.focus(); } }, words.settings.useDefaults));
  }

  #typed() {
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight + 2, 240)}px`;
    this.#count();
  }

  /** Shows how much of the context the conversation and the draft use, after a pause in typing. */
  #count() {
    clearTimeout(this.counting);
    const counting = (this.counting = setTimeout(async () => {
      const model = session.model;
      const draft = this.field.value;
      const path = session.tree.path();
      if (!model?.loaded || session.isWriting) return;
      if (!draft && !path.length) { this.context.textContent = ""; return; }
      try {
        const last = path.at(-1)?.id ?? null;
        /** @type {import("./tree.js").Message} */
        const next = { id: "", parent: last, number: 0, role: "user", content: draft, files: this.files, state: "done" };
        const body = session.request(draft || this.files.length ? [...path, next] : path);
        delete body.logprobs;
        delete body.top_logprobs;
        const used = await api.countTokens(body);
        if (counting !== this.counting) return;  // something else is shown or typed
        this.context.textContent = words.chat.context(used, model.ctx);
        this.context.classList.toggle("full", used >= model.ctx);
      } catch {
        this.context.textContent = "";  // the count is optional; sending reports the error
      }
    }, COUNT_AFTER_MS));
  }

  async #send() {
    await session.ready;
    const text = this.field.value.trim();
    if ((!text && !this.files.length) || session.isWriting) return;
    if (!session.conversation.model) return this.#note(words.chat.noModels);
    const files = this.files;
    this.field.value = "";
    this.files = [];
    this.#showFiles();
    this.#typed();
    this.followed = true;
    await session.send(text, files);
  }

  /** @param {File[]} files */
  async #attach(files) {
    const before = this.files;
    for (const file of files) {
      if (file.size > MAX_FILE_BYTES) { this.#note(words.chat.tooLarge(file.name)); continue; }
      try {
        const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
        if (text.includes("\0")) throw new TypeError();
        this.files = [...this.files, { name: file.name, text }];
      } catch { this.#note(words.chat.notText(file.name)); }
    }
    this.#showFiles();
    if (this.files !== before) this.#count();
  }

  /** Shows a problem that concerns no message, until the page is reloaded. @param {string} text */
  fail(text) {
    this.problem.textContent = text;
    this.problem.hidden = false;
  }

  /** Shows a text in place of the count, until the next one. @param {string} text */
  #note(text) {
    clearTimeout(this.counting);
    this.counting = 0;
    this.context.textContent = text;
    announce(text);
  }

  #showFiles() {
    fill(this.attachments, this.files.map((file) => el(
      "span", { class: "chip" }, file.name,
      sign(`${words.chat.remove}: ${file.name}`, "×", () => { this.files = this.files.filter((each) => each !== file); this.#showFiles(); this.#count(); }),
    )));
  }

  /** Shows a message and highlights the search words in it. @param {string} id @param {string} text */
  reveal(id, text) {
    const node = this.views.get(id)?.node;
    if (!node) return;
    this.followed = false;
    node.scrollIntoView({ block: "start" });
    node.focus();
    mark(node, wordsOf(text));
  }

  /** Moves the focus to the previous or next message. @param {number} by */
  step(by) {
    const nodes = /** @type {HTMLElement[]} */ ([...this.list.children]);
    const at = nodes.findIndex((node) => node.contains(document.activeElement));
    const node = at < 0 ? nodes.at(-1) : nodes[at + by];
    if (!node) return;
    this.followed = false;
    node.focus();
    node.scrollIntoView({ block: "nearest" });
  }

  /** Switches the version of the focused message, or of the last one with several versions. @param {number} by */
  turn(by) {
    const path = session.tree.path();
    const message = path.find((each) => this.views.get(each.id)?.node.contains(document.activeElement))
      ?? path.reverse().find((each) => session.tree.version(each).of > 1);
    if (!message) return;
    session.turn(message, by);
    const next = session.tree.path().find((each) => each.parent === message.parent);
    if (!next) return;
    const { at, of } = session.tree.version(next);
    this.views.get(next.id)?.node.focus();
    announce(words.chat.version(at, of));
  }

  /** @param {"user" | "assistant"} role */
  last(role) {
    const message = session.tree.path().filter((each) => each.role === role).at(-1);
    return message && this.views.get(message.id);
  }
}

/** What is set, in words. @param {import("./tree.js").Settings} settings @returns {string[]} */
function namesOf({ system, sampling, thinking, schema, tools, logprobs, mcp }) {
  const say = words.settings;
  const numTools = (tools ? JSON.parse(tools).length : 0) + (mcp?.length ?? 0);
  const low = (/** @type {string} */ text) => text[0].toLowerCase() + text.slice(1);
  return [
    system && `${low(say.system)} “${titleOf(system, "")}”`, schema && say.schema, numTools && say.numTools(numTools), sampling && say.sampling,
    thinking && `${low(say.thinking)} ${low(say.thinkings[thinking])}`, logprobs && low(say.probabilities),
  ].filter((each) => typeof each === "string" && each !== "").map(String);
}

/** Highlights words without changing any node. @param {HTMLElement} node @param {string[]} wanted */
function mark(node, wanted) {
  if (!("highlights" in CSS)) return;
  const ranges = [];
  const texts = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.nodeValue ?? "";
    const low = text.toLowerCase();
    for (const word of wanted) {
      for (let at = low.indexOf(word); at >= 0 && ranges.length < 500; at = low.indexOf(word, at + word.length)) {
        const range = new Range();
        range.setStart(texts.currentNode, Math.min(at, text.length));
        range.setEnd(texts.currentNode, Math.min(at + word.length, text.length));
        ranges.push(range);
      }
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
}
