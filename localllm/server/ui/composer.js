// The box in which the next message is written: its text, its files, and what adds them.

import { accepted, canRead } from "./attachments.js";
import { canCapture, recordSound, takePicture } from "./capture.js";
import { chooseFiles, el, fill, sign } from "./dom.js";
import { FileChips } from "./file_chips.js";
import { icon } from "./icons.js";
import { session } from "./session.js";
import { words } from "./words.js";

const MAX_HEIGHT_PX = 240;

export class Composer {
  /** @param {(text: string, files: import("./tree.js").Attachment[]) => void} send @param {() => void} changed */
  constructor(send, changed) {
    this.send = send;
    this.changed = changed;
    this.chips = new FileChips(changed);
    this.field = el("textarea", { id: "field", rows: 1, dir: "auto", "aria-label": words.chat.message, placeholder: words.chat.placeholder });
    this.field.addEventListener("input", () => this.#typed());
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); this.#send(); }
    });
    this.button = el("button", { class: "primary sign", id: "send" });
    this.camera = sign(words.files.camera, icon("camera"), () => this.#capture(takePicture, words.files.noCamera));
    this.microphone = sign(words.files.record, icon("microphone"), () => this.#capture(recordSound, words.files.noMicrophone));
    this.node = el(
      "form", { class: "composer", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); session.isWriting ? session.stop() : this.#send(); } },
      el("div", { class: "box" }, this.chips.node, this.chips.problem, this.field, el("div", { class: "row" },
        sign(words.files.attach, icon("attach"), async () => this.attach(await chooseFiles(accepted(session.model)))), this.camera, this.microphone, this.button)),
    );
    document.addEventListener("paste", (event) => this.#paste(event));
    for (const type of ["dragenter", "dragover", "dragleave", "drop"]) document.addEventListener(type, (event) => this.#drag(/** @type {DragEvent} */ (event)));
    this.update();
  }

  get draft() { return { text: this.field.value, files: this.chips.files }; }

  /** Shows what depends on the model and on whether an answer is being written. */
  update() {
    const label = session.isWriting ? words.chat.stop : words.chat.send;
    if (this.button.title !== label) {
      Object.assign(this.button, { title: label, ariaLabel: label });
      fill(this.button, icon(session.isWriting ? "stop" : "send"));
      this.button.classList.toggle("stop", session.isWriting);
    }
    this.camera.hidden = !canCapture() || !canRead(session.model, "image");
    this.microphone.hidden = !canCapture() || !canRead(session.model, "audio");
    this.chips.show();
  }

  /** Puts a text into the field, to be changed and sent. @param {string} text */
  suggest(text) {
    this.field.value = text;
    this.#typed();
    this.field.focus();
  }

  /** @param {File[]} files */
  async attach(files) {
    await this.chips.add(files);
    if (files.length) this.field.focus();
  }

  #typed() {
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight, MAX_HEIGHT_PX)}px`;
    this.changed();
  }

  async #send() {
    await Promise.all([session.ready, this.chips.reading]);
    const text = this.field.value.trim();
    if ((!text && !this.chips.files.length) || session.isWriting) return;
    if (this.chips.isBlocked) { this.chips.show(); return; }  // whose words are an alert
    const files = session.conversation.model ? this.chips.take() : this.chips.files;
    if (session.conversation.model) { this.field.value = ""; this.#typed(); }
    this.send(text, files);
  }

  /** @param {() => Promise<File | null>} how @param {(why: string) => string} failed */
  async #capture(how, failed) {
    try {
      const file = await how();
      if (file) await this.attach([file]);
    } catch (error) {
      if (!(error instanceof DOMException)) throw error;
      this.chips.say(failed(error.message));
    }
  }

  /** Attaches pasted files, unless they come with their text, as from a spreadsheet. @param {ClipboardEvent} event */
  #paste(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length || event.clipboardData?.types.includes("text/plain") || !this.#isOpen) return;
    event.preventDefault();
    this.attach(files);
  }

  /** @param {DragEvent} event */
  #drag(event) {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();  // otherwise the browser opens the file in place of the page
    const isOver = event.type === "dragover" || event.type === "dragenter";
    document.body.classList.toggle("dropping", isOver && this.#isOpen);
    if (!this.#isOpen && isOver) event.dataTransfer.dropEffect = "none";
    if (event.type === "drop" && this.#isOpen) this.attach([...event.dataTransfer.files]);
  }

  get #isOpen() { return this.node.isConnected && !document.querySelector("dialog[open]"); }
}
