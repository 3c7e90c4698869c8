// The open conversation: sends requests, receives answers and stores both. Knows nothing of the views.

import * as api from "./api.js";
import { NotAttached, canRead, forget, returned, sentAs, stored, unstored } from "./attachments.js";
import { Scores, covering, unscored } from "./scored.js";
import * as store from "./store.js";
import { Tree, newId, partsOf, titleOf, toSend } from "./tree.js";
import { words } from "./words.js";

/**
 * @typedef {import("./tree.js").Message} Message
 * @typedef {import("./tree.js").Conversation} Conversation
 * @typedef {{ id: string, loaded: boolean, ctx: number, capabilities: string[], reads?: string[], route?: string[] }} Model `reads`: beside text; undefined: not known
 * @typedef {{ controller: AbortController, chat: Chat, progress: string }} Writing
 */

const SAVE_MS = 300;
/** Maximum rounds of automatic tool calls after one user message. */
const MAX_ROUNDS = 20;
/** Storage key for an answer in progress when the tab closes; the database may be behind by `SAVE_MS`. */
const CUT = "localllm.cut";
/** Time within which an answer that a reload interrupted continues automatically. */
const GO_ON_MS = 60_000;

/** The place of a file in a request, as the server names it. */
const PLACE = /messages\[(\d+)\]\.content\[(\d+)\][\w.]*/;

/** A conversation with its messages. Whoever waits keeps its chat: another one may be shown meanwhile. */
class Chat {
  /** @param {Conversation} conversation @param {Message[]} messages */
  constructor(conversation, messages) {
    this.conversation = conversation;
    this.tree = new Tree(messages, conversation.head);
    /** Operations in progress; until the last ends, the tree may be newer than the database. */
    this.numWorks = 0;
    /** Whether the database has failed: then only the tree has all. */
    this.isUnstored = false;
    /** Whether its settings are those of the chat that was shown before, unchanged. */
    this.tookOver = false;
  }
}

/** Events: `list`, `path`, `models`, `message` with the id of the one that changed, and `unstored` with the browser's error. */
class Session extends EventTarget {
  constructor() {
    super();
    /** @type {Conversation[]} */
    this.list = [];
    /** The one that is shown. */
    this.chat = new Chat(this.#empty(), []);
    /** Chats with operations in progress or not stored, shown or not, by their conversations. @type {Map<string, Chat>} */
    this.live = new Map();
    /** Counts what has been opened: of two in quick succession, the last is shown. */
    this.numOpened = 0;
    /** Counts the lists of models asked for: only the newest is taken. */
    this.numAsked = 0;
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
    /** The server's limits for files of messages; until they are known, its defaults. @type {import("./attachments.js").Limits} */
    this.limits = { bytes: 20 * 2 ** 20, pixels: 64e6, requestBytes: 64 * 2 ** 20 };
  }

  /** @param {string} type @param {any} [detail] */
  #notify(type, detail) { this.dispatchEvent(new CustomEvent(type, { detail })); }

  /** @returns {Conversation} */
  #empty() {
    const model = localStorage.getItem("localllm.model") ?? "";
    return { id: newId(), title: "", created: Date.now(), updated: Date.now(), model, settings: {}, head: null };
  }

  get conversation() { return this.chat.conversation; }
  get tree() { return this.chat.tree; }
  get model() { return this.models.find((model) => model.id === this.conversation.model); }
  get isWriting() { return this.tree.path().some((message) => this.writing.has(message.id)); }

  async start() {
    this.list = (await this.#storing(store.conversations())) ?? [];
    const last = sessionStorage.getItem("localllm.open");
    if (last && this.list.some((each) => each.id === last)) await this.open(last);
    else this.#notify("path");
    this.#notify("list");
    await this.findModels().finally(() => this.known());
    this.#findLimits();
    const cut = this.tree.path().at(-1);
    const [navigation] = /** @type {PerformanceNavigationTiming[]} */ (performance.getEntriesByType("navigation"));
    if (cut?.state === "broken" && navigation?.type === "reload" && Date.now() - (cut.kept ?? 0) < GO_ON_MS && this.model) this.goOn(cut);
  }

  /** Without an answer the defaults stay, and the server says what is too large. */
  async #findLimits() {
    const found = await api.available().catch(() => null);
    if (!found) return;
    const { bytes, pixels, requestBytes } = this.limits;
    this.limits = {
      bytes: found.max_media_bytes ?? bytes, pixels: found.max_megapixels ? found.max_megapixels * 1e6 : pixels,
      requestBytes: found.max_request_media_bytes ?? requestBytes,
    };
  }

  async findModels() {
    const asked = ++this.numAsked;
    const { data } = await api.models();
    if (asked !== this.numAsked) return;
    this.models = data.filter((/** @type {any} */ model) => model.capabilities?.includes("completion") ?? true)
      .map((/** @type {any} */ model) => ({ id: model.id, loaded: Boolean(model.loaded), ctx: model.ctx ?? model.context_length ?? 0, capabilities: model.capabilities ?? [],
        reads: model.architecture?.input_modalities.filter((/** @type {string} */ each) => each !== "text") }));
    this.asked = true;
    if (!this.model && this.models.length) this.conversation.model = (this.models.find((model) => model.loaded) ?? this.models[0]).id;
    this.#notify("models");
  }

  /** Fetches the models again. Without the server the old list stays, and the next request says so. */
  async refreshModels() {
    try { await this.findModels(); } catch (error) { console.warn(error); }
  }

  /** @param {string} id */
  choose(id) {
    this.conversation.model = id;
    localStorage.setItem("localllm.model", id);
    if (this.tree.messages.size) this.#save(this.chat);
    this.#notify("models");
  }

  fresh() {
    const { model, settings } = this.conversation;
    this.numOpened += 1;
    this.chat = new Chat({ ...this.#empty(), model, settings: { ...settings } }, []);
    this.chat.tookOver = true;
    sessionStorage.removeItem("localllm.open");
    this.#notify("path");
    this.#notify("list");
  }

  /**
   * @param {string} id
   * @param {string | null} [found] a message whose branch is shown
   * @returns {Promise<boolean>} whether it is shown: false if another was opened meanwhile, or this one deleted
   */
  async open(id, found) {
    const conversation = this.list.find((each) => each.id === id);
    if (!conversation) return false;
    const opened = ++this.numOpened;
    const chat = this.#held(id) ?? (await this.#stored(conversation));
    if (opened !== this.numOpened || this.deleted.has(id)) return false;
    this.chat = chat;
    if (found) this.tree.show(found);
    sessionStorage.setItem("localllm.open", id);
    this.#notify("path");
    this.#notify("list");
    return true;
  }

  /** @param {string} id of a conversation */
  #held(id) { return this.live.get(id) ?? (id === this.conversation.id ? this.chat : undefined); }

  /** @param {Conversation} conversation @returns {Promise<Message[]>} in order of creation */
  async messages({ id }) {
    const held = this.#held(id);
    return held ? [...held.tree.messages.values()] : store.messages(id);
  }

  /** @param {Conversation} conversation that is not held @returns {Promise<Chat>} */
  async #stored(conversation) {
    const messages = await store.messages(conversation.id);
    for (const message of messages) {
      if (message.state !== "writing") continue;
      message.state = "broken";
      const cut = JSON.parse(sessionStorage.getItem(CUT) ?? "null");
      if (cut?.id === message.id) Object.assign(message, cut);
    }
    return new Chat(conversation, messages);
  }

  /** Chats go on without the database, which may be full or blocked; what failed is said. @template T @param {Promise<T>} work @param {Chat} [chat] @returns {Promise<T | undefined>} */
  async #storing(work, chat) {
    try {
      return await work;
    } catch (error) {
      this.#notify("unstored", error);
      if (chat) {
        chat.isUnstored = true;
        this.live.set(chat.conversation.id, chat);
      }
      return undefined;
    }
  }

  /** @template T @param {Chat} chat @param {() => Promise<T>} work @returns {Promise<T>} */
  async #working(chat, work) {
    const { id } = chat.conversation;
    this.live.set(id, chat);
    chat.numWorks += 1;
    try {
      return await work();
    } finally {
      chat.numWorks -= 1;
      if (!chat.numWorks && !chat.isUnstored) this.live.delete(id);
    }
  }

  /** @param {Chat} chat */
  #showPath(chat) { if (chat === this.chat) this.#notify("path"); }

  /** @param {Chat} chat @param {Message} message @param {string} progress @returns {Writing} */
  #begin(chat, message, progress) {
    const begun = { controller: new AbortController(), chat, progress };
    this.writing.set(message.id, begun);
    this.#showPath(chat);
    return begun;
  }

  /** @param {string} id @param {string} title */
  async rename(id, title) {
    const conversation = this.list.find((each) => each.id === id);
    if (!conversation) return;
    conversation.title = title;
    await this.#storing(store.saveConversation(conversation));
    this.#notify("list");
  }

  /** Keeps a chat at the top of the list, or no longer. @param {string} id */
  async pin(id) {
    const conversation = this.list.find((each) => each.id === id);
    if (!conversation) return;
    conversation.isPinned = !conversation.isPinned;
    await this.#storing(store.saveConversation(conversation));
    this.#notify("list");
  }

  /** @param {string} id */
  async delete(id) {
    this.deleted.add(id);
    for (const { chat, controller } of this.writing.values()) if (chat.conversation.id === id) controller.abort();
    if (id === this.conversation.id) this.fresh();
    this.list = this.list.filter((each) => each.id !== id);
    this.live.delete(id);
    await this.#storing(store.deleteConversation(id));
    this.#notify("list");
  }

  /** @param {string} text @returns {Promise<number>} */
  async import(text) {
    const count = await store.imported(text, newId);
    const stored = await store.conversations();
    const known = new Set(this.list.map((each) => each.id));  // these may be newer than the stored ones, and are in use
    this.list.push(...stored.filter((each) => !known.has(each.id) && !this.deleted.has(each.id)));
    this.#sort();
    this.#notify("list");
    return count;
  }

  /** @param {import("./tree.js").Settings} settings @param {Chat} chat */
  configure(settings, chat = this.chat) {
    chat.conversation.settings = settings;
    chat.tookOver = false;
    if (chat.tree.messages.size) this.#save(chat);
    this.#notify("models");
  }

  #sort() { this.list.sort((one, other) => other.updated - one.updated); }

  /** @param {Chat} chat */
  async #save(chat) {
    const { conversation, tree } = chat;
    if (this.deleted.has(conversation.id)) return;
    conversation.updated = Date.now();
    conversation.head = tree.head;
    if (!this.list.includes(conversation)) this.list.unshift(conversation);
    this.#sort();
    sessionStorage.setItem("localllm.open", this.conversation.id);
    this.#notify("list");
    await this.#storing(store.saveConversation(conversation), chat);
  }

  /** @param {Chat} chat @param {Partial<Message> & { role: Message["role"], parent: string | null }} fields @param {boolean} isShown @returns {Message} */
  #add({ tree }, fields, isShown = fields.parent === tree.head) {
    const message = /** @type {Message} */ ({ id: newId(), content: "", state: "done", ...fields });
    tree.add(message, isShown);
    return message;
  }

  /** @param {Chat} chat @param {Message} message */
  async #keep(chat, message) {
    const { id } = chat.conversation;
    if (this.deleted.has(id)) return;
    message.kept = Date.now();
    const blobs = unstored(message.files ?? []);
    await this.#storing(store.saveMessage(id, message, blobs).then(() => stored(blobs.keys())), chat);
  }

  /** Adds a user message and answers it. @param {string} content @param {import("./tree.js").Attachment[]} files @param {string | null} [parent] */
  send(content, files, parent = this.tree.head) {
    const { chat } = this;
    return this.#working(chat, async () => {
      const message = this.#add(chat, { role: "user", parent, content, files }, true);
      if (!chat.conversation.title) chat.conversation.title = titleOf(content || (files[0]?.name ?? ""), words.chats.untitled);
      await Promise.all([this.#keep(chat, message), this.#save(chat)]);
      await this.#answer(chat, message.id);
    });
  }

  /** Sends an edited copy as a sibling of the message. @param {Message} message @param {string} content @param {import("./tree.js").Attachment[]} files */
  edit(message, content, files) { return this.send(content, files.map(unrefused), message.parent); }

  /** Another answer, as a sibling of this one. @param {Message} message */
  again(message) { return this.#answer(this.chat, message.parent, true); }

  /** Continues an answer where it ended; the server's cache still has its tokens. @param {Message} message */
  goOn(message) { return this.#write(this.chat, message, Boolean(message.content || message.reasoning)); }

  /** Whether an answer can be continued: after one that filled its context, only in a larger one. @param {Message} message */
  hasRoomAfter({ state, isTooLong, figures }) {
    return !(state === "full" || isTooLong) || (figures !== undefined && figures.prompt + figures.tokens < (this.model?.loaded ? this.model.ctx : 0));
  }

  /** Adds a result, and answers once every call of the message has one. @param {string} callId @param {string} content @param {Message} of @param {Chat} chat @param {import("./tree.js").Attachment[]} [files] */
  result(callId, content, of, chat = this.chat, files = undefined) {
    return this.#working(chat, async () => {
      const message = this.#add(chat, { role: "tool", parent: chat.tree.end(of), callId, content, ...(files?.length && { files }) });
      const given = this.given(of, chat.tree);
      const isLast = (of.calls ?? []).every((call) => given.has(call.id));
      this.#showPath(chat);
      await Promise.all([this.#keep(chat, message), this.#save(chat)]);
      if (isLast) await this.#answer(chat, message.id);
    });
  }

  /** The ids of a message's calls that already have results. @param {Message} message @param {Tree} tree @returns {Set<string | undefined>} */
  given(message, tree = this.tree) {
    const path = tree.path(tree.end(message));
    return new Set(path.slice(path.indexOf(message) + 1).map((each) => each.callId));
  }

  async findTools() {
    this.tools = new Map((await api.tools()).map((tool) => [tool.tool, tool]));
    return this.tools;
  }

  /** Whether the chat lets the server run this call. @param {import("./tree.js").Call} call */
  offers(call, { settings } = this.conversation) {
    return settings.mcp?.includes(call.function.name) ?? false;
  }

  /** Runs calls on the server and continues with their results. @param {Message} message @param {import("./tree.js").Call[]} calls @param {Chat} chat */
  runCalls(message, calls, chat = this.chat) {
    return this.#working(chat, () => this.#runCalls(chat, message, calls));
  }

  /** @param {Chat} chat @param {Message} message @param {import("./tree.js").Call[]} calls */
  async #runCalls(chat, message, calls) {
    const { controller } = this.#begin(chat, message, words.chat.runs);
    /** @type {{ id: string, text: string | null, files?: import("./tree.js").Attachment[] }[]} */
    const found = await Promise.all(calls.map(async ({ id, function: { name, arguments: given } }) => {
      try {
        const { plain_text_response: text, error, content } = await api.runTool(name, JSON.parse(given || "{}"), controller.signal);
        if (content) {
          try {
            return { id, ...await returned(content, this.limits) };
          } catch (error) { if (!(error instanceof NotAttached)) throw error; }  // the text names what is left out
        }
        return { id, text: error === undefined ? text ?? "" : words.chat.failedTool(error) };
      } catch (error) {
        return { id, text: error instanceof api.Refused || error instanceof SyntaxError ? words.chat.failedTool(error.message) : null };
      }
    }));
    this.writing.delete(message.id);
    this.#showPath(chat);
    for (const { id, text, files } of found) if (text !== null) await this.result(id, text, message, chat, files);
  }

  /** Runs the calls that need no confirmation, for a limited number of rounds; returns whether there were any. @param {Chat} chat @param {Message} message */
  #runFreely(chat, message) {
    const { conversation, tree } = chat;
    const path = tree.path(message.id);
    const numRounds = path.slice(path.findIndex((each) => each === path.filter(({ role }) => role === "user").at(-1))).filter((each) => each.calls?.length).length;
    if (tree.children.has(message.id) || message.state !== "done" || numRounds > MAX_ROUNDS) return false;
    const free = (message.calls ?? []).filter((call) => this.offers(call, conversation)
      && (conversation.settings.runsAll || this.tools?.get(call.function.name)?.permissions.write === false));
    if (free.length) this.runCalls(message, free, chat);
    return free.length > 0;
  }

  /** @param {Message} message @param {number} by */
  turn(message, by) {
    this.tree.turn(message, by);
    this.#save(this.chat);
    this.#notify("path");
  }

  stop() {
    for (const message of this.tree.path()) this.writing.get(message.id)?.controller.abort();
  }

  /** @param {Chat} chat @param {string | null} parent @param {boolean} [isShown] */
  async #answer(chat, parent, isShown) {
    const { id, model } = chat.conversation;
    if (!this.deleted.has(id)) await this.#write(chat, this.#add(chat, { role: "assistant", parent, state: "writing", model }, isShown), false);
  }

  /**
   * The request for an answer to these messages; `numLosses`: see `sentAs`.
   * @param {Message[]} messages @param {number} numLosses @param {boolean} goesOn @param {Conversation} conversation @returns {Promise<Record<string, any>>}
   */
  async request(messages, numLosses, goesOn = false, conversation = this.conversation) {
    const { system, sampling, thinking, schema, tools, logprobs, mcp } = conversation.settings;
    const left = this.leftOut(messages);
    if (numLosses === 1) forget();
    const sent = messages.map((message) => toSend(message, async (file) => (left.has(file) ? "" : sentAs(conversation.id, file, numLosses, message !== messages.at(-1)))));
    /** @type {Record<string, any>} */
    const body = {
      model: conversation.model,
      messages: [...(system ? [{ role: "system", content: system }] : []), ...(await Promise.all(sent))],
      ...sampling,
    };
    if (thinking) body.enable_thinking = thinking === "on";
    if (schema) body.response_format = { type: "json_schema", json_schema: { name: "answer", strict: true, schema: JSON.parse(schema) } };
    const own = tools ? JSON.parse(tools).map((/** @type {any} */ tool) => (tool.type ? tool : { type: "function", function: tool })) : [];
    const lent = (mcp ?? []).map((name) => {
      const tool = this.tools?.get(name);
      if (!tool) throw new api.Refused(0, "", words.chat.noTool(name));
      return tool.definition;
    });
    if (own.length + lent.length) body.tools = [...own, ...lent];
    if (logprobs) Object.assign(body, { logprobs: true, top_logprobs: 5 });
    if (goesOn) Object.assign(body, { continue_final_message: true, add_generation_prompt: false });
    return body;
  }

  /**
   * The oldest files, if all together are larger than the server's limit: a long chat would otherwise end there.
   * @param {Message[]} messages @returns {Set<import("./tree.js").Attachment>}
   */
  leftOut(messages) {
    const seen = new Map();
    const left = new Set();
    let bytes = 0;
    for (const file of messages.flatMap(partsOf).reverse()) {
      if (!seen.has(file.digest)) {
        bytes += file.size ?? 0;
        seen.set(file.digest, bytes <= this.limits.requestBytes);
      }
      if (!seen.get(file.digest)) left.add(file);
    }
    return left;
  }

  /** Says beside the file that the server refused what it said of it; returns whether it is about one. @param {unknown} error @param {Message[]} messages those of the request */
  blame(error, messages) {
    const [, at, index] = (error instanceof api.Refused && PLACE.exec(error.param ?? "")) || [];
    const message = messages[Number(at) - (this.conversation.settings.system ? 1 : 0)];
    const file = message && partsOf(message)[Number(index)];
    if (!file || !(error instanceof api.Refused)) return null;
    file.error = error.message.replace(PLACE, file.name);
    return { message, file };
  }

  /** @param {Chat} chat @param {Message} message @param {boolean} goesOn */
  #write(chat, message, goesOn) { return this.#working(chat, () => this.#written(chat, message, goesOn)); }

  /** @param {Chat} chat @param {Message} message @param {boolean} goesOn */
  async #written(chat, message, goesOn) {
    const { conversation, tree } = chat;
    message.state = "writing";
    delete message.error;
    delete message.isTooLong;
    const before = tree.path(goesOn ? message.id : message.parent);
    for (const file of before.flatMap(partsOf)) delete file.error;
    const begun = this.#begin(chat, message, waiting(before, this.model));
    const { signal } = begun.controller;
    const shown = () => this.#notify("message", message.id);
    const leave = () => {
      const { id, content, reasoning, calls } = message;
      sessionStorage.setItem(CUT, JSON.stringify({ id, content, reasoning, calls, kept: Date.now() }));
    };
    addEventListener("pagehide", leave);
    let keeping = 0;
    const keepSoon = () => {
      keeping ||= setTimeout(() => { keeping = 0; this.#keep(chat, message); }, SAVE_MS);
    };
    try {
      if (conversation.settings.mcp?.length && !this.tools) await this.findTools();
      await this.#loaded(conversation.model, begun, shown);
      begun.progress = waiting(before, this.model);
      await Promise.all([this.#keep(chat, message), this.#save(chat)]);
      const scores = conversation.settings.logprobs ? new Scores() : null;
      if (scores && message.content) message.likely = covering(message.likely ?? [], message.content) ?? [unscored(message.content)];
      let first = 0;
      const more = { stream: true, stream_options: { include_usage: true }, return_progress: true, timings_per_token: true };
      for await (const event of api.chat(async (numLosses) => ({ ...await this.request(before, numLosses, goesOn, conversation), ...more }), signal)) {
        if (event.prompt_progress) {
          const { total, processed } = event.prompt_progress;
          begun.progress = processed < total ? words.chat.reading(processed, total) : "";
        }
        if (event.usage) figures(message, event.usage, event.timings);
        const [choice] = event.choices;
        if (choice && take(message, choice, event.localllm?.limit, scores)) {
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
        message.isTooLong = error instanceof api.Refused && error.code === "context_length_exceeded";
        const blamed = this.blame(error, before);
        if (blamed) await this.#keep(chat, blamed.message);
        message.error = blamed ? words.files.refused(blamed.file.name) : message.isTooLong ? words.chat.tooLong(this.model?.ctx) : error instanceof api.Refused ? error.message : error instanceof SyntaxError ? words.failed.notJson : words.failed.gone;
      }
    } finally {
      removeEventListener("pagehide", leave);
      clearTimeout(keeping);
      this.writing.delete(message.id);
      await Promise.all([this.#keep(chat, message), this.#save(chat)]);
      if (!this.#runFreely(chat, message)) this.#showPath(chat);
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
    await this.refreshModels();
  }
}

/** A file as it was before it was refused. @param {import("./tree.js").Attachment} file */
function unrefused(file) {
  delete file.error;
  return file;
}

/** What is shown until the first token: the files of the turn are read meanwhile. @param {Message[]} messages @param {Model | undefined} model */
function waiting(messages, model) {
  const begins = messages.map((message) => message.role).lastIndexOf("assistant") + 1;
  const files = messages.slice(begins).flatMap(partsOf).filter((file) => canRead(model, file.kind));
  return files.length ? words.files.reading(files.map((file) => file.kind ?? "document")) : words.chat.waiting;
}

/**
 * Adds a chunk's content to the message; returns whether it had any.
 * @param {Message} message @param {any} choice @param {"context" | "timeout" | undefined} limit @param {Scores | null} scores
 */
function take(message, choice, limit, scores) {
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
  if (scores) (message.likely ??= []).push(...scores.feed(delta.content ?? "", choice.logprobs?.content ?? []));
  if (choice.finish_reason === "length") message.state = limit === "context" ? "full" : limit === "timeout" ? "late" : "length";
  return came;
}

/** @param {Message} message @param {any} usage @param {any} timings the server's, since chunks arrive here in bursts */
function figures(message, usage, timings) {
  message.figures = {
    prompt: usage.prompt_tokens,
    cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
    files: (usage.prompt_tokens_details?.image_tokens ?? 0) + (usage.prompt_tokens_details?.audio_tokens ?? 0),
    tokens: usage.completion_tokens,
    perSecond: timings?.predicted_per_second ?? 0,
  };
}

export const session = new Session();
