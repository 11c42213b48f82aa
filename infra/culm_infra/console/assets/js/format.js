/** Numbers, sizes, times and ids as people read them. A value that is not known is shown as a dash. */

export const UNKNOWN = "–";
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

const known = (value) => typeof value === "number" && Number.isFinite(value);

export const count = (value) => (known(value) ? WHOLE.format(value) : UNKNOWN);

export const shortCount = (value) => (known(value) ? (Math.abs(value) < 10_000 ? WHOLE : SHORT).format(value) : UNKNOWN);

export function bytes(value) {
  if (!known(value)) return UNKNOWN;
  let amount = value;
  let unit = 0;
  while (Math.abs(amount) >= 999.5 && unit < UNITS.length - 1) {
    amount /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || amount >= 99.5 ? 0 : 1;
  return `${amount.toFixed(digits)} ${UNITS[unit]}`;
}

export const byteRate = (value) => (known(value) ? `${bytes(value)}/s` : UNKNOWN);

export function rate(value) {
  if (!known(value)) return UNKNOWN;
  return `${value > 0 && value < 10 ? value.toFixed(1) : WHOLE.format(value)}/s`;
}

/** Return a duration: `3 s`, `4 min`, `2 h`, `5 d`. */
export function duration(ms) {
  if (!known(ms)) return UNKNOWN;
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 100) return `${seconds} s`;
  if (seconds < 6_000) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`;
  return `${count(Math.round(seconds / 86_400))} d`;
}

export const ago = (ms, now) => (known(ms) ? `${duration(now - ms)} ago` : UNKNOWN);

const two = (number) => String(number).padStart(2, "0");

/** Return the local time of day. */
export function clock(ms) {
  if (!known(ms)) return UNKNOWN;
  const date = new Date(ms);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** Return the local date and time. */
export function dateTime(ms) {
  if (!known(ms)) return UNKNOWN;
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return UNKNOWN;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(ms)}`;
}

/** Return the local date and time, and how long ago it was. */
export const dateTimeAgo = (ms, now) => (known(ms) ? `${dateTime(ms)} (${ago(ms, now)})` : UNKNOWN);

/** Return the number of seconds with up to two digits. */
export const seconds = (value) => (known(value) ? `${Number(value.toFixed(value < 10 ? 2 : 0))} s` : UNKNOWN);

/** Shorten a long id in the middle: both ends are what people compare. */
export function middle(text, longest = 19) {
  const characters = [...text];
  if (characters.length <= longest) return text;
  const head = Math.ceil((longest - 1) / 2);
  return `${characters.slice(0, head).join("")}…${characters.slice(1 - longest + head).join("")}`;
}

/** Return `1 edge`, `2 edges`. */
export const plural = (number, word, words = `${word}s`) => `${count(number)} ${number === 1 ? word : words}`;
