// Pictures from the camera and sounds from the microphone. Both are in use only while their dialog is open.

import { drawn } from "./attachments.js";
import { ask, el } from "./dom.js";
import { words } from "./words.js";

/** What models hear; a minute takes 2 MB. */
const RATE_HZ = 16_000;
const MAX_RECORD_S = 600;
const WAV_HEADER_BYTES = 44;

/** Whether this browser allows them here: only by https, or on this machine. */
export const canCapture = () => Boolean(navigator.mediaDevices?.getUserMedia);

/** A picture of the camera; null if the user takes none. Throws `DOMException` if there is none or it may not be used. @returns {Promise<File | null>} */
export async function takePicture() {
  const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment", width: { ideal: 1920 }, height: { ideal: 1080 } } });
  const video = el("video", { class: "viewfinder", autoplay: true, playsinline: true, "aria-label": words.files.viewfinder });
  Object.assign(video, { muted: true, srcObject: stream });
  try {
    if (!(await ask(words.files.camera, [video], { ok: words.files.take, cancel: words.cancel })) || !video.videoWidth) return null;
    const blob = await drawn(video, video.videoWidth, video.videoHeight);
    return blob && new File([blob], `${stamp("photo")}.jpg`, { type: "image/jpeg" });
  } finally {
    for (const track of stream.getTracks()) track.stop();
  }
}

/** A sound of the microphone; null if the user keeps none. Throws `DOMException`, see above. @returns {Promise<File | null>} */
export async function recordSound() {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  const recorder = new MediaRecorder(stream);
  /** @type {Blob[]} */
  const pieces = [];
  recorder.addEventListener("dataavailable", ({ data }) => pieces.push(data));
  const ended = new Promise((resolve) => recorder.addEventListener("stop", resolve));
  const begun = performance.now();
  const time = el("p", { class: "recording" }, words.files.recording(0));
  const ticking = setInterval(() => {
    const seconds = (performance.now() - begun) / 1000;
    if (recorder.state === "recording") time.textContent = words.files.recording(seconds);
    if (seconds < MAX_RECORD_S || recorder.state !== "recording") return;
    recorder.stop();
    time.textContent = words.files.longRecording(MAX_RECORD_S / 60);
  }, 500);
  try {
    recorder.start();
    const isKept = await ask(words.files.record, [time], { ok: words.files.keepSound, cancel: words.cancel });
    if (recorder.state === "recording") recorder.stop();
    await ended;
    return isKept ? new File([await toWav(new Blob(pieces))], `${stamp("sound")}.wav`, { type: "audio/wav" }) : null;
  } finally {
    clearInterval(ticking);
    for (const track of stream.getTracks()) track.stop();
  }
}

/** A name with the local time. @param {string} name */
const stamp = (name) => `${name} ${new Date().toLocaleString("sv").replaceAll(":", ".")}`;

/** What the browser records (WebM or MP4), as WAV, which every server reads. @param {Blob} recorded */
async function toWav(recorded) {
  const sound = await new OfflineAudioContext(1, 1, RATE_HZ).decodeAudioData(await recorded.arrayBuffer());
  const channels = Array.from({ length: sound.numberOfChannels }, (_, index) => sound.getChannelData(index));
  const view = new DataView(new ArrayBuffer(WAV_HEADER_BYTES + 2 * sound.length));
  /** @param {number} at @param {string} text */
  const put = (at, text) => { for (let index = 0; index < text.length; index++) view.setUint8(at + index, text.charCodeAt(index)); };
  put(0, "RIFF"); view.setUint32(4, view.byteLength - 8, true); put(8, "WAVEfmt ");
  view.setUint32(16, 16, true); view.setUint16(20, 1, true); view.setUint16(22, 1, true);  // PCM, one channel
  view.setUint32(24, RATE_HZ, true); view.setUint32(28, 2 * RATE_HZ, true); view.setUint16(32, 2, true); view.setUint16(34, 16, true);
  put(36, "data"); view.setUint32(40, 2 * sound.length, true);
  for (let at = 0; at < sound.length; at++) {
    const mixed = channels.reduce((sum, channel) => sum + channel[at], 0) / channels.length;
    view.setInt16(WAV_HEADER_BYTES + 2 * at, Math.max(-1, Math.min(1, mixed)) * 32767, true);
  }
  return view.buffer;
}
