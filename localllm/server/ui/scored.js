// Which tokens an answer's text consists of. Pure data.
//
// The server sends the probabilities of all tokens, also of thoughts, calls and their tags, and holds back text that
// may begin a tag: a piece of text comes with its last token or later.

/** @typedef {import("./tree.js").Likely} Likely @typedef {Likely & { bytes?: number[] }} Scored */

const encoder = new TextEncoder();

/** A string with one character for each byte. @param {Iterable<number>} bytes */
const bytewise = (bytes) => Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
/** @param {Scored} token */
const bytesOf = (token) => bytewise(token.bytes ?? encoder.encode(token.token));

export class Scores {
  constructor() {
    /** Tokens that no piece of text has claimed. @type {Scored[]} */
    this.waiting = [];
  }

  /** The tokens of the next piece of text, cut to it; their texts add up to the piece. @param {string} text @param {Scored[]} tokens @returns {Likely[]} */
  feed(text, tokens) {
    this.waiting.push(...tokens);
    if (!text) return [];
    const pieces = this.waiting.map(bytesOf);
    const wanted = bytewise(encoder.encode(text));
    const begin = pieces.join("").lastIndexOf(wanted);
    if (begin < 0) return [unscored(text)];
    const end = begin + wanted.length;
    const decoder = new TextDecoder();
    /** @type {Likely[]} */
    const found = [];
    let at = 0, numDone = 0;
    for (const [index, piece] of pieces.entries()) {
      const from = Math.max(begin, at), to = Math.min(end, at + piece.length);
      if (from < to) {
        const own = Uint8Array.from(piece.slice(from - at, to - at), (char) => char.charCodeAt(0));
        const { logprob, top_logprobs } = this.waiting[index];
        found.push({ token: decoder.decode(own, { stream: true }), logprob, top_logprobs });
      }
      at += piece.length;
      if (at <= end) numDone = index + 1;
    }
    this.waiting.splice(0, numDone);
    return found;
  }
}

/** Text whose tokens are not known. @param {string} token @returns {Likely} */
export const unscored = (token) => ({ token, logprob: 0, top_logprobs: [] });

/** The tokens of a whole text, with what is not known of it; null if they are not of this text. @param {Likely[]} tokens @param {string} text */
export function covering(tokens, text) {
  const known = tokens.map((each) => each.token).join("");
  if (!known || !text.startsWith(known)) return null;
  return text.length > known.length ? [...tokens, unscored(text.slice(known.length))] : tokens;
}
