// The conversation and the field for the next message.

import * as api from "./api.js";
import { canRead } from "./attachments.js";
import { Composer } from "./composer.js";
import { announce, el, fill, sign } from "./dom.js";
import { icon } from "./icons.js";
import { MessageView } from "./message_view.js";
import { session } from "./session.js";
import { editSettings } from "./settings_view.js";
import { wordsOf } from "./store.js";
import { partsOf, titleOf } from "./tree.js";
import { words } from "./words.js";

const COUNT_AFTER_MS = 400;
/** Distance from the end within which the list scrolls along with an answer. */
const NEAR_PX = 80;

export class ChatView {
  constructor() {
    /** @type {Map<string, MessageView>} */
    this.views = new Map();
    /** @type {Set<string>} */
    this.changed = new Set();
    this.frame = 0;
    this.counting = 0;
    /** Tokens of the attachments that were counted last, which take the longest to send. */
    this.rows = { key: "", count: 0 };
    this.followed = true;

    this.models = el("select", { "aria-label": words.chat.model, onchange: () => session.choose(this.models.value) });
    this.context = el("span", { class: "context", title: words.chat.contextLabel });
    const bar = el("div", { class: "bar" }, this.models, this.context, sign(words.settings.open, icon("settings"), () => editSettings(), { id: "settings" }));
    this.starters = el("div", { class: "starters" });
    this.toy = el("p", { hidden: true }, words.chat.toy, " ", el("a", { href: "#models" }, words.chat.findModel));
    this.start = el("div", { class: "empty" }, el("h2", {}, words.chat.empty), this.toy, this.starters, el("p", { class: "note" }, words.chat.note));
    this.list = el("div", { class: "messages", role: "log", "aria-live": "off", tabindex: 0, "aria-label": words.views.chat });
    this.list.addEventListener("scroll", () => {
      this.followed = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < NEAR_PX;
    });
    this.composer = new Composer((text, files) => this.#send(text, files), () => this.#count());
    this.problem = el("p", { class: "error problem", role: "alert", hidden: true });
    this.settings = el("p", { class: "note set", hidden: true });
    this.unread = el("p", { class: "note unread", role: "status", hidden: true });
    this.node = el("section", { class: "chat", "aria-label": words.views.chat }, bar, this.list, this.problem, this.settings, this.unread, this.composer.node, el("div", { class: "drop", "aria-hidden": "true" }, words.files.drop));

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
      fill(this.list, this.start);
    } else {
      for (const [index, node] of nodes.entries()) {
        if (this.list.children[index] !== node) this.list.insertBefore(node, this.list.children[index] ?? null);
      }
      while (this.list.children.length > nodes.length) this.list.lastElementChild?.remove();
    }
    if (before[0] !== this.list.children[0]) this.followed = true;
    this.#showSettings();
    const isWriting = session.isWriting;
    this.composer.update();
    this.#showUnread();
    if (isWriting) { announce(words.chat.answering); this.followed = true; }
    this.#follow();
    this.#count();
  }

  #showModels() {
    const { models, conversation } = session;
    const names = new Map(models.map((model) => [model.id, model.route ? `${model.id} → ${model.route.join(", ")}` : model.id]));
    if (conversation.model && !names.has(conversation.model)) names.set(conversation.model, conversation.model);
    fill(this.models, [...names].map(([id, name]) => el("option", { value: id, selected: id === conversation.model }, name)));
    this.models.value = conversation.model;
    this.models.hidden = !names.size;
    this.#showSettings();
    this.#showStarters();
    this.composer.update();
    this.#showUnread();
    this.last("assistant")?.update(true);  // whether it can be continued depends on the model's context
    if (!models.length && session.asked) this.context.textContent = words.chat.noModels;
    this.#count();
  }

  /** Suggests how an empty chat may begin, by what the model can do. */
  #showStarters() {
    const { model } = session;
    const isDemo = model?.id === "demo";
    this.toy.hidden = !isDemo;
    const texts = model && !isDemo ? words.chat.starters : words.chat.demoStarters;
    const shown = texts.filter(({ reads }) => !reads || canRead(model, reads));
    fill(this.starters, model && shown.map(({ title, text }) => el("button", { type: "button", onclick: () => this.composer.suggest(text) }, el("b", {}, title), text)));
  }

  /** Says what the chat is set to, since it changes the answers and is not seen in the messages. */
  #showSettings() {
    const { chat } = session;
    const names = namesOf(chat.conversation.settings);
    const isNew = !chat.tree.messages.size;
    this.settings.hidden = !names.length;
    fill(this.settings, isNew && chat.tookOver ? words.settings.takenOver(names) : words.settings.set(names), " ",
      isNew && el("button", { type: "button", class: "small", onclick: () => { session.configure({}); this.composer.field.focus(); } }, words.settings.useDefaults));
  }

  /** Says what the model does not get of this chat, and why. */
  #showUnread() {
    const { model } = session;
    const path = session.tree.path();
    const files = path.flatMap(partsOf);
    const kinds = [...new Set(files.filter((file) => !canRead(model, file.kind)).map((file) => file.kind ?? ""))];
    const left = session.leftOut(path).size;
    const text = [kinds.length && model ? words.files.standIn(model.id, kinds) : "", left ? words.files.leftOut(left) : ""].filter(Boolean).join(" ");
    this.unread.hidden = !text;
    if (this.unread.textContent !== text) this.unread.textContent = text;
  }

  /** Shows how much of the context the conversation and the draft use, after a pause in typing. */
  #count() {
    clearTimeout(this.counting);
    const counting = (this.counting = setTimeout(async () => {
      const { model } = session;
      const { text, files } = this.composer.draft;
      const path = session.tree.path();
      if (!model?.loaded || session.isWriting || this.composer.chips.isBlocked) return;
      if (!text && !files.length && !path.length) { this.context.textContent = ""; return; }
      /** @type {import("./tree.js").Message} */
      const next = { id: "", parent: path.at(-1)?.id ?? null, number: 0, role: "user", content: text, files, state: "done" };
      const messages = text || files.length ? [...path, next] : path;
      try {
        const texts = await counted(messages.map((message) => ({ ...message, files: message.files?.filter((file) => !file.digest) })));
        const rows = await this.#rows(messages, texts);
        if (counting !== this.counting) return;  // something else is shown or typed
        const used = texts + rows;
        fill(this.context, words.chat.context(used, model.ctx), rows > 0 && el("span", { class: "of-files" }, words.chat.contextOfFiles(rows)));
        this.context.classList.toggle("full", used >= model.ctx);
      } catch (error) {
        if (counting !== this.counting) return;
        this.context.textContent = "";  // the count is optional; sending reports the error
        if (session.blame(error, messages)?.message === next) this.composer.chips.show();
      }
    }, COUNT_AFTER_MS));
  }

  /** Tokens of the attachments; they are sent again only if there are others. @param {import("./tree.js").Message[]} messages @param {number} others tokens of the rest */
  async #rows(messages, others) {
    const files = messages.flatMap(partsOf);
    const key = [session.conversation.model, ...files.map((file) => file.digest)].join();
    if (files.length && this.rows.key !== key) this.rows = { key, count: (await counted(messages)) - others };
    return files.length ? this.rows.count : 0;
  }

  /** @param {string} text @param {import("./tree.js").Attachment[]} files */
  async #send(text, files) {
    if (!session.conversation.model) { this.#note(words.chat.noModels); return; }
    this.followed = true;
    await session.send(text, files);
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

/** Tokens of a request with these messages. @param {import("./tree.js").Message[]} messages */
const counted = (messages) => api.countTokens(async (numLosses) => ({ ...await session.request(messages, numLosses), logprobs: undefined, top_logprobs: undefined }));

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
