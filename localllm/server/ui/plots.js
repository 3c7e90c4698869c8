// Small plots of the last minutes, drawn in SVG.

import { el, svg } from "./dom.js";

const WIDTH = 300, HEIGHT = 60;

/** @typedef {{ at: number, value: number }} Point `at`: milliseconds */

export class Plot {
  /** @param {string} title @param {number} spanMs @param {(value: number) => string} shown */
  constructor(title, spanMs, shown) {
    this.spanMs = spanMs;
    this.shown = shown;
    /** @type {Point[]} */
    this.points = [];
    this.now = el("b");
    this.line = svg("polyline", { class: "line" });
    this.area = svg("polygon", { class: "area" });
    this.most = el("span", { class: "most" });
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": title }, this.area, this.line);
    this.node = el("figure", { class: "plot" }, el("figcaption", {}, title, " ", this.now), el("div", { class: "picture" }, this.most, picture));
  }

  /** @param {Point} point */
  add(point) {
    this.points.push(point);
    const from = point.at - this.spanMs;
    while (this.points.length > 1 && this.points[1].at < from) this.points.shift();
    const most = Math.max(1e-9, ...this.points.map((each) => each.value));
    const at = this.points.map((each) => `${(((each.at - from) / this.spanMs) * WIDTH).toFixed(1)},${(HEIGHT - 2 - (each.value / most) * (HEIGHT - 6)).toFixed(1)}`);
    this.line.setAttribute("points", at.join(" "));
    this.area.setAttribute("points", `${at[0].split(",")[0]},${HEIGHT} ${at.join(" ")} ${WIDTH},${HEIGHT}`);
    this.now.textContent = this.shown(point.value);
    this.most.textContent = most > 1e-6 ? this.shown(most) : "";
  }
}
