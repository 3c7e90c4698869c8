// Syntax highlighting: strings, comments, numbers and keywords of common languages. One pass, limited in length.

import { el } from "./dom.js";

const MAX = 100_000;

const C_WORDS = "auto break case catch char class const continue default delete do double else enum explicit export extern false final finally float for friend goto if implements import in inline instanceof int interface long namespace new null nullptr operator override package private protected public return short signed sizeof static struct super switch template this throw throws true try typedef typename union unsigned using var virtual void volatile while let function async await yield of from as extends undefined string number boolean any type readonly abstract func go chan defer map range select fallthrough fn impl mut pub ref self Self trait use where match mod move dyn crate loop unsafe val fun when object data sealed bool byte std auto constexpr noexcept";
const PY_WORDS = "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield match case self print then fi done do esac function local export echo end begin require module elsif unless nil rescue ensure";
const SQL_WORDS = "select from where insert into values update set delete create table drop alter add primary key foreign references join left right inner outer on group by order having limit offset union all distinct as and or not null is in like between case when then else end index view with exists count sum avg min max";

/** @param {string} text */
const wordsOf = (text) => new Set(text.split(" "));
const KINDS = {
  c: { words: wordsOf(C_WORDS), comment: /\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/y },
  py: { words: wordsOf(PY_WORDS), comment: /#[^\n]*/y },
  sql: { words: wordsOf(SQL_WORDS), comment: /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/y },
  json: { words: wordsOf("true false null"), comment: /\/\/[^\n]*/y },
  xml: { words: new Set(), comment: /<!--[\s\S]*?(?:-->|$)/y },
};
/** @type {Record<string, keyof typeof KINDS>} */
const LANGUAGES = {
  python: "py", py: "py", python3: "py", bash: "py", sh: "py", shell: "py", zsh: "py", ruby: "py", rb: "py", yaml: "py", yml: "py", toml: "py",
  r: "py", make: "py", makefile: "py", dockerfile: "py", perl: "py", sql: "sql", lua: "sql", haskell: "sql", json: "json", jsonc: "json",
  html: "xml", xml: "xml", svg: "xml", diff: "xml", text: "xml", txt: "xml", markdown: "xml", md: "xml", "": "xml",
};
const STRING = /"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|`(?:[^`\\]|\\[\s\S])*`?/y;
const NUMBER = /0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORD = /[\p{L}_$][\p{L}\p{N}_$]*/uy;
const TAG = /<\/?[A-Za-z][\w:-]*|\/?>/y;

/** The highlighted nodes of a piece of code. @param {string} code @param {string} language @returns {(Node | string)[]} */
export function coloured(code, language) {
  const name = LANGUAGES[language.toLowerCase()] ?? "c";
  if (code.length > MAX || (name === "xml" && !/^(html|xml|svg)$/i.test(language))) return [code];
  const { words, comment } = KINDS[name];
  /** @type {(Node | string)[]} */
  const out = [];
  let plain = "";
  /** @param {RegExp} pattern @param {number} at */
  const match = (pattern, at) => { pattern.lastIndex = at; return pattern.exec(code)?.[0] ?? ""; };
  for (let at = 0; at < code.length; ) {
    let kind = "", text = match(comment, at);
    if (text) kind = "comment";
    else if (name === "xml" ? (text = match(TAG, at)) : "") kind = "keyword";
    else if ((text = /["'`]/.test(code[at]) ? match(STRING, at) : "")) kind = "string";
    else if ((text = /\d/.test(code[at]) ? match(NUMBER, at) : "")) kind = "number";
    else if ((text = match(WORD, at))) {
      const low = name === "sql" ? text.toLowerCase() : text;
      kind = words.has(low) ? "keyword" : code[at + text.length] === "(" ? "call" : "";
    } else text = code[at];
    if (kind) {
      if (plain) out.push(plain);
      plain = "";
      out.push(el("span", { class: kind }, text));
    } else plain += text;
    at += text.length;
  }
  if (plain) out.push(plain);
  return out;
}
