// The open conversation: sends requests, receives answers and stores both. Knows nothing of the views.

import * as api from "./api.js";
import * as store from "./store.js";
import { Tree, newId, titleOf, toSend } from "./tree.js";
import { words } from "./words.js";

/**
 * @typedef {import("./tree.js").Message} Message
 * @typedef {import("./tree.js").Conversation} Conversation
 * @typedef {{ id: string, loaded: boolean, ctx: number, capabilities: string[] }} Model
 * @typedef {{ controller: AbortController, conversation: Conversation, tree: Tree, progress: string }} Writing
 */

const SAVE_MS = 300;
/** Maximum rounds of automatic tool calls after one user message. */
const MAX_ROUNDS = 20;
/** Storage key for an answer in progress when the tab closes; the database may be behind by `SAVE_MS`. */
const CUT = "localllm.cut";
/** Time within which an answer that a reload interrupted continues automatically. */
const GO_ON_MS = 60_000;

/** Events: `list`, `path`, `models`, and `message` with the id of the one that changed. */
class Session extends EventTarget {
  constructor() {
    super();
    /** @type {Conversation[]} */
    this.list = [];
    /** @type {Conversation} */
    this.conversation = this.#empty();
    this.tree = new Tree([], null);
    /** @type {Map<string, number>} */
    this.numbers = new Map();
    /** @type {Model[]} */
    this.models = [];
    /** Answers in progress and calls being run, by their messages; `progress`: what is shown before the first token. @type {Map<string, Writing>} */
    this.writing = new Map();
    /** Resolves when the models are known or could not be fetched. @type {Promise<void>} */
    this.ready = new Promise((resolve) => { this.known = resolve; });
    /** The server's MCP tools by name; null: not fetched yet. @type {Map<string, api.Tool> | null} */
    this.tools = null;
    /** Deleted conversations: their answers in progress are not saved. @type {Set<string>} */
    this.deleted = new Set();
    /** Whether the models have been fetched. */
    this.asked = false;
  }

  /** @param {string} type @param {any} [detail] */
  #notify(type, detail) { this.dispatchEvent(new CustomEvent(type, { detail })); }

  /** @returns {Conversation} */
  #empty() {
    const model = localStorage.getItem("localllm.model") ?? "";
    return { id: newId(), title: "", created: Date.now(), updated: Date.now(), model, settings: {}, head: null };
  }

  get model() { return this.models.find((model) => model.id === this.conversation.model); }
  get isWriting() { return this.tree.path().some((message) => this.writing.has(message.id)); }

  async start() {
    this.list = await store.conversations();
    const last = sessionStorage.getItem("localllm.open");
    if (last && this.list.some((each) => each.id === last)) await this.open(last);
    else this.#notify("path");
    this.#notify("list");
    await this.findModels().finally(() => this.known());
    const cut = this.tree.path().at(-1);
    const [navigation] = /** @type {PerformanceNavigationTiming[]} */ (performance.getEntriesByType("navigation"));
    if (cut?.state === "broken" && navigation?.type === "reload" && Date.now() - (cut.kept ?? 0) < GO_ON_MS && this.model) this.goOn(cut);
  }

  async findModels() {
    const { data } = await api.models();
    this.models = data.filter((/** @type {any} */ model) => model.capabilities?.includes("completion") ?? true)
      .map((/** @type {any} */ model) => ({ id: model.id, loaded: Boolean(model.loaded), ctx: model.ctx ?? model.context_length ?? 0, capabilities: model.capabilities ?? [] }));
    this.asked = true;
    if (!this.model && this.models.length) this.conversation.model = (this.models.find((model) => model.loaded) ?? this.models[0]).id;
    this.#notify("models");
  }

  /** @param {string} id */
  choose(id) {
    this.conversation.model = id;
    localStorage.setItem("localllm.model", id);
    if (this.tree.messages.size) this.#save();
    this.#notify("models");
  }

  fresh() {
    const { model, settings } = this.conversation;
    this.conversation = { ...this.#empty(), model, settings: { ...settings } };
    this.tree = new Tree([], null);
    this.numbers = new Map();
    sessionStorage.removeItem("localllm.open");
    this.#notify("path");
    this.#notify("list");
  }

  /** @param {string} id @param {string | null} [found] a message whose branch is shown */
  async open(id, found) {
    const conversation = this.list.find((each) => each.id === id);
    if (!conversation) return;
    const [before] = this.#inProgress(id);
    const messages = await store.messages(id);
    // While an answer is being written, its live tree is shown, not the stored copy; also if it ended during the read.
    const live = (this.#inProgress(id).at(0) ?? before)?.tree;
    for (const message of live ? [] : messages) {
      if (message.state !== "writing") continue;
      message.state = "broken";
      const cut = JSON.parse(sessionStorage.getItem(CUT) ?? "null");
      if (cut?.id === message.id) Object.assign(message, cut);
    }
    this.conversation = conversation;
    this.tree = live ?? new Tree(messages, conversation.head);
    if (found) this.tree.show(found);
    this.numbers = new Map([...this.tree.messages.keys()].map((each, number) => [each, number]));
    sessionStorage.setItem("localllm.open", id);
    this.#notify("path");
    this.#notify("list");
  }

  /** @param {string} id of a conversation @returns {Writing[]} */
  #inProgress(id) { return [...this.writing.values()].filter((each) => each.conversation.id === id); }

  /** @param {Message} message @param {string} progress @returns {Writing} */
  #begin(message, progress) {
    const begun = { controller: new AbortController(), conversation: this.conversation, tree: this.tree, progress };
    this.writing.set(message.id, begun);
    this.#notify("path");
    return begun;
  }

  /** @param {string} id @param {string} title */
  async rename(id, title) {
    const conversation = this.list.find((each) => each.id === id);
    if (!conversation) return;
    conversation.title = title;
    await store.saveConversation(conversation);
    this.#notify("list");
  }

  /** @param {string} id */
  async delete(id) {
    this.deleted.add(id);
    for (const each of this.#inProgress(id)) each.controller.abort();
    if (id === this.conversation.id) this.fresh();
    this.list = this.list.filter((each) => each.id !== id);
    await store.deleteConversation(id);
    this.#notify("list");
  }

  /** @param {string} text @returns {Promise<number>} */
  async import(text) {
    const count = await store.imported(text, newId);
    this.list = await store.conversations();
    this.#notify("list");
    return count;
  }

  /** @param {import("./tree.js").Settings} settings */
  configure(settings) {
    this.conversation.settings = settings;
    if (this.tree.messages.size) this.#save();
    this.#notify("models");
  }

  async #save(conversation = this.conversation) {
    if (this.deleted.has(conversation.id)) return;
    conversation.updated = Date.now();
    if (conversation === this.conversation) conversation.head = this.tree.head;
    if (!this.list.includes(conversation)) this.list.unshift(conversation);
    this.list.sort((one, other) => other.updated - one.updated);
    sessionStorage.setItem("localllm.open", this.conversation.id);
    this.#notify("list");
    await store.saveConversation(conversation);
  }

  /** @param {Partial<Message> & { role: Message["role"], parent: string | null }} fields @returns {Message} */
  #add(fields) {
    const message = /** @type {Message} */ ({ id: newId(), content: "", state: "done", ...fields });
    this.tree.add(message);
    this.numbers.set(message.id, this.numbers.size);
    return message;
  }

  /** @param {Message} message */
  async #keep(message, conversation = this.conversation, numbers = this.numbers) {
    if (this.deleted.has(conversation.id)) return;
    message.kept = Date.now();
    await store.saveMessage(conversation.id, message, numbers.get(message.id) ?? 0);
  }

  /** Adds a user message and answers it. @param {string} content @param {import("./tree.js").Attachment[]} files @param {string | null} [parent] */
  async send(content, files, parent = this.tree.head) {
    const message = this.#add({ role: "user", parent, content, files });
    if (!this.conversation.title) this.conversation.title = titleOf(content || (files[0]?.name ?? ""), words.chats.untitled);
    await Promise.all([this.#keep(message), this.#save()]);
    await this.#answer(message.id);
  }

  /** Sends an edited copy as a sibling of the message. @param {Message} message @param {string} content */
  edit(message, content) { return this.send(content, message.files ?? [], message.parent); }

  /** Another answer, as a sibling of this one. @param {Message} message */
  again(message) { return this.#answer(message.parent); }

  /** Continues an answer where it ended; the server's cache still has its tokens. @param {Message} message */
  goOn(message) { return this.#write(message, Boolean(message.content || message.reasoning)); }

  /** @param {string} callId @param {string} content @param {Message} of */
  async result(callId, content, of) {
    if (!this.tree.messages.has(of.id)) return;  // another conversation was opened: the call waits there
    const message = this.#add({ role: "tool", parent: this.tree.head ?? of.id, callId, content });
    const given = this.given(of);
    const isLast = (of.calls ?? []).every((call) => given.has(call.id));
    this.#notify("path");
    await Promise.all([this.#keep(message), this.#save()]);
    if (isLast) await this.#answer(message.id);
  }

  /** The ids of a message's calls that already have results. @param {Message} message @returns {Set<string | undefined>} */
  given(message) {
    const path = this.tree.path();
    return new Set(path.slice(path.indexOf(message) + 1).map((each) => each.callId));
  }

  async findTools() {
    this.tools = new Map((await api.tools()).map((tool) => [tool.tool, tool]));
    return this.tools;
  }

  /** Whether the chat lets the server run this call. @param {import("./tree.js").Call} call */
  offers(call) {
    return this.conversation.settings.mcp?.includes(call.function.name) ?? false;
  }

  /** Runs calls on the server and continues with their results. @param {Message} message @param {import("./tree.js").Call[]} calls */
  async runCalls(message, calls) {
    const { controller } = this.#begin(message, words.chat.runs);
    const found = await Promise.all(calls.map(async ({ id, function: { name, arguments: given } }) => {
      try {
        const { plain_text_response: text, error } = await api.runTool(name, JSON.parse(given || "{}"), controller.signal);
        return { id, text: error === undefined ? text ?? "" : words.chat.failedTool(error) };
      } catch (error) {
        return { id, text: error instanceof api.Refused || error instanceof SyntaxError ? words.chat.failedTool(error.message) : null };
      }
    }));
    this.writing.delete(message.id);
    this.#notify("path");
    for (const { id, text } of found) if (text !== null) await this.result(id, text, message);
  }

  /** Runs the calls that need no confirmation, for a limited number of rounds; returns whether there were any. @param {Message} message */
  #runFreely(message) {
    const path = this.tree.path();
    const numRounds = path.slice(path.findIndex((each) => each === path.filter(({ role }) => role === "user").at(-1))).filter((each) => each.calls?.length).length;
    if (path.at(-1) !== message || message.state !== "done" || numRounds > MAX_ROUNDS) return false;
    const free = (message.calls ?? []).filter((call) => this.offers(call)
      && (this.conversation.settings.runsAll || this.tools?.get(call.function.name)?.permissions.write === false));
    if (free.length) this.runCalls(message, free);
    return free.length > 0;
  }

  /** @param {Message} message @param {number} by */
  turn(message, by) {
    this.tree.turn(message, by);
    this.#save();
    this.#notify("path");
  }

  stop() {
    for (const message of this.tree.path()) this.writing.get(message.id)?.controller.abort();
  }

  /** @param {string | null} parent */
  #answer(parent) {
    return this.#write(this.#add({ role: "assistant", parent, state: "writing", model: this.conversation.model }), false);
  }

  /** The request for an answer to these messages. @param {Message[]} messages @param {boolean} goesOn */
  request(messages, goesOn = false) {
    const { system, sampling, thinking, schema, tools, logprobs } = this.conversation.settings;
    /** @type {Record<string, any>} */
    const body = {
      model: this.conversation.model,
      messages: [...(system ? [{ role: "system", content: system }] : []), ...messages.map(toSend)],
      ...sampling,
    };
    if (thinking) body.enable_thinking = thinking === "on";
    if (schema) body.response_format = { type: "json_schema", json_schema: { name: "answer", strict: true, schema: JSON.parse(schema) } };
    const own = tools ? JSON.parse(tools).map((/** @type {any} */ tool) => (tool.type ? tool : { type: "function", function: tool })) : [];
    const lent = (this.conversation.settings.mcp ?? []).map((name) => {
      const tool = this.tools?.get(name);
      if (!tool) throw new api.Refused(0, "", words.chat.noTool(name));
      return tool.definition;
    });
    if (own.length + lent.length) body.tools = [...own, ...lent];
    if (logprobs) Object.assign(body, { logprobs: true, top_logprobs: 5 });
    if (goesOn) Object.assign(body, { continue_final_message: true, add_generation_prompt: false });
    return body;
  }

  /** @param {Message} message @param {boolean} goesOn */
  async #write(message, goesOn) {
    const { conversation, tree, numbers } = this;
    message.state = "writing";
    delete message.error;
    const begun = this.#begin(message, words.chat.waiting);
    const { signal } = begun.controller;
    const path = tree.path();
    const before = path.slice(0, path.indexOf(message) + (goesOn ? 1 : 0));
    const shown = () => this.#notify("message", message.id);
    const leave = () => {
      const { id, content, reasoning, calls } = message;
      sessionStorage.setItem(CUT, JSON.stringify({ id, content, reasoning, calls, kept: Date.now() }));
    };
    addEventListener("pagehide", leave);
    let keeping = 0;
    const keepSoon = () => {
      keeping ||= setTimeout(() => { keeping = 0; this.#keep(message, conversation, numbers); }, SAVE_MS);
    };
    try {
      if (conversation.settings.mcp?.length && !this.tools) await this.findTools();
      const body = this.request(before, goesOn);
      await this.#loaded(body.model, begun, shown);
      await Promise.all([this.#keep(message, conversation, numbers), this.#save(conversation)]);
      let first = 0;
      const asked = { ...body, stream: true, stream_options: { include_usage: true }, return_progress: true, timings_per_token: true };
      for await (const event of api.chat(asked, signal)) {
        if (event.prompt_progress) {
          const { total, processed } = event.prompt_progress;
          begun.progress = processed < total ? words.chat.reading(processed, total) : "";
        }
        if (event.usage) figures(message, event.usage, event.timings);
        const [choice] = event.choices;
        if (choice && take(message, choice)) {
          first ||= performance.now();
          begun.progress = "";
          if (message.reasoning && !message.content && !message.calls) message.thoughtMs = performance.now() - first;
        }
        shown();
        keepSoon();
      }
      if (message.state === "writing") message.state = "done";
    } catch (error) {
      if (signal.aborted) message.state = "stopped";
      else {
        message.state = "failed";
        message.error = error instanceof api.Refused ? error.message : error instanceof SyntaxError ? words.failed.notJson : words.failed.gone;
      }
    } finally {
      removeEventListener("pagehide", leave);
      clearTimeout(keeping);
      try {
        await this.#keep(message, conversation, numbers);
      } finally {
        this.writing.delete(message.id);  // not before it is stored: until then, only this tree has the whole answer
      }
      await this.#save(conversation);
      if (this.tree === tree && !this.#runFreely(message)) this.#notify("path");
      this.#notify("ended", message.id);
    }
  }

  /** Loads the model first if necessary, to show its progress. @param {string} id @param {Writing} begun @param {() => void} shown */
  async #loaded(id, begun, shown) {
    if (this.models.find((model) => model.id === id)?.loaded) return;
    for await (const event of api.load(id, {}, begun.controller.signal)) {
      begun.progress = words.chat.loading(event.fraction);
      shown();
    }
    begun.progress = words.chat.waiting;
    this.findModels();
  }
}

/** Adds a chunk's content to the message; returns whether it had any. @param {Message} message @param {any} choice */
function take(message, choice) {
  const { delta } = choice;
  let came = false;
  if (delta.content) { message.content += delta.content; came = true; }
  if (delta.reasoning_content) { message.reasoning = (message.reasoning ?? "") + delta.reasoning_content; came = true; }
  for (const part of delta.tool_calls ?? []) {
    message.calls ??= [];
    const call = (message.calls[part.index] ??= { id: "", type: "function", function: { name: "", arguments: "" } });
    if (part.id) call.id = part.id;
    call.function.name += part.function?.name ?? "";
    call.function.arguments += part.function?.arguments ?? "";
    came = true;
  }
  if (choice.logprobs?.content) message.likely = [...(message.likely ?? []), ...choice.logprobs.content];
  if (choice.finish_reason === "length") message.state = "length";
  return came;
}

/** @param {Message} message @param {any} usage @param {any} timings the server's, since chunks arrive here in bursts */
function figures(message, usage, timings) {
  message.figures = {
    prompt: usage.prompt_tokens,
    cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
    tokens: usage.completion_tokens,
    perSecond: timings?.predicted_per_second ?? 0,
  };
}

export const session = new Session();
