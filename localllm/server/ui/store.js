// Conversations in the browser's database; the server stores none. Each message is a separate record, so that a growing
// answer rewrites only itself.

/** @typedef {import("./tree.js").Conversation} Conversation @typedef {import("./tree.js").Message} Message */

const NAME = "localllm";
const FORMAT = "localllm-conversations";

/** @type {Promise<IDBDatabase> | null} */
let opened = null;

/** @returns {Promise<IDBDatabase>} */
function database() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("conversations", { keyPath: "id" });
      request.result.createObjectStore("messages", { keyPath: ["conversation", "id"] });
      request.result.createObjectStore("presets", { keyPath: "name" });
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return opened;
}

/**
 * @template T
 * @param {string[]} stores
 * @param {IDBTransactionMode} mode
 * @param {(...stores: IDBObjectStore[]) => IDBRequest<T> | void} work
 * @returns {Promise<T>}
 */
async function within(stores, mode, work) {
  const transaction = (await database()).transaction(stores, mode);
  const request = work(...stores.map((name) => transaction.objectStore(name)));
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve(/** @type {T} */ (request ? request.result : undefined));
    transaction.onabort = transaction.onerror = () => reject(transaction.error);
  });
}

/** @param {string} id */
const all = (id) => IDBKeyRange.bound([id], [id, []]);

/** All conversations, newest first. @returns {Promise<Conversation[]>} */
export async function conversations() {
  const found = await within(["conversations"], "readonly", (store) => store.getAll());
  return found.sort((one, other) => other.updated - one.updated);
}

/** A conversation's messages in order of creation. @param {string} id @returns {Promise<Message[]>} */
export async function messages(id) {
  const found = await within(["messages"], "readonly", (store) => store.getAll(all(id)));
  return found.sort((one, other) => one.number - other.number);
}

/** @param {Conversation} conversation */
export const saveConversation = (conversation) =>
  within(["conversations"], "readwrite", (store) => { store.put(structuredClone(conversation)); });

/** @param {string} id of its conversation @param {Message} message */
export const saveMessage = (id, message) =>
  within(["messages"], "readwrite", (store) => { store.put({ ...message, conversation: id }); });

/** @param {string} id */
export const deleteConversation = (id) =>
  within(["conversations", "messages"], "readwrite", (conversations, messages) => {
    conversations.delete(id);
    messages.delete(all(id));
  });

/** @typedef {{ message: string | null, excerpt: string }} Hit the newest message with the most search words, in any branch */

/** @param {string} text */
export const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

/** Conversations whose title and messages together contain all of these words. @param {string} text @returns {Promise<Map<string, Hit>>} */
export async function search(text) {
  const wanted = wordsOf(text);
  /** @type {Map<string, { missing: Set<string>, most: number, hit: Hit }>} */
  const found = new Map();
  /** @param {string} id @param {string} text @param {string | null} message */
  const look = (id, text, message) => {
    const low = text.toLowerCase();
    const held = wanted.filter((word) => low.includes(word));
    if (!held.length) return;
    const there = found.get(id) ?? { missing: new Set(wanted), most: 0, hit: { message: null, excerpt: "" } };
    for (const word of held) there.missing.delete(word);
    if (message && held.length >= there.most) Object.assign(there, { most: held.length, hit: { message, excerpt: excerpt(text, low.indexOf(held[0])) } });
    found.set(id, there);
  };
  for (const each of await conversations()) look(each.id, each.title, null);
  const messages = await within(["messages"], "readonly", (store) => store.getAll());
  for (const each of messages.sort((one, other) => one.number - other.number)) look(each.conversation, each.content, each.id);
  return new Map([...found].filter(([, { missing }]) => !missing.size).map(([id, { hit }]) => [id, hit]));
}

/** @param {string} text @param {number} at */
const excerpt = (text, at) => `${at > 20 ? "…" : ""}${text.slice(Math.max(0, at - 20), at + 80)}`.replace(/\s+/g, " ");

/** @returns {Promise<{ name: string, settings: import("./tree.js").Settings }[]>} */
export const presets = () => within(["presets"], "readonly", (store) => store.getAll());
/** @param {string} name @param {import("./tree.js").Settings} settings */
export const savePreset = (name, settings) => within(["presets"], "readwrite", (store) => { store.put({ name, settings: structuredClone(settings) }); });
/** @param {string} name */
export const deletePreset = (name) => within(["presets"], "readwrite", (store) => { store.delete(name); });

/** The conversations as an export file. @param {Conversation[]} which @param {(which: Conversation) => Promise<Message[]>} messagesOf @returns {Promise<string>} */
export async function exported(which, messagesOf) {
  const whole = await Promise.all(which.map(async (conversation) => ({ ...conversation, messages: await messagesOf(conversation) })));
  return JSON.stringify({ format: FORMAT, version: 1, conversations: whole }, null, 1);
}

/**
 * Imports a file written by `exported`, under new ids. Throws `TypeError` or `SyntaxError` for anything else.
 * @param {string} text
 * @param {() => string} newId
 * @returns {Promise<number>}
 */
export async function imported(text, newId) {
  const file = JSON.parse(text);
  if (file?.format !== FORMAT || !Array.isArray(file.conversations)) throw new TypeError(FORMAT);
  for (const { messages: own, ...conversation } of file.conversations) {
    if (!Array.isArray(own) || typeof conversation.title !== "string") throw new TypeError(FORMAT);
    for (const message of own) {
      if (typeof message?.id !== "string" || typeof message.content !== "string") throw new TypeError(FORMAT);
    }
  }
  for (const { messages: own, ...conversation } of file.conversations) {
    const id = newId();
    await saveConversation({ ...conversation, id, settings: conversation.settings ?? {} });
    for (const [number, message] of own.entries()) await saveMessage(id, { ...message, number });
  }
  return file.conversations.length;
}
