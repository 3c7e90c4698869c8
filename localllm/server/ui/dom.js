// Creates DOM nodes. Text always becomes a text node, so a model's output is never parsed as HTML.

import { words } from "./words.js";

/** @typedef {Node | string | null | undefined | false} Child */

/**
 * An element. `props`: attributes by their names; `on*`: a listener; true sets an attribute, false omits it.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, any>} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  set(node, props);
  node.append(...flat(children));
  return node;
}

/**
 * Like `el`, for SVG.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...(Child | Child[])} children
 */
export function svg(tag, props = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(node, props);
  node.append(...flat(children));
  return node;
}

/** @param {Element} node @param {Record<string, any>} props */
function set(node, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" && "value" in node) /** @type {any} */ (node).value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
}

/** @param {(Child | Child[])[]} children @returns {(Node | string)[]} */
function flat(children) {
  return /** @type {(Node | string)[]} */ (
    children.flat().filter((child) => child !== null && child !== undefined && child !== false)
  );
}

/** @param {Element} node @param {...(Child | Child[])} children */
export function fill(node, ...children) {
  node.replaceChildren(...flat(children));
}

/**
 * A button that shows a symbol.
 * @param {string} label the accessible name and the tooltip
 * @param {Child} sign
 * @param {(event: Event) => void} press
 * @param {Record<string, any>} [props]
 */
export function sign(label, sign, press, props = {}) {
  return el("button", { type: "button", class: "sign", "aria-label": label, title: label, onclick: press, ...props }, sign);
}

/** Announces a text to screen readers. @param {string} text */
export function announce(text) {
  const region = document.getElementById("live");
  if (region) region.textContent = text;
}

/**
 * Shows a dialog; resolves to whether it was confirmed.
 * @param {string} title
 * @param {Child[]} content
 * @param {{ ok?: string, cancel?: string | null, danger?: boolean, class?: string }} [say]
 * @returns {Promise<boolean>}
 */
export function ask(title, content, say = {}) {
  return new Promise((resolve) => {
    const heading = el("h2", { id: "ask" }, title);
    const cancel = say.cancel === null ? null : el("button", { type: "button", onclick: () => box.close("") }, say.cancel ?? words.cancel);
    const form = el(
      "form",
      { method: "dialog", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); box.close("yes"); } },
      heading, content, el("div", { class: "row end" }, cancel, el("button", { class: say.danger ? "danger" : "primary" }, say.ok ?? words.ok)),
    );
    const box = el("dialog", { class: say.class, "aria-labelledby": "ask", onclose: () => { box.remove(); resolve(box.returnValue === "yes"); } }, form);
    document.body.append(box);
    box.showModal();
    box.querySelector(".complaint")?.scrollIntoView({ block: "nearest" });
  });
}

/**
 * Says in a dialog that is shown again what is wrong with a field of it, beside the field, which gets the focus.
 * @param {HTMLElement} problem says what concerns no field; it must be part of the dialog
 * @param {string} text empty: nothing is wrong any more
 * @param {HTMLElement} [field]
 */
export function complain(problem, text, field) {
  retract();
  problem.textContent = field ? "" : text;
  problem.hidden = !problem.textContent;
  if (!text) return;
  const focused = field ?? problem;
  focused.setAttribute("autofocus", "");
  if (!field) { problem.tabIndex = -1; retract = () => focused.removeAttribute("autofocus"); return; }
  const beside = el("p", { class: "error complaint wide", id: "complaint", role: "alert" }, text);
  (field.closest("label") ?? field).after(beside);
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", "complaint");
  retract = () => {
    beside.remove();
    for (const name of ["autofocus", "aria-invalid", "aria-describedby"]) field.removeAttribute(name);
  };
}

/** Removes what `complain` added last. */
let retract = () => {};

/** Copies text to the clipboard and confirms it on the button. @param {HTMLElement} button @param {string} text @param {Child} done */
export async function copyText(button, text, done) {
  const before = [...button.childNodes];
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = el("textarea", { class: "offscreen" });
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");  // the clipboard API requires https or localhost
    field.remove();
  }
  if (before[0] === undefined || button.dataset.copied) return;
  button.dataset.copied = "true";
  fill(button, done);
  announce(words.copied);
  setTimeout(() => { fill(button, before); delete button.dataset.copied; }, 1200);
}

/** Saves a file through the browser, or through the window of `localllm app`. @param {string} name @param {string} type @param {string} text */
export function download(name, type, text) {
  const own = /** @type {any} */ (window).localllmWindow;
  if (own) { own.save(name, text); return; }
  const url = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Files that the user chooses. @param {string} accept @returns {Promise<File[]>} */
export function chooseFiles(accept) {
  return new Promise((resolve) => {
    const input = el("input", { type: "file", multiple: true, accept });
    input.addEventListener("change", () => resolve([...(input.files ?? [])]));
    input.addEventListener("cancel", () => resolve([]));
    input.click();
  });
}
