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
  send: "M10 16V4.5M5 9.2l5-4.9 5 4.9",
  stop: "M5.5 5.5h9v9h-9z",
  copy: "M7 7h9.5v9.5H7zM13 7V3.5H3.5V13H7",
  done: "M4 10.5l4 4 8-9",
  edit: "M13 3.8l3.2 3.2L7 16.2l-4 .8.8-4zM11 5.8L14.2 9",
  again: "M16 6.5A7 7 0 1 0 17 11M16.5 3v4h-4",
  continue: "M3.5 10h12M11 5.5l4.5 4.5-4.5 4.5",
  speak: "M3.5 8v4h3l4 3.5v-11l-4 3.5zM13.5 7.5a3.5 3.5 0 0 1 0 5M15.8 5a7 7 0 0 1 0 10",
  download: "M10 3.5v9M6 9l4 4 4-4M4 16.5h12",
  wrap: "M3 5h14M3 10h11a2.7 2.7 0 0 1 0 5.4h-3M12.5 13l-2 2.4 2 2.4M3 15h4",
  tree: "M4 4h5M4 4v11.5h4M4 9.7h4M11 9.7h5M11 15.5h5",
  info: "M10 2.8a7.2 7.2 0 1 0 0 14.4 7.2 7.2 0 0 0 0-14.4M10 9.3v4.2M10 6.4h.1",
  previous: "M12 5l-5 5 5 5",
  next: "M8 5l5 5-5 5",
  more: "M4.5 10h.1M10 10h.1M15.5 10h.1",
  menu: "M3 5.5h14M3 10h14M3 14.5h14",
  settings: "M3 6.5h7M14 6.5h3M3 13.5h3M10 13.5h7M12 4.5a2 2 0 1 0 0 4 2 2 0 0 0 0-4M8 11.5a2 2 0 1 0 0 4 2 2 0 0 0 0-4",
  help: "M10 2.8a7.2 7.2 0 1 0 0 14.4 7.2 7.2 0 0 0 0-14.4M7.9 8a2.1 2.1 0 1 1 3.2 1.8c-.7.4-1.1.8-1.1 1.5M10 14h.1",
  theme: "M10 3a7 7 0 1 0 0 14zM10 3a7 7 0 0 1 0 14",
  add: "M10 4v12M4 10h12",
};

/** @typedef {keyof typeof PATHS} Icon */

/** @param {Icon} name */
export const icon = (name) => svg("svg", { class: "icon", viewBox: "0 0 20 20", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
