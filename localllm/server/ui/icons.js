// The page's icons: lines of one weight on a grid of 20.

import { svg } from "./dom.js";

const PATHS = {
  attach: "M16 9.5l-6.2 6.2a3.7 3.7 0 0 1-5.3-5.3l6.6-6.6a2.5 2.5 0 0 1 3.5 3.5l-6.5 6.5a1.2 1.2 0 0 1-1.7-1.7l5.6-5.6",
  camera: "M2.5 6.5h3l1.5-2h6l1.5 2h3v9h-15zM10 8a2.8 2.8 0 1 0 0 5.6A2.8 2.8 0 0 0 10 8",
  microphone: "M10 2.5a2.3 2.3 0 0 0-2.3 2.3v4.4a2.3 2.3 0 0 0 4.6 0V4.8A2.3 2.3 0 0 0 10 2.5M4.8 9.3a5.2 5.2 0 0 0 10.4 0M10 14.5v3",
  image: "M3 4h14v12H3zM3 13.5l4-4 3.5 3.5 2.5-2.5 4 4M12.8 7.2h.1",
  audio: "M4 8.2v3.6M7 5.5v9M10 3.5v13M13 6.5v7M16 8.2v3.6",
  video: "M2.5 5h10v10h-10zM12.5 9l5-3v8l-5-3",
  document: "M5 2.5h7l3.5 3.5v11.5H5zM12 2.5V6h3.5M7.5 10h5M7.5 13h5",
  remove: "M5.5 5.5l9 9M14.5 5.5l-9 9",
};

/** @typedef {keyof typeof PATHS} Icon */

/** @param {Icon} name */
export const icon = (name) => svg("svg", { class: "icon", viewBox: "0 0 20 20", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
