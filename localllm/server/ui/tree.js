// A conversation as a tree of messages: an edit or another answer is a sibling of the original. Pure data.

/**
 * @typedef {{ id: string, type: "function", function: { name: string, arguments: string } }} Call
 * @typedef {"image" | "audio" | "video" | "document"} FileKind
 * @typedef {object} Attachment a file of a message: a text, or else a file that is kept beside the messages under its digest
 * @property {string} name
 * @property {string} [text]
 * @property {FileKind} [kind] all from here on: of those that are not texts
 * @property {string} [type] its media type
 * @property {number} [size] bytes
 * @property {string} [digest]
 * @property {number} [width] of a picture that the browser can show, in pixels
 * @property {number} [height]
 * @property {string} [reduced] what it was before it was scaled down
 * @property {string} [error] why the server refused it
 * @typedef {{ token: string, logprob: number, top_logprobs: { token: string, logprob: number }[] }} Likely
 * @typedef {object} Message
 * @property {string} id
 * @property {string | null} parent
 * @property {number} number its place in the order of creation
 * @property {"user" | "assistant" | "tool"} role
 * @property {string} content
 * @property {string} [reasoning]
 * @property {number} [thoughtMs]
 * @property {Call[]} [calls]
 * @property {string} [callId] for tool messages: the call that it answers
 * @property {Attachment[]} [files]
 * @property {"writing" | "done" | "stopped" | "length" | "full" | "late" | "failed" | "broken"} state `full`: the context is; `late`: the server's time limit ended it
 * @property {number} [kept] when it was last written to the database
 * @property {string} [error]
 * @property {boolean} [isTooLong] it failed because the conversation does not fit the context
 * @property {string} [model]
 * @property {{ prompt: number, cached: number, files?: number, tokens: number, perSecond: number }} [figures] `files`: of the prompt's tokens, those of pictures and sounds
 * @property {Likely[]} [likely]
 *
 * @typedef {object} Settings of a chat; absent ones use the model's defaults
 * @property {string} [system]
 * @property {Record<string, number>} [sampling]
 * @property {"" | "on" | "off"} [thinking]
 * @property {string} [schema]
 * @property {string} [tools]
 * @property {boolean} [logprobs]
 * @property {string[]} [mcp] tools of the server's own MCP servers
 * @property {boolean} [runsAll] run all tools without confirmation, including those that may modify something
 *
 * @typedef {object} Conversation
 * @property {string} id
 * @property {string} title
 * @property {number} created
 * @property {number} updated
 * @property {string} model
 * @property {Settings} settings
 * @property {string | null} head the last message of the branch that is shown
 * @property {boolean} [isPinned] stands at the top of the list
 */

/** @returns {string} */
export const newId = () => [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

export class Tree {
  /** @param {Message[]} messages @param {string | null} head */
  constructor(messages, head) {
    /** @type {Map<string, Message>} */
    this.messages = new Map(messages.map((message) => [message.id, message]));
    /** @type {Map<string | null, string[]>} */
    this.children = new Map();
    for (const message of messages) this.#link(message);
    this.head = head !== null && this.messages.has(head) ? head : this.leaf(null);
  }

  /** @param {Message} message */
  #link(message) {
    const siblings = this.children.get(message.parent) ?? [];
    siblings.push(message.id);
    this.children.set(message.parent, siblings);
  }

  /** The messages up to this one, in order; by default, those of the shown branch. @returns {Message[]} */
  path(last = this.head) {
    const found = [];
    for (let id = last; id !== null; ) {
      const message = this.messages.get(id);
      if (!message) break;
      found.push(message);
      id = message.parent;
    }
    return found.reverse();
  }

  /** Adds a message after its parent. @param {Message} message @param {boolean} isShown whether its branch is shown now */
  add(message, isShown) {
    message.number = this.messages.size;
    this.messages.set(message.id, message);
    this.#link(message);
    if (isShown) this.head = message.id;
  }

  /** @param {Message} message @returns {{ at: number, of: number }} which of its versions it is, from 1 */
  version(message) {
    const siblings = this.children.get(message.parent) ?? [];
    return { at: siblings.indexOf(message.id) + 1, of: siblings.length };
  }

  /** Shows another version and the newest messages after it. @param {Message} message @param {number} by */
  turn(message, by) {
    const siblings = this.children.get(message.parent) ?? [];
    const other = siblings[siblings.indexOf(message.id) + by];
    if (other !== undefined) this.head = this.leaf(other);
  }

  /** Shows the branch of a message, unless it is already shown. @param {string} id */
  show(id) {
    if (this.messages.has(id) && !this.path().some((message) => message.id === id)) this.head = this.leaf(id);
  }

  /** The last message after this one, on the shown branch if it is there, otherwise on its newest. @param {Message} message */
  end(message) { return this.path().includes(message) ? this.head : this.leaf(message.id); }

  /** The last message of the newest branch after this one. @param {string | null} id @returns {string | null} */
  leaf(id) {
    for (;;) {
      const next = this.children.get(id)?.at(-1);
      if (next === undefined) return id;
      id = next;
    }
  }
}

/** The files of a message that are sent as parts of their own, in this order. @param {Message} message */
export const partsOf = (message) => (message.files ?? []).filter((file) => file.digest !== undefined);

/**
 * The message as sent to the server.
 * @param {Message} message @param {(file: Attachment) => Promise<string>} dataUrl @returns {Promise<Record<string, any>>}
 */
export async function toSend(message, dataUrl) {
  const files = (message.files ?? []).filter((file) => file.text !== undefined).map((file) => `${file.name}:\n\`\`\`\n${file.text}\n\`\`\`\n\n`).join("");
  const text = files + message.content;
  const parts = await Promise.all(partsOf(message).map(async (file) => partOf(file, await dataUrl(file))));
  /** @type {Record<string, any>} */
  const sent = { role: message.role, ...(message.role === "tool" && { tool_call_id: message.callId }), content: parts.length ? [...parts, ...(text ? [{ type: "text", text }] : [])] : text };
  if (message.reasoning) sent.reasoning_content = message.reasoning;
  if (message.calls?.length) sent.tool_calls = message.calls;
  return sent;
}

/** A file as a part of a message. @param {Attachment} file @param {string} url with its bytes */
function partOf({ kind, name, type }, url) {
  if (!url) return { type: "text", text: `[${kind} omitted: ${name}]` };
  const data = url.slice(url.indexOf(",") + 1);
  switch (kind) {
    case "image": return { type: "image_url", image_url: { url } };
    case "audio": return { type: "input_audio", input_audio: { data, format: type === "audio/mpeg" ? "mp3" : "wav" } };
    case "video": return { type: "input_video", input_video: { data } };
    default: return { type: "file", file: { filename: name, file_data: url } };
  }
}

/** A title from the first line of a text. @param {string} text @param {string} otherwise */
export function titleOf(text, otherwise) {
  const line = text.trim().split("\n")[0] ?? "";
  return line.length > 60 ? `${line.slice(0, 57).trimEnd()}…` : line || otherwise;
}
