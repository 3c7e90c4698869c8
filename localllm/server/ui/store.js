// Conversations in the browser's database; the server stores none. Each message is a separate record, so that a growing
// answer rewrites only itself. Files of messages are kept per conversation, so that they go with it.

import { partsOf } from "./tree.js";
import { words } from "./words.js";

/** @typedef {import("./tree.js").Conversation} Conversation @typedef {import("./tree.js").Message} Message @typedef {import("./tree.js").Attachment} Attachment */

const NAME = "localllm";
const FORMAT = "localllm-conversations";
const KINDS = ["image", "audio", "video", "document"];

/** @type {Promise<IDBDatabase> | null} */
let opened = null;

/** @returns {Promise<IDBDatabase>} */
function database() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 2);
    request.onupgradeneeded = ({ oldVersion }) => {
      if (oldVersion < 1) {
        request.result.createObjectStore("conversations", { keyPath: "id" });
        request.result.createObjectStore("messages", { keyPath: ["conversation", "id"] });
        request.result.createObjectStore("presets", { keyPath: "name" });
      }
      request.result.createObjectStore("files", { keyPath: ["conversation", "digest", "size"] });  // the sizes are read without the files
    };
    request.onblocked = () => reject(new Error(words.failed.blocked));
    request.onsuccess = () => {
      request.result.onversionchange = () => { request.result.close(); opened = null; };
      resolve(request.result);
    };
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

/** @param {string} id of its conversation @param {Message} message @param {Map<Attachment, Blob>} [blobs] those of its files that are not stored yet */
export const saveMessage = (id, message, blobs = new Map()) =>
  within(["messages", "files"], "readwrite", (messages, files) => {
    messages.put({ ...message, conversation: id });
    for (const [{ digest, size }, blob] of blobs) files.put({ conversation: id, digest, size, blob });
  });

/** @param {string} id of its conversation @param {Attachment} file @returns {Promise<Blob | undefined>} */
export const blob = async (id, { digest = "", size = 0 }) =>
  (await within(["files"], "readonly", (files) => files.get([id, digest, size])))?.blob;

/** The bytes of all files of all conversations. @returns {Promise<number>} */
export const fileBytes = async () =>
  /** @type {[string, string, number][]} */ (await within(["files"], "readonly", (files) => files.getAllKeys())).reduce((sum, [, , size]) => sum + size, 0);

/** @param {string} id */
export const deleteConversation = (id) =>
  within(["conversations", "messages", "files"], "readwrite", (conversations, messages, files) => {
    conversations.delete(id);
    messages.delete(all(id));
    files.delete(all(id));
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
  for (const each of messages.sort((one, other) => one.number - other.number)) look(each.conversation, [each.content, ...(each.files ?? []).map((/** @type {Attachment} */ file) => file.name)].join("\n"), each.id);
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

/**
 * The conversations as an export file, with their files as data URLs by digest.
 * @param {Conversation[]} which @param {(which: Conversation) => Promise<Message[]>} messagesOf
 * @param {(id: string, file: Attachment) => Promise<string>} dataUrl of a file of a conversation; empty if it is not kept
 * @returns {Promise<string>}
 */
export async function exported(which, messagesOf, dataUrl) {
  const whole = await Promise.all(which.map(async (conversation) => {
    const messages = await messagesOf(conversation);
    const files = new Map(messages.flatMap(partsOf).map((file) => [file.digest, file]));
    const urls = await Promise.all([...files].map(async ([digest, file]) => [digest, await dataUrl(conversation.id, file)]));
    return { ...conversation, messages, ...(urls.length && { files: Object.fromEntries(urls) }) };
  }));
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
  const blobs = file.conversations.map(checked);
  for (const [index, { messages: own, files, ...conversation }] of file.conversations.entries()) {
    const id = newId();
    await saveConversation({ ...conversation, id, settings: conversation.settings ?? {} });
    for (const [number, message] of own.entries()) {
      const here = partsOf(message).flatMap((file) => { const blob = blobs[index].get(file.digest ?? ""); return blob ? [/** @type {const} */ ([file, blob])] : []; });
      for (const [file, blob] of here) Object.assign(file, { size: blob.size });
      await saveMessage(id, { ...message, number }, new Map(here));
    }
  }
  return file.conversations.length;
}

/** Checks one conversation of an import; returns its files by digest. Throws `TypeError`. @param {any} conversation @returns {Map<string, Blob>} */
function checked({ title, messages, files = {} }) {
  if (!Array.isArray(messages) || typeof title !== "string" || typeof files !== "object" || files === null) throw new TypeError(FORMAT);
  for (const message of messages) {
    if (typeof message?.id !== "string" || typeof message.content !== "string" || !(message.files ?? []).every(isFile)) throw new TypeError(FORMAT);
  }
  return new Map(Object.entries(files).filter(([, url]) => url !== "").map(([digest, url]) => [digest, toBlob(url)]));
}

/** @param {any} file */
const isFile = (file) => typeof file?.name === "string" && (typeof file.text === "string" || (typeof file.digest === "string" && KINDS.includes(file.kind)));

/** The content of a data URL. Throws `TypeError`. @param {unknown} url @returns {Blob} */
function toBlob(url) {
  const [, type, data] = /^data:([\w.+/-]*);base64,([\w+/=]*)$/.exec(String(url)) ?? [];
  if (data === undefined) throw new TypeError(FORMAT);
  try {
    return new Blob([Uint8Array.from(atob(data), (character) => character.charCodeAt(0))], { type });
  } catch { throw new TypeError(FORMAT); }  // not base64
}
