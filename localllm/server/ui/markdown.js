// Incremental Markdown: complete blocks are rendered once and stay; only the growing end is rendered again.
// Supports the common part of CommonMark with GitHub's tables and task lists. HTML is shown as text; images are links.

import { copyText, download, el, sign } from "./dom.js";
import { icon } from "./icons.js";
import { formula } from "./math.js";
import { coloured } from "./highlight.js";
import { words } from "./words.js";

/** Maximum length of a paragraph with inline formatting; longer ones are shown unformatted. */
const MAX_INLINE = 20_000;
const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * @typedef {{ type: "text" | "heading" | "code" | "quote" | "list" | "item" | "table" | "row" | "rule" | "math",
 *   source: string, begin?: number, level?: number, language?: string, closed?: boolean, ordered?: boolean, start?: number,
 *   inner?: Block[], cells?: string[], aligns?: string[] }} Block
 */

/** @param {string} line */
const isBlank = (line) => line.trim() === "";
const FENCE = /^( {0,3})(`{3,}|~{3,})\s*([^`]*)$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:(\s+)(.*)|\s*)$/;
const RULE = /^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*?))?(?:\s+#+)?\s*$/;
const DELIMITERS = /^ {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;

/** The blocks of a text; `begin` is the first line of each. @param {string} text @param {number} [depth] @returns {Block[]} */
export function blocks(text, depth = 0) {
  const lines = text.split("\n");
  /** @type {Block[]} */
  const found = [];
  let at = 0, begun = 0, from = 0;
  /** @param {number} to */
  const source = (to) => lines.slice(at, to).join("\n");
  for (;;) {
    if (found.length > begun) found[begun++].begin = from;
    while (at < lines.length && isBlank(lines[at])) at++;
    if (at >= lines.length) return found;
    const line = lines[at];
    from = at;
    const fence = FENCE.exec(line);
    if (fence && !(fence[2][0] === "`" && fence[3].includes("`"))) {
      let end = at + 1;
      const close = new RegExp(`^ {0,3}${fence[2][0]}{${fence[2].length},}\\s*$`);
      while (end < lines.length && !close.test(lines[end])) end++;
      const inner = lines.slice(at + 1, end).map((each) => each.replace(new RegExp(`^ {0,${fence[1].length}}`), ""));
      found.push({ type: "code", source: inner.join("\n"), language: fence[3].trim().split(/\s+/)[0], closed: end < lines.length });
      at = end + 1;
      continue;
    }
    const open = /^\s*(\$\$|\\\[)/.exec(line);
    const end = open ? mathEnd(lines, at, open) : 0;
    if (open && end) {
      const inner = source(end).trim().slice(2);
      const close = closingOf(open[1]);
      found.push({ type: "math", source: (inner.endsWith(close) ? inner.slice(0, -2) : inner).trim() });
      at = end;
      continue;
    }
    const heading = HEADING.exec(line);
    if (heading) { found.push({ type: "heading", level: heading[1].length, source: heading[2] ?? "" }); at++; continue; }
    if (RULE.test(line)) { found.push({ type: "rule", source: line }); at++; continue; }
    if (/^ {0,3}>/.test(line)) {
      let end = at;
      while (end < lines.length && !isBlank(lines[end]) && (/^ {0,3}>/.test(lines[end]) || !starts(lines[end]))) end++;
      const inner = lines.slice(at, end).map((each) => each.replace(/^ {0,3}> ?/, "")).join("\n");
      found.push({ type: "quote", source: source(end), inner: depth > 8 ? [{ type: "text", source: inner }] : blocks(inner, depth + 1) });
      at = end;
      continue;
    }
    if (ITEM.test(line)) { at = list(lines, at, found, depth); continue; }
    if (line.includes("|") && at + 1 < lines.length && DELIMITERS.test(lines[at + 1]) && cells(line).length === cells(lines[at + 1]).length) {
      let end = at + 2;
      while (end < lines.length && !isBlank(lines[end]) && !starts(lines[end])) end++;
      const aligns = cells(lines[at + 1]).map((cell) => (/^:-+:$/.test(cell) ? "center" : /-:$/.test(cell) ? "right" : ""));
      const inner = [line, ...lines.slice(at + 2, end)].map((each) => /** @type {Block} */ ({ type: "row", source: each, cells: cells(each) }));
      found.push({ type: "table", source: source(end), aligns, inner });
      at = end;
      continue;
    }
    let last = at + 1;
    while (last < lines.length && !isBlank(lines[last]) && !starts(lines[last])) last++;
    found.push({ type: "text", source: source(last) });
    at = last;
  }
}

/** @param {string} open */
const closingOf = (open) => (open === "$$" ? "$$" : "\\]");

/**
 * The line after a formula that begins at line `at`, as far as it has come; 0 if it is none: a blank line precedes its
 * end, or text follows on the line of its end.
 * @param {string[]} lines @param {number} at @param {RegExpExecArray} open
 */
function mathEnd(lines, at, open) {
  const close = closingOf(open[1]);
  for (let end = at; end < lines.length; end++) {
    const line = end === at ? lines[at].slice(open[0].length) : lines[end];
    if (end > at && isBlank(line) && end < lines.length - 1) return 0;
    const closed = line.indexOf(close);
    if (closed >= 0) return isBlank(line.slice(closed + 2)) ? end + 1 : 0;
  }
  return lines.length;
}

/** Whether a line ends a paragraph before it. @param {string} line */
function starts(line) {
  const item = ITEM.exec(line);
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || /^ {0,3}>/.test(line) || /^\s*(\$\$|\\\[)/.test(line)
    || (item !== null && Boolean(item[4]) && (!/\d/.test(item[2]) || parseInt(item[2], 10) === 1));
}

/** @param {string[]} lines @param {number} at @param {Block[]} found @param {number} depth @returns {number} the line after it */
function list(lines, at, found, depth) {
  const first = /** @type {RegExpExecArray} */ (ITEM.exec(lines[at]));
  const ordered = /\d/.test(first[2]);
  const mark = first[2].slice(-1);
  const begin = at;
  /** @type {Block[]} */
  const items = [];
  while (at < lines.length) {
    const item = ITEM.exec(lines[at]);
    if (!item || /\d/.test(item[2]) !== ordered || item[2].slice(-1) !== mark || RULE.test(lines[at])) break;
    const indent = item[1].length + item[2].length + Math.min((item[3] ?? " ").length, 4);
    const own = [item[4] ?? ""];
    at++;
    while (at < lines.length) {
      const line = lines[at];
      if (isBlank(line)) {
        let next = at;
        while (next < lines.length && isBlank(lines[next])) next++;
        if (next === lines.length || (/^ */.exec(lines[next])?.[0].length ?? 0) < Math.min(indent, 2)) break;
        own.push(...lines.slice(at, next).map(() => ""));
        at = next;
        continue;
      }
      const spaces = /^ */.exec(line)?.[0].length ?? 0;
      if (spaces < Math.min(indent, 2) && (starts(line) || ITEM.test(line))) break;
      own.push(line.slice(Math.min(spaces, indent)));
      at++;
    }
    const source = own.join("\n");
    items.push(ticked({ type: "item", source, inner: depth > 8 ? [{ type: "text", source }] : blocks(source, depth + 1) }));
    let next = at;
    while (next < lines.length && isBlank(lines[next])) next++;
    if (next < lines.length && ITEM.test(lines[next])) at = next;
  }
  found.push({ type: "list", source: lines.slice(begin, at).join("\n"), ordered, start: parseInt(first[2], 10) || 1, inner: items });
  return at;
}

/** @param {string} line @returns {string[]} */
function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/** Renders a growing text in its own node. */
export class Markdown {
  constructor() {
    this.node = el("div", { class: "markdown" });
    this.text = "";
    /** Offset of the first block that may still change. */
    this.settled = 0;
    /** @type {{ block: Block, node: HTMLElement }[]} */
    this.shown = [];
    this.numSettled = 0;
  }

  /** @param {string} text the whole text, usually the previous one and more */
  update(text) {
    if (text === this.text) return;
    if (!text.startsWith(this.text.slice(0, this.settled))) { this.settled = 0; this.numSettled = 0; }
    this.text = text;
    const fresh = blocks(text.slice(this.settled));
    patch(this.node, this.shown, fresh, this.numSettled);
    this.#settle(fresh);
  }

  /** A block is complete when the first line of the next one is. @param {Block[]} fresh */
  #settle(fresh) {
    const lines = this.text.slice(this.settled).split("\n");
    let next = fresh.length - 1;
    while (next > 0 && (fresh[next].begin ?? 0) >= lines.length - 1) next--;
    if (next <= 0) return;
    const begin = fresh[next].begin ?? 0;
    this.settled += lines.slice(0, begin).reduce((length, line) => length + line.length + 1, 0);
    this.numSettled += next;
  }
}

/**
 * Updates the nodes to match the blocks; unchanged ones stay.
 * @param {HTMLElement} parent
 * @param {{ block: Block, node: HTMLElement }[]} shown
 * @param {Block[]} fresh
 * @param {number} from
 */
function patch(parent, shown, fresh, from) {
  for (const [index, block] of fresh.entries()) {
    const there = shown[from + index];
    if (there && there.block.type === block.type && update(there, block)) continue;
    const node = made(block);
    if (there) there.node.replaceWith(node);
    else parent.append(node);
    shown[from + index] = { block, node };
  }
  for (const gone of shown.splice(from + fresh.length)) gone.node.remove();
}

/** @type {WeakMap<HTMLElement, { block: Block, node: HTMLElement }[]>} */
const inside = new WeakMap();

/** Updates a node to match the block; returns whether that was possible. @param {{ block: Block, node: HTMLElement }} there @param {Block} block */
function update(there, block) {
  const before = there.block;
  if (before.source === block.source && before.closed === block.closed && before.level === block.level && before.language === block.language) return true;
  if (block.type === "code" && !block.closed && before.language === block.language) {
    const code = /** @type {HTMLElement} */ (there.node.querySelector("code"));
    appendTo(code, before.source, block.source);
  } else if ((block.type === "list" && before.ordered === block.ordered) || block.type === "quote" || block.type === "item") {
    patch(there.node, inside.get(there.node) ?? [], block.inner ?? [], 0);
  } else if (block.type === "table" && before.aligns?.join() === block.aligns?.join()) {
    const body = /** @type {HTMLElement} */ (there.node.querySelector("tbody"));
    patch(body, inside.get(body) ?? [], rows(block), 0);
  } else return false;
  there.block = block;
  return true;
}

/** @param {HTMLElement} code @param {string} before @param {string} now */
function appendTo(code, before, now) {
  const last = code.lastChild;
  if (now.startsWith(before) && last instanceof Text) last.appendData(visible(now.slice(before.length)));
  else code.textContent = visible(now);
}

/** @param {Block} block @returns {Block[]} */
const rows = (block) => (block.inner ?? []).slice(1).map((row) => ({ ...row, aligns: block.aligns }));

/** A formula, or its source if something in it is unknown. @param {"div" | "span"} tag @param {string} source */
function math(tag, source) {
  const shown = formula(source, tag === "div");
  return el(tag, { class: `math${tag === "div" ? " block" : ""}${shown ? "" : " source"}`, dir: "ltr" }, shown ?? source);
}

/** Shows bidirectional control characters as code points, since they can disguise code. @param {string} text */
const visible = (text) => text.replace(BIDI, (char) => `⟦U+${char.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟧`);

/** @param {Block} block @returns {HTMLElement} */
function made(block) {
  switch (block.type) {
    case "heading":
      return el(/** @type {"h3"} */ (`h${Math.min(6, (block.level ?? 1) + 2)}`), { dir: "auto" }, inline(block.source));
    case "rule":
      return el("hr");
    case "math":
      return math("div", block.source);
    case "code":
      return codeBlock(block);
    case "list":
    case "quote":
    case "item": {
      const tag = block.type === "quote" ? "blockquote" : block.type === "item" ? "li" : block.ordered ? "ol" : "ul";
      const node = el(tag, block.ordered && block.start !== 1 ? { start: block.start } : {});
      /** @type {{ block: Block, node: HTMLElement }[]} */
      const shown = [];
      patch(node, shown, block.inner ?? [], 0);
      inside.set(node, shown);
      return node;
    }
    case "table": {
      const head = el("tr", {}, (block.inner?.[0].cells ?? []).map((cell, index) => el("th", { dir: "auto", class: block.aligns?.[index] }, inline(cell))));
      const body = el("tbody");
      /** @type {{ block: Block, node: HTMLElement }[]} */
      const shown = [];
      patch(body, shown, rows(block), 0);
      inside.set(body, shown);
      return el("div", { class: "scrolls", tabindex: 0 }, el("table", {}, el("thead", {}, head), body));
    }
    case "row":
      return el("tr", {}, (block.aligns ?? []).map((align, index) => el("td", { dir: "auto", class: align }, inline(block.cells?.[index] ?? ""))));
    default:
      return el("p", { dir: "auto" }, inline(block.source));
  }
}

/** Replaces a leading `[x]` with a box. @param {Block} block */
function ticked(block) {
  const first = block.inner?.[0];
  const box = first?.type === "text" ? /^\[([ xX])\]\s+/.exec(first.source) : null;
  if (first && box) first.source = (box[1] === " " ? "☐ " : "☑ ") + first.source.slice(box[0].length);
  return block;
}

/** @type {Record<string, string>} */
const EXTENSIONS = { python: "py", py: "py", javascript: "js", js: "js", typescript: "ts", ts: "ts", bash: "sh", sh: "sh", html: "html", css: "css", json: "json", rust: "rs", go: "go", c: "c", cpp: "cpp", java: "java", sql: "sql", toml: "toml", yaml: "yaml", markdown: "md" };

/** @param {Block} block */
function codeBlock(block) {
  const code = el("code", {});
  if (block.closed) code.append(...coloured(visible(block.source), block.language ?? ""));
  else code.textContent = visible(block.source);
  const copy = el("button", { type: "button", class: "small", onclick: () => copyText(copy, block.source, words.copied) }, words.copy);
  const pre = el("pre", { tabindex: 0 }, code);
  const fileName = `code.${Object.hasOwn(EXTENSIONS, block.language ?? "") ? EXTENSIONS[block.language ?? ""] : "txt"}`;
  const node = el("div", { class: "code", dir: "ltr" }, el("div", { class: "bar" }, el("span", {}, block.language || ""),
    sign(words.wrap, icon("wrap"), () => pre.classList.toggle("wrapped")),
    sign(words.download, icon("download"), () => download(fileName, "text/plain", block.closed ? block.source : code.textContent ?? "")), copy), pre);
  if (!block.closed) copy.onclick = (event) => { event.stopImmediatePropagation(); copyText(copy, code.textContent ?? "", words.copied); };
  return node;
}

const ENTITY = /^&(?:#x[\da-f]{1,6}|#\d{1,7}|[a-z][a-z\d]{1,31});/i;
const ENTITIES = new RegExp(ENTITY.source.slice(1), "gi");
/** The entities that models write, each before its character: the page may not parse HTML. @type {Record<string, string>} */
const NAMED = Object.fromEntries(("amp & lt < gt > quot \" apos ' nbsp \u00a0 ensp \u2002 emsp \u2003 thinsp \u2009 shy \u00ad copy © reg ® trade ™ hellip … mdash — ndash – lsquo ‘ rsquo ’ ldquo “ rdquo ” "
  + "laquo « raquo » bull • middot · times × divide ÷ plusmn ± minus − deg ° micro µ frac12 ½ frac14 ¼ frac34 ¾ sup2 ² sup3 ³ euro € pound £ cent ¢ yen ¥ sect § para ¶ dagger † larr ← rarr → uarr ↑ darr ↓ harr ↔ "
  + "rArr ⇒ hArr ⇔ le ≤ ge ≥ ne ≠ asymp ≈ equiv ≡ infin ∞ radic √ sum ∑ prod ∏ int ∫ part ∂ nabla ∇ forall ∀ exist ∃ isin ∈ notin ∉ sub ⊂ sup ⊃ cap ∩ cup ∪ empty ∅ and ∧ or ∨ not ¬ prime ′ "
  + "alpha α beta β gamma γ delta δ epsilon ε theta θ lambda λ mu μ pi π rho ρ sigma σ tau τ phi φ omega ω Delta Δ Sigma Σ Omega Ω "
  + "auml ä ouml ö uuml ü Auml Ä Ouml Ö Uuml Ü szlig ß eacute é egrave è agrave à ccedil ç ntilde ñ check ✓ hearts ♥").split(" ").map((each, index, all) => [each, all[index + 1]]).filter((_, index) => index % 2 === 0));

/** What an HTML entity such as `&amp;` stands for; one that is not known stays as it is. @param {string} entity that `ENTITY` matches */
function decoded(entity) {
  if (entity[1] !== "#") return Object.hasOwn(NAMED, entity.slice(1, -1)) ? NAMED[entity.slice(1, -1)] : entity;
  const code = /x/i.test(entity[2]) ? parseInt(entity.slice(3), 16) : parseInt(entity.slice(2), 10);
  return code === 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? "\ufffd" : String.fromCodePoint(code);
}

const SCHEMES = /^(?:https?:|mailto:)/i;

/** The nodes of inline Markdown. @param {string} text @param {number} [depth] @returns {(Node | string)[]} */
export function inline(text, depth = 0) {
  if (text.length > MAX_INLINE || depth > 12) return [text];
  /** @type {(Node | string)[]} */
  const out = [];
  let plain = "";
  /** Markers that are never closed, so that each is searched for only once. @type {Set<string>} */
  const hopeless = new Set();
  /** @param {Node} node */
  const push = (node) => { if (plain) out.push(plain); plain = ""; out.push(node); };
  /** @param {string} mark @param {number} from */
  const closing = (mark, from) => {
    if (hopeless.has(mark)) return -1;
    const found = text.indexOf(mark, from);
    if (found < 0) hopeless.add(mark);
    return found;
  };
  for (let at = 0; at < text.length; ) {
    const char = text[at];
    if (char === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) {
      const end = text[at + 1] === "(" ? closing("\\)", at + 2) : text[at + 1] === "[" ? closing("\\]", at + 2) : -1;
      if (end > 0) { push(math("span", text.slice(at + 2, end))); at = end + 2; continue; }
      plain += text[at + 1];
      at += 2;
      continue;
    }
    if (char === "`") {
      const ticks = /^`+/.exec(text.slice(at, at + 32))?.[0] ?? "`";
      const end = closing(ticks, at + ticks.length);
      if (end > 0) {
        const code = text.slice(at + ticks.length, end).replaceAll("\n", " ");
        push(el("code", {}, visible(/^ .*\S.* $/.test(code) ? code.slice(1, -1) : code)));
        at = end + ticks.length;
        continue;
      }
      plain += ticks;
      at += ticks.length;
      continue;
    }
    if (text.startsWith("$$", at)) {
      const end = closing("$$", at + 2);
      if (end > at + 2) { push(math("span", text.slice(at + 2, end).trim())); at = end + 2; continue; }
      plain += "$$";
      at += 2;
      continue;
    }
    if (char === "&") {
      const entity = ENTITY.exec(text.slice(at, at + 40))?.[0] ?? "&";
      plain += entity === "&" ? entity : decoded(entity);
      at += entity.length;
      continue;
    }
    if (char === "$" && /[^\s$\d]/.test(text[at + 1] ?? "")) {
      const end = closing("$", at + 1);
      if (end > 0 && !/\s/.test(text[end - 1]) && !/\d/.test(text[end + 1] ?? "") && !text.slice(at, end).includes("\n")) {
        push(math("span", text.slice(at + 1, end)));
        at = end + 1;
        continue;
      }
    }
    if (char === "*" || char === "_" || (char === "~" && text[at + 1] === "~")) {
      const run = /^(\*{1,3}|_{1,3}|~~)/.exec(text.slice(at, at + 3))?.[0] ?? char;
      const before = text[at - 1] ?? " ";
      const opens = !/\s/.test(text[at + run.length] ?? " ") && !(char === "_" && /[\p{L}\p{N}]/u.test(before));
      let end = opens ? closing(run, at + run.length) : -1;
      while (end > 0 && (/\s/.test(text[end - 1]) || (run.length === 1 && text[end + 1] === char && text[end - 1] !== char && ++end > 0)
        || (char === "_" && /[\p{L}\p{N}]/u.test(text[end + run.length] ?? "")))) end = closing(run, end + 1);
      if (end > at + run.length) {
        const inner = inline(text.slice(at + run.length, end), depth + 1);
        push(run === "~~" ? el("del", {}, inner) : run.length === 1 ? el("em", {}, inner)
          : run.length === 2 ? el("strong", {}, inner) : el("em", {}, el("strong", {}, inner)));
        at = end + run.length;
        continue;
      }
      plain += run;
      at += run.length;
      continue;
    }
    if (char === "[" || (char === "!" && text[at + 1] === "[")) {
      const link = /^!?\[((?:[^[\]\\\n]|\\.|\[[^[\]\n]{0,200}\]){0,1000})\]\(\s*<?([^\s<>()]{0,2000}(?:\([^\s()]{0,200}\)[^\s<>()]{0,200}){0,3})>?(?:\s+"[^"\n]{0,500}")?\s*\)/.exec(text.slice(at, at + 4000));
      if (link) {
        push(anchor(link[2].replaceAll(ENTITIES, decoded), char === "!" ? [`🖼 ${link[1]}`] : inline(link[1], depth + 1)));
        at += link[0].length;
        continue;
      }
    }
    if (char === "<" || (char === "h" && !/[\p{L}\p{N}]/u.test(text[at - 1] ?? " "))) {
      const url = /^<((?:https?:|mailto:)[^\s<>]{1,2000})>/i.exec(text.slice(at, at + 2100)) ?? /^(https?:\/\/[^\s<>"`]{1,2000})/i.exec(text.slice(at, at + 2000));
      if (url) {
        const bare = char === "<" ? url[1] : url[1].replace(/[.,:;!?'*_)\]]+$/, "");
        push(anchor(bare, [bare]));
        at += char === "<" ? url[0].length : bare.length;
        continue;
      }
    }
    if (char === "\n") {
      if (/ {2}$/.test(plain) || plain.endsWith("\\")) push(el("br"));
      else plain += "\n";
      at++;
      continue;
    }
    plain += char;
    at++;
  }
  if (plain) out.push(plain);
  return out;
}

/** An external link; for other schemes only its text. @param {string} url @param {(Node | string)[]} label */
function anchor(url, label) {
  if (!SCHEMES.test(url)) return el("span", { title: url }, label);
  return el("a", { href: url, target: "_blank", rel: "noopener noreferrer nofollow", title: url }, label);
}
