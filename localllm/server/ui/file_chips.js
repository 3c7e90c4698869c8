// The files of a message, as chips: while it is written, where they can be removed, and in the conversation.

import { NotAttached, blobOf, canRead, read } from "./attachments.js";
import { announce, ask, el, fill, sign } from "./dom.js";
import { icon } from "./icons.js";
import { session } from "./session.js";
import { words } from "./words.js";

/** @typedef {import("./tree.js").Attachment} Attachment */

/** @param {Attachment} file */
const detailOf = ({ size, width, height, text, reduced }) => [
  size !== undefined && words.files.size(size), text !== undefined && words.files.size(text.length), width && height && words.files.pixels(width, height),
  reduced && words.files.reduced(reduced),
].filter(Boolean).join(" · ");

/** What keeps a file from being sent to the chosen model; empty if nothing does. @param {Attachment} file */
export function problemOf(file) {
  const { model, models } = session;
  if (!model || !file.kind || canRead(model, file.kind)) return file.error ?? "";
  return words.files.cannot(model.id, file.kind, models.filter((each) => each.reads?.includes(file.kind ?? "")).map((each) => each.id));
}

/** The files of a message that is being written or edited. */
export class FileChips {
  /** @param {() => void} changed @param {Attachment[]} [files] */
  constructor(changed, files = []) {
    this.changed = changed;
    this.files = [...files];
    this.reading = Promise.resolve();
    this.node = el("ul", { class: "chips", "aria-label": words.files.list });
    this.problem = el("p", { class: "error", role: "alert", hidden: true });
    this.show();
  }

  /** Whether what stands here cannot be sent. */
  get isBlocked() { return this.files.some((file) => !file.error && problemOf(file)); }

  /** Attaches files, one after the other; says which are not and why. @param {File[]} given */
  add(given) {
    if (!given.length) return this.reading;
    this.reading = this.reading.then(async () => {
      const refused = [];
      for (const file of given) {
        try {
          this.files.push(await read(file, session.limits));
        } catch (error) {
          if (!(error instanceof NotAttached)) throw error;
          refused.push(error.message);
        }
        this.show();
      }
      this.say(refused.join(" "));
      this.changed();
    });
    return this.reading;
  }

  /** Says what failed, until something else is attached or sent. @param {string} text */
  say(text) {
    this.problem.textContent = text;
    this.problem.hidden = !text;
  }

  /** The files, which are taken out. @returns {Attachment[]} */
  take() {
    const files = this.files;
    this.files = [];
    this.say("");
    this.show();
    return files;
  }

  /** Draws them anew, with what the chosen model or the server has against them. */
  show() {
    this.node.hidden = !this.files.length;
    fill(this.node, this.files.map((file) => chip(file, session.conversation.id, () => this.#remove(file))));
  }

  /** @param {Attachment} file */
  #remove(file) {
    const at = this.files.indexOf(file);
    this.files.splice(at, 1);
    this.say("");
    this.show();
    announce(words.files.removed(file.name));
    const next = this.node.children[Math.min(at, this.files.length - 1)];
    const focused = /** @type {HTMLElement | null | undefined} */ (next ? next.querySelector(".remove") : this.node.parentElement?.querySelector("textarea"));
    focused?.focus();
    this.changed();
  }
}

/** The files of a message in the conversation. @param {Attachment[]} files @param {string} conversation its id */
export function fileList(files, conversation) {
  const kept = files.filter((file) => file.text === undefined);
  return [
    kept.length ? el("ul", { class: "chips shown", "aria-label": words.files.list }, kept.map((file) => chip(file, conversation))) : null,
    ...files.filter((file) => file.text !== undefined).map((file) => el("details", { class: "file" }, el("summary", {}, words.files.attached(file.name)), el("pre", { dir: "auto" }, file.text ?? ""))),
  ];
}

/** @param {Attachment} file @param {string} conversation @param {() => void} [remove] */
function chip(file, conversation, remove) {
  const problem = remove ? problemOf(file) : file.error ?? "";
  const shown = el("span", { class: "thumb" }, icon(file.kind ?? "document"));
  const about = el("span", { class: "about" }, el("span", { class: "name", dir: "auto" }, file.name), el("small", {}, detailOf(file)));
  const opens = file.kind !== "document";
  const view = el(opens ? "button" : "span", { class: "open", ...(opens && { type: "button", title: words.files.open(file.name), onclick: () => openFile(file, conversation) }) }, shown, about);
  if (file.kind === "image") showThumbnail(shown, file, conversation);
  const node = el("li", { class: `chip${problem ? " refused" : ""}` }, view,
    remove ? sign(`${words.files.remove}: ${file.name}`, icon("remove"), remove, { class: "sign remove" }) : null, problem ? el("span", { class: "error", role: remove ? "alert" : null }, problem) : null);
  if (remove) node.addEventListener("keydown", (event) => {
    if (event.key !== "Delete" && event.key !== "Backspace") return;
    event.preventDefault();
    remove();
  });
  return node;
}

/** @param {HTMLElement} place @param {Attachment} file @param {string} conversation */
async function showThumbnail(place, file, conversation) {
  const blob = await blobOf(conversation, file);
  if (!blob) { place.after(el("small", { class: "error" }, words.files.lost)); return; }
  const picture = el("img", { alt: "", decoding: "async" });
  if (await loaded(picture, blob)) fill(place, picture);  // otherwise its icon stays
}

/** Whether the browser can show it. @param {HTMLImageElement} picture @param {Blob} blob @returns {Promise<boolean>} */
function loaded(picture, blob) {
  return new Promise((resolve) => {
    const url = URL.createObjectURL(blob);
    /** @param {boolean} isShown */
    const end = (isShown) => { URL.revokeObjectURL(url); resolve(isShown); };
    picture.addEventListener("load", () => end(true));
    picture.addEventListener("error", () => end(false));
    picture.src = url;
  });
}

/** Shows a file in a dialog: large, played, or as text. @param {Attachment} file @param {string} conversation */
async function openFile(file, conversation) {
  const about = el("p", { class: "note" }, detailOf(file));
  const say = { ok: words.close, cancel: null };
  if (file.text !== undefined) { await ask(file.name, [about, el("pre", { class: "whole", dir: "auto", tabindex: 0 }, file.text)], say); return; }
  const blob = await blobOf(conversation, file);
  if (!blob) { await ask(file.name, [about, words.files.lost], say); return; }
  if (file.kind === "image") {
    const picture = el("img", { alt: file.name });
    await ask(file.name, [(await loaded(picture, blob)) ? picture : words.files.unseen, about], { ...say, class: "viewer" });
    return;
  }
  const url = URL.createObjectURL(blob);
  await ask(file.name, [el(file.kind === "video" ? "video" : "audio", { controls: true, src: url, "aria-label": file.name }), about], { ...say, class: "viewer" });
  URL.revokeObjectURL(url);
}
