// Files as attachments of messages: what they are, which models read them, and where their contents are. Knows nothing
// of the views.

import * as api from "./api.js";
import * as store from "./store.js";
import { newId } from "./tree.js";
import { words } from "./words.js";

/** @typedef {import("./tree.js").Attachment} Attachment @typedef {import("./tree.js").FileKind} FileKind */

const MAX_TEXT_BYTES = 1_000_000;
/** Of all conversations: an export holds them in one text, of which browsers take half a gigabyte. */
const MAX_STORED_BYTES = 256_000_000;
const JPEG_QUALITY = 0.92;
/** How much smaller each attempt is to get a picture below a number of bytes. */
const SHRINK = 0.7;

/** Why a file is not attached, in words for the user. */
export class NotAttached extends Error {}

/** Contents that are not in the database yet, or cannot be stored there. @type {WeakMap<Attachment, Blob>} */
const held = new WeakMap();

/** Those of these files' contents that are to be stored. @param {Attachment[]} files @returns {Map<Attachment, Blob>} */
export const unstored = (files) => new Map(files.flatMap((file) => { const blob = held.get(file); return blob ? [[file, blob]] : []; }));

/** Says that they are stored. @param {Iterable<Attachment>} files */
export function stored(files) { for (const file of files) held.delete(file); }

/** A file's content; undefined if it is not kept. @param {string} conversation @param {Attachment} file @returns {Promise<Blob | undefined>} */
export const blobOf = async (conversation, file) => held.get(file) ?? (await store.blob(conversation, file).catch(() => undefined));

/** The same as a data URL; empty if it is not kept. @param {string} conversation @param {Attachment} file @returns {Promise<string>} */
export async function dataUrl(conversation, file) {
  const blob = await blobOf(conversation, file);
  if (!blob) return "";
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}

/** How requests refer to files that the server keeps, by digest. @type {Map<string, Promise<string>>} */
const kept = new Map();

/** The server has lost files. */
export const forget = () => kept.clear();

/**
 * What a request has of a file: a reference, for which it is uploaded once; its data URL where the server keeps none, or lost it
 * twice (`numLosses`); nothing if its content is gone. `wasSent`: it probably is there since before a reload.
 * @param {string} conversation @param {Attachment} file @param {number} numLosses @param {boolean} wasSent
 */
export async function sentAs(conversation, file, numLosses, wasSent) {
  const { digest = "" } = file;
  if (!kept.has(digest)) kept.set(digest, wasSent && !numLosses && digest.length === 64 ? Promise.resolve(`localllm-blob:sha256:${digest}`) : uploaded(conversation, file));
  return (numLosses < 2 && await kept.get(digest)) || dataUrl(conversation, file);
}

/** How requests refer to it then; empty: not at all. @param {string} conversation @param {Attachment} file */
async function uploaded(conversation, file) {
  const blob = await blobOf(conversation, file);
  return blob ? api.keep(blob).catch((error) => { if (!(error instanceof api.Refused)) forget(); return ""; }) : "";
}

/** @typedef {{ reads?: string[] }} Reader a model; `reads`: what it reads beside text, undefined: not known */

/** Whether a model reads files of this kind, as far as is known. @param {Reader | undefined} model @param {FileKind | undefined} kind */
export const canRead = (model, kind) => kind === undefined || kind === "document" || !model?.reads || model.reads.includes(kind);

/** The files that a picker shows first. @param {Reader | undefined} model */
export const accepted = (model) => [
  ...["image", "audio", "video"].filter((kind) => canRead(model, /** @type {FileKind} */ (kind))).map((kind) => `${kind}/*`),
  "text/*,.pdf,.docx,.xlsx,.pptx,.md,.json,.py,.js,.ts,.c,.h,.cpp,.rs,.go,.java,.toml,.yaml,.yml,.csv,.log",
].join(",");

/** @typedef {{ bytes: number, pixels: number, requestBytes: number }} Limits of the server */

/**
 * A file that the user chose, as an attachment. Pictures above the limits are scaled down. Throws `NotAttached`.
 * @param {File} given @param {Limits} limits @returns {Promise<Attachment>}
 */
export async function read(given, limits) {
  const { name, size } = given;
  const kind = kindOf(new Uint8Array(await given.slice(0, 16).arrayBuffer()), name);
  if (!kind) return { name, text: await textOf(given) };
  const picture = kind === "image" ? await scaled(given, limits) : null;
  const blob = picture?.blob ?? given;
  if (blob.size > limits.bytes) throw new NotAttached(words.files.tooLarge(name, limits.bytes));
  if ((await store.fileBytes().catch(() => 0)) + blob.size > MAX_STORED_BYTES) throw new NotAttached(words.files.full(name, MAX_STORED_BYTES));
  const content = await blob.arrayBuffer();
  const type = blob.type || "application/octet-stream";
  /** @type {Attachment} */
  const file = { name, kind, type, size: content.byteLength, digest: await digestOf(content) };
  if (picture) Object.assign(file, { width: picture.width, height: picture.height });
  if (picture?.blob) file.reduced = `${words.files.pixels(picture.from.width, picture.from.height)}, ${words.files.size(size)}`;
  held.set(file, new Blob([content], { type }));  // the user may move the file away
  return file;
}

/** @typedef {{ type: string, text?: string, data?: string, mimeType?: string, resource?: { uri?: string, mimeType?: string, text?: string, blob?: string } }} Part of what an MCP server returned */

/**
 * The text and the files of such parts. Throws `NotAttached`.
 * @param {Part[]} parts @param {Limits} limits @returns {Promise<{ text: string, files: Attachment[] }>}
 */
export async function returned(parts, limits) {
  const texts = [], files = [];
  for (const { type, text, data, mimeType, resource } of parts) {
    const encoded = data ?? resource?.blob;
    if (encoded === undefined) { texts.push(text ?? resource?.text ?? ""); continue; }
    const bytes = Uint8Array.from(atob(encoded), (each) => each.charCodeAt(0));
    const name = resource?.uri?.split("/").at(-1) || type;
    files.push(await read(new File([bytes], name, { type: mimeType ?? resource?.mimeType ?? "" }), limits));
  }
  return { text: texts.filter(Boolean).join("\n"), files };
}

/** @param {ArrayBuffer} content */
async function digestOf(content) {
  if (!crypto.subtle) return newId();  // pages by http from another machine have none
  return [...new Uint8Array(await crypto.subtle.digest("SHA-256", content))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** @param {File} given */
async function textOf(given) {
  if (given.size > MAX_TEXT_BYTES) throw new NotAttached(words.files.longText(given.name));
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await given.arrayBuffer());
    if (!text.includes("\0")) return text;
  } catch (error) { if (!(error instanceof TypeError)) throw error; }
  throw new NotAttached(words.files.unknown(given.name));
}

const OFFICE = /\.(docx|xlsx|pptx)$/i;
/** First bytes of files, `?` for any, as the server tells them apart. @type {[string, FileKind][]} */
const MAGIC = [
  ["\x89PNG", "image"], ["\xff\xd8\xff", "image"], ["GIF8", "image"], ["BM", "image"], ["II*\0", "image"], ["MM\0*", "image"], ["RIFF????WEBP", "image"],
  ["RIFF????WAVE", "audio"], ["FORM????AIF", "audio"], ["ID3", "audio"], ["fLaC", "audio"], ["OggS", "audio"], [".snd", "audio"], ["\xff\xfb", "audio"], ["\xff\xf3", "audio"], ["\xff\xf2", "audio"],
  ["????ftypavi", "image"], ["????ftyphei", "image"], ["????ftypmif", "image"], ["????ftypM4A", "audio"], ["????ftyp", "video"], ["\x1a\x45\xdf\xa3", "video"],
  ["%PDF", "document"],
];

/** What a file is; undefined: perhaps a text. @param {Uint8Array} head @param {string} name @returns {FileKind | undefined} */
function kindOf(head, name) {
  const begin = String.fromCharCode(...head);
  if (begin.startsWith("PK") && OFFICE.test(name)) return "document";
  if (begin.startsWith("BM") && /^[\x20-\x7e]*$/.test(begin)) return undefined;  // a text
  return MAGIC.find(([magic]) => [...magic].every((character, at) => character === "?" || character === begin[at]))?.[1];
}

/**
 * A picture's size, and its copy within the limits if it is above them; null if this browser cannot show it.
 * @param {File} given @param {Limits} limits
 * @returns {Promise<{ blob?: Blob, width: number, height: number, from: { width: number, height: number } } | null>}
 */
async function scaled(given, limits) {
  const bitmap = await createImageBitmap(given).catch(() => null);
  if (!bitmap) return null;
  const from = { width: bitmap.width, height: bitmap.height };
  let scale = Math.min(1, Math.sqrt(limits.pixels / (from.width * from.height)));
  try {
    if (scale === 1 && given.size <= limits.bytes) return { ...from, from };
    for (;;) {
      const width = Math.max(1, Math.floor(from.width * scale)), height = Math.max(1, Math.floor(from.height * scale));
      const blob = await drawn(bitmap, width, height);
      if (!blob) return null;
      if (blob.size <= limits.bytes || width * height === 1) return { blob, width, height, from };
      scale *= SHRINK;
    }
  } finally {
    bitmap.close();
  }
}

/** What is drawn, as JPEG. @param {CanvasImageSource} source @param {number} width @param {number} height @returns {Promise<Blob | null>} */
export function drawn(source, width, height) {
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const context = canvas.getContext("2d");
  if (!context) return Promise.resolve(null);
  context.fillStyle = "#fff";  // behind what is transparent, as on the server
  context.fillRect(0, 0, width, height);
  context.drawImage(source, 0, 0, width, height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", JPEG_QUALITY));
}
