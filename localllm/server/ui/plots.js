// Small plots of the last minutes, drawn in SVG.

import { el, svg } from "./dom.js";

const WIDTH = 300, HEIGHT = 60;

/** @typedef {{ at: number, value: number }} Point `at`: milliseconds; `value`: NaN where it begins to be unknown */

export class Plot {
  /** @param {string} title @param {number} spanMs @param {(value: number) => string} shown */
  constructor(title, spanMs, shown) {
    this.spanMs = spanMs;
    this.shown = shown;
    /** @type {Point[]} */
    this.points = [];
    this.now = el("b");
    this.line = svg("path", { class: "line" });
    this.area = svg("path", { class: "area" });
    this.most = el("span", { class: "most" });
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": title }, this.area, this.line);
    this.node = el("figure", { class: "plot" }, el("figcaption", {}, title, " ", this.now), el("div", { class: "picture" }, this.most, picture));
  }

  /** Until the next point, the value is not known. */
  interrupt() {
    const last = this.points.at(-1);
    if (last && !Number.isNaN(last.value)) this.points.push({ at: last.at, value: NaN });
  }

  /** @param {Point} point */
  add(point) {
    this.points.push(point);
    const from = point.at - this.spanMs;
    while (this.points.length > 1 && this.points[1].at < from) this.points.shift();
    const most = Math.max(1e-9, ...this.points.map((each) => each.value || 0));
    /** Stretches of known values. @type {string[][]} */
    const known = [[]];
    for (const { at, value } of this.points) {
      if (Number.isNaN(value)) { known.push([]); continue; }
      known[known.length - 1].push(`${(((at - from) / this.spanMs) * WIDTH).toFixed(1)} ${(HEIGHT - 2 - (value / most) * (HEIGHT - 6)).toFixed(1)}`);
    }
    const drawn = known.filter((each) => each.length);
    this.line.setAttribute("d", drawn.map((each) => `M${each.join("L")}`).join(""));
    this.area.setAttribute("d", drawn.map((each) => `M${each[0].split(" ")[0]} ${HEIGHT}L${each.join("L")}L${each[each.length - 1].split(" ")[0]} ${HEIGHT}Z`).join(""));
    this.now.textContent = this.shown(point.value);
    this.most.textContent = most > 1e-6 ? this.shown(most) : "";
  }
}
