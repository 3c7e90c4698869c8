// The list of conversations: search, rename, export, import, delete.

import { dataUrl } from "./attachments.js";
import { ask, chooseFiles, download, el, fill, sign } from "./dom.js";
import { icon } from "./icons.js";
import { session } from "./session.js";
import * as store from "./store.js";
import { newId } from "./tree.js";
import { words } from "./words.js";

export class Sidebar {
  /** @param {(message?: string | null, text?: string) => void} chosen gets the message that a search found */
  constructor(chosen) {
    this.chosen = chosen;
    /** @type {Map<string, store.Hit> | null} */
    this.found = null;
    this.search = el("input", { type: "search", id: "search", "aria-label": words.chats.search, placeholder: words.chats.search });
    this.search.addEventListener("input", () => this.#find());
    this.list = el("ul", { class: "chats" });
    this.note = el("p", { class: "note" });
    this.node = el(
      "nav", { class: "sidebar", id: "sidebar", "aria-label": words.chats.title },
      el("button", { type: "button", class: "wide", id: "new", onclick: () => { this.search.value = ""; this.#find(); session.fresh(); this.chosen(); } }, icon("add"), words.chats.new),
      this.search, this.list, this.note,
      el("div", { class: "row" },
        el("button", { type: "button", class: "small", onclick: () => this.#import() }, words.chats.import),
        el("button", { type: "button", class: "small", onclick: () => exportJson("conversations.json", session.list) }, words.chats.exportAll)),
    );
    session.addEventListener("list", () => this.#show());
    this.#show();
  }

  async #find() {
    const wanted = this.search.value.trim();
    const found = wanted ? await store.search(wanted) : null;
    if (wanted !== this.search.value.trim()) return;
    this.found = found;
    this.#show();
  }

  #show() {
    const found = session.list.filter((each) => !this.found || this.found.has(each.id));
    const shown = [...found.filter((each) => each.isPinned), ...found.filter((each) => !each.isPinned)];
    this.note.textContent = shown.length ? "" : this.found ? words.chats.noMatch : words.chats.none;
    const focused = this.list.contains(document.activeElement) ? document.activeElement : null;
    const row = /** @type {HTMLElement | null} */ (focused?.closest("li") ?? null);
    const place = row && focused ? [...row.children].indexOf(focused) : 0;
    let before = "";
    fill(this.list, shown.map((each) => {
      const when = each.isPinned ? words.chats.pinned : whenOf(each.updated), isFirst = when !== before;
      before = when;
      const isOpen = each.id === session.conversation.id;
      const hit = this.found?.get(each.id);
      const open = async () => { if (await session.open(each.id, hit?.message)) this.chosen(hit?.message, this.search.value); };
      return el("li", { class: isOpen ? "open" : "", "data-id": each.id, "data-when": isFirst && !this.found && when },
        el("button", { type: "button", class: "pick", "aria-current": isOpen ? "true" : null, onclick: open },
          el("span", { class: "title", dir: "auto" }, each.title || words.chats.untitled), hit?.excerpt ? el("small", { dir: "auto" }, hit.excerpt) : null),
        sign(`${words.chats.menu}: ${each.title}`, icon("more"), () => this.#menu(each)));
    }));
    const again = row && /** @type {HTMLElement[]} */ ([...this.list.children]).find((each) => each.dataset.id === row.dataset.id);
    if (again) /** @type {HTMLElement} */ (again.children[place]).focus({ preventScroll: true }); // the keyboard's place outlives the old elements
  }

  /** @param {import("./tree.js").Conversation} conversation */
  async #menu(conversation) {
    const field = el("input", { value: conversation.title, "aria-label": words.chats.rename, dir: "auto" });
    /** @param {string} label @param {() => void} press */
    const button = (label, press) => el("button", { type: "button", onclick: (/** @type {any} */ event) => { event.target.closest("dialog").close(""); press(); } }, label);
    const renamed = await ask(conversation.title || words.chats.untitled, [
      el("label", {}, words.chats.rename, field),
      el("div", { class: "row wrap" },
        button(conversation.isPinned ? words.chats.unpin : words.chats.pin, () => session.pin(conversation.id)),
        button(words.chats.exportJson, () => exportJson(`${fileName(conversation.title)}.json`, [conversation])),
        button(words.chats.exportMarkdown, () => exportMarkdown(conversation)),
        button(words.chats.delete, async () => { if (await ask(words.chats.delete, [words.chats.reallyDelete(conversation.title)], { danger: true, ok: words.chats.delete, cancel: words.cancel })) session.delete(conversation.id); })),
    ], { ok: words.ok, cancel: words.cancel });
    if (renamed) await session.rename(conversation.id, field.value.trim() || conversation.title);
  }

  async #import() {
    for (const file of await chooseFiles("application/json,.json")) {
      try {
        const count = await session.import(await file.text());
        await this.#find();
        this.note.textContent = words.chats.imported(count);
      } catch (error) {
        if (!(error instanceof TypeError || error instanceof SyntaxError)) throw error;
        this.note.textContent = words.chats.badImport;
      }
    }
  }
}

/** The heading under which a chat stands. @param {number} changed in ms */
function whenOf(changed) {
  const midnight = new Date().setHours(0, 0, 0, 0), days = (midnight - changed) / 86_400_000;
  return days <= 0 ? words.chats.today : days <= 1 ? words.chats.yesterday : days <= 7 ? words.chats.week : words.chats.earlier;
}

/** @param {string} title */
const fileName = (title) => title.replace(/[^\p{L}\p{N} _-]+/gu, "").trim().slice(0, 60) || newId();

/** @param {string} name @param {import("./tree.js").Conversation[]} which */
async function exportJson(name, which) {
  download(name, "application/json", await store.exported(which, (each) => session.messages(each), dataUrl));
}

/** Exports the branch that is shown. @param {import("./tree.js").Conversation} conversation */
async function exportMarkdown(conversation) {
  const { Tree } = await import("./tree.js");
  const tree = new Tree(await session.messages(conversation), conversation.head);
  const who = { user: words.chat.you, assistant: words.chat.assistant, tool: words.chat.tool };
  const parts = tree.path().map((message) => `## ${who[message.role]}\n\n${message.content}\n`);
  download(`${fileName(conversation.title)}.md`, "text/markdown", [`# ${conversation.title}\n`, ...parts].join("\n"));
}
