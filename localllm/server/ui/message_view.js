// One message and its actions.

import { accepted } from "./attachments.js";
import { chooseFiles, copyText, el, fill, sign } from "./dom.js";
import { FileChips, fileList } from "./file_chips.js";
import { icon } from "./icons.js";
import { Markdown } from "./markdown.js";
import { session } from "./session.js";
import { jsonTree } from "./json_tree.js";
import { shaded } from "./logprobs.js";
import { covering } from "./scored.js";
import { words } from "./words.js";

/** @typedef {import("./tree.js").Message} Message */

const FIGURES = "localllm.figures";

export class MessageView {
  /** @param {Message} message */
  constructor(message) {
    this.message = message;
    this.markdown = new Markdown();
    this.thought = el("pre", { class: "thought", dir: "auto" });
    this.thoughtTitle = el("summary");
    this.thoughts = el("details", { hidden: true }, this.thoughtTitle, this.thought);
    this.body = el("div", { class: "body" });
    this.files = el("div", { class: "files" });
    /** What the server says against the files, as it is shown. @type {string | null} */
    this.refusals = null;
    this.calls = el("div", { class: "calls" });
    this.status = el("p", { class: "status", hidden: true });
    this.foot = el("div", { class: "foot" });
    /** Undefined: as a tree if the chat has a schema. @type {boolean | undefined} */
    this.asTree = undefined;
    this.isEdited = false;
    /** Results being typed, by the ids of their calls. @type {Map<string, HTMLTextAreaElement>} */
    this.results = new Map();
    const who = { user: words.chat.you, assistant: words.chat.assistant, tool: words.chat.tool }[message.role];
    this.node = el(
      "article", { class: `message ${message.role}`, "aria-label": who, tabindex: -1 },
      el("header", {}, message.role === "assistant" && message.model ? message.model : who),
      this.files, this.thoughts, this.body, this.calls, this.status, this.foot,
    );
    this.update(true);
  }

  /** @param {boolean} [whole] also updates the buttons, not only the growing text */
  update(whole = false) {
    const { message } = this;
    const begun = session.writing.get(message.id);
    const isWriting = begun !== undefined;
    this.node.setAttribute("aria-busy", String(isWriting));
    if (message.reasoning) {
      this.thoughts.hidden = false;
      grow(this.thought, message.reasoning);
      const seconds = ((message.thoughtMs ?? 0) / 1000).toFixed(1);
      this.thoughtTitle.textContent = isWriting && !message.content && !message.calls ? words.chat.thinking : words.chat.thought(seconds);
    }
    if (whole) this.#showFiles();
    this.#showBody(isWriting);
    const status = begun?.progress || (isWriting ? "" : ending(message));
    this.status.hidden = !status;
    if (this.status.textContent !== status) this.status.textContent = status;
    this.status.classList.toggle("error", message.state === "failed" && !isWriting);
    if (whole || !isWriting) this.#showCalls(isWriting);
    if (whole) this.#showFoot(isWriting);
  }

  #showFiles() {
    const files = this.message.files ?? [];
    this.files.hidden = !files.length || this.isEdited;
    const refusals = files.map((file) => file.error ?? "").join("\n");
    if (refusals === this.refusals) return;
    this.refusals = refusals;
    fill(this.files, ...fileList(files, session.conversation.id));
  }

  /** @param {boolean} isWriting */
  #showBody(isWriting) {
    const { message } = this;
    if (this.isEdited) return;
    if (message.role === "tool") { fill(this.body, el("pre", { dir: "auto" }, message.content)); return; }
    const tokens = !isWriting && message.likely && session.conversation.settings.logprobs ? covering(message.likely, message.content) : null;
    if (tokens) { fill(this.body, shaded(tokens)); return; }
    if (!isWriting && this.isTree) { fill(this.body, jsonTree(message.content, this.schema)); return; }
    if (message.role === "user") { fill(this.body, el("div", { class: "plain", dir: "auto" }, message.content)); return; }
    if (this.body.firstChild !== this.markdown.node) fill(this.body, this.markdown.node);
    this.markdown.update(message.content);
  }

  /** @param {boolean} isWriting */
  #showCalls(isWriting) {
    const { message } = this;
    if (!message.calls?.length) return;
    const given = session.given(message);
    const focused = document.activeElement;
    fill(this.calls, message.calls.map((call) => {
      const shown = el("details", { class: "call", open: true }, el("summary", {}, words.chat.calls(call.function.name)), jsonTree(call.function.arguments));
      if (isWriting || given.has(call.id)) return shown;
      if (session.offers(call)) shown.append(el("div", { class: "row" }, el("button", { type: "button", class: "primary", onclick: () => session.runCalls(message, [call]) }, words.chat.run)));
      const field = this.results.get(call.id) ?? el("textarea", { "aria-label": words.chat.result, placeholder: words.chat.result, rows: 2 });
      this.results.set(call.id, field);
      const give = el("button", { type: "button", onclick: () => session.result(call.id, field.value, message) }, words.chat.giveResult);
      shown.append(el("div", { class: "row" }, field, give));
      return shown;
    }));
    if (focused instanceof HTMLElement && this.calls.contains(focused)) focused.focus({ preventScroll: true });
  }

  /** Shows the buttons; the focus stays on the one that had it, or on the message if that is gone. @param {boolean} isWriting */
  #showFoot(isWriting) {
    if (this.isEdited) return;
    const focused = document.activeElement;
    const name = focused instanceof HTMLElement && this.foot.contains(focused) ? nameOf(focused) : null;
    this.#fillFoot(isWriting);
    if (name === null) return;
    const again = [...this.foot.querySelectorAll("button")].find((each) => nameOf(each) === name && !each.disabled);
    (again ?? this.node).focus({ preventScroll: true });  // the reader may have scrolled away
  }

  /** @param {boolean} isWriting */
  #fillFoot(isWriting) {
    const { message } = this;
    const { at, of } = session.tree.version(message);
    const versions = of > 1 ? el(
      "span", { class: "versions" },
      sign(words.chat.previous, icon("previous"), () => session.turn(message, -1), { disabled: at === 1 }),
      el("span", { "aria-label": words.chat.version(at, of) }, `${at}/${of}`),
      sign(words.chat.next, icon("next"), () => session.turn(message, 1), { disabled: at === of }),
    ) : null;
    if (isWriting || message.role === "tool") { fill(this.foot, versions); return; }
    const copy = sign(words.copy, icon("copy"), () => copyText(copy, message.content, icon("done")));
    const buttons = message.content ? [copy] : [];
    /** @param {string} label @param {import("./icons.js").Icon} name @param {() => void} press */
    const button = (label, name, press) => buttons.push(sign(label, icon(name), press, { "data-name": name }));
    if (message.role === "user") button(words.chat.edit, "edit", () => this.edit());
    else {
      button(words.chat.regenerate, "again", () => session.again(message));
      if (this.canGoOn) button(words.chat.continue, "continue", () => this.goOn());
      if (message.content && "speechSynthesis" in window) button(words.chat.speak, "speak", () => this.#speak());
      if (isJson(message.content)) button(this.isTree ? words.chat.text : words.chat.json, "tree", () => { this.asTree = !this.isTree; this.update(true); });
    }
    fill(this.foot, versions, buttons, this.#figures());
  }

  /** Reads the answer aloud with the system's voice, or stops that. */
  #speak() {
    const isSpeaking = speechSynthesis.speaking;
    speechSynthesis.cancel();
    if (!isSpeaking) speechSynthesis.speak(new SpeechSynthesisUtterance(this.body.innerText));
  }

  /** What an answer took, behind a sign; open for all answers once one was opened. */
  #figures() {
    const { figures } = this.message;
    if (!figures) return null;
    const label = words.chat.showFigures;
    const shown = el("details", { class: "info", open: localStorage.getItem(FIGURES) === "open" },
      el("summary", { "aria-label": label, title: label }, icon("info")),
      el("span", { class: "figures" }, words.chat.figures(figures.tokens, figures.perSecond, figures.cached, figures.prompt, figures.files)));
    shown.addEventListener("toggle", () => {
      const state = shown.open ? "open" : "";
      if (localStorage.getItem(FIGURES) === state) return;  // it was made open
      localStorage.setItem(FIGURES, state);
      shown.lastElementChild?.scrollIntoView({ block: "nearest" });
    });
    return shown;
  }

  get schema() { return this.message.role === "assistant" ? session.conversation.settings.schema : undefined; }

  get isTree() { return this.message.role === "assistant" && (this.asTree ?? Boolean(this.schema)) && isJson(this.message.content); }

  get canGoOn() {
    const { message } = this;
    const isCut = message.role === "assistant" && message.state !== "done" && message.id === session.tree.head;
    return isCut && !message.calls?.length && Boolean(message.content || message.reasoning) && session.hasRoomAfter(message);
  }

  goOn() {
    if (this.canGoOn && !session.isWriting) session.goOn(this.message);
  }

  /** Shows the message in a field, to edit and send it again. */
  edit() {
    if (this.isEdited) { this.body.querySelector("textarea")?.focus(); return; }
    const field = el("textarea", { "aria-label": words.chat.edit, rows: Math.min(12, this.message.content.split("\n").length + 1), dir: "auto" });
    field.value = this.message.content;
    this.isEdited = true;  // other answers go on meanwhile
    const chips = new FileChips(() => {}, this.message.files);
    const back = () => { this.isEdited = false; session.removeEventListener("models", shown); this.update(true); };
    const save = async () => {
      await chips.reading;
      if (chips.isBlocked) { chips.show(); return; }
      back();
      session.edit(this.message, field.value, chips.files);
    };
    const shown = () => chips.show();
    session.addEventListener("models", shown);
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { event.stopPropagation(); back(); }
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save();
    });
    this.#showFiles();
    fill(this.body, chips.node, chips.problem, field, el("div", { class: "row end" },
      sign(words.files.attach, icon("attach"), async () => chips.add(await chooseFiles(accepted(session.model))), { class: "sign first" }),
      el("button", { type: "button", onclick: back }, words.cancel), el("button", { type: "button", class: "primary", onclick: save }, words.chat.save)));
    fill(this.foot);
    field.focus();
  }
}

/** Sets a node's text; appends if it only grew. @param {HTMLElement} node @param {string} text */
function grow(node, text) {
  const last = node.firstChild;
  if (last instanceof Text && text.startsWith(last.data)) { if (text.length > last.data.length) last.appendData(text.slice(last.data.length)); }
  else node.textContent = text;
}

/** Why an answer ended early, and what helps. @param {Message} message */
function ending(message) {
  const { prompt = 0, tokens = 0 } = message.figures ?? {};
  switch (message.state) {
    case "length": return words.chat.cut(session.conversation.settings.sampling?.max_tokens);
    case "full": return `${words.chat.full(prompt + tokens)} ${words.chat.makeRoom}`;
    case "late": return words.chat.late;
    case "stopped": return words.chat.stopped;
    case "broken": return words.chat.broken;
    case "failed": return message.isTooLong ? `${message.error} ${words.chat.makeRoom}` : message.content || message.reasoning ? `${words.failed.stream}: ${message.error ?? ""}` : message.error ?? "";
    default: return "";
  }
}

/** What tells a button from its neighbours. @param {HTMLElement} button */
function nameOf(button) { return button.dataset.name ?? button.ariaLabel ?? button.textContent; }

/** @param {string} text */
function isJson(text) {
  if (!/^\s*[[{]/.test(text) || text.length > 1_000_000) return false;
  try { JSON.parse(text); return true; } catch { return false; }
}
