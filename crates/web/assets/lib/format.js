// Numbers, sizes and times as text.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** Bytes with three digits, as `1.25 GiB`. */
export function bytes(n) {
  if (n === null || n === undefined) return "–";
  let unit = 0;
  let value = Number(n);
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${digits(value, unit)} ${UNITS[unit]}`;
}

function digits(value, unit) {
  if (unit === 0) return String(Math.round(value));
  if (value < 10) return value.toFixed(2);
  return value < 100 ? value.toFixed(1) : String(Math.round(value));
}

const WHOLE = new Intl.NumberFormat("en");

/** A count with separators. */
export function count(n) {
  return WHOLE.format(n);
}

/** `1 snapshot`, `2 snapshots`. */
export function plural(n, noun, many = `${noun}s`) {
  return `${count(n)} ${Number(n) === 1 ? noun : many}`;
}

/** A part of a whole, as `12 %`. */
export function percent(part, whole) {
  if (!whole) return "0 %";
  const value = (100 * part) / whole;
  if (value > 0 && value < 1) return "< 1 %";
  return `${Math.min(100, Math.floor(value))} %`;
}

/** A length of time in seconds, as `3 min`. */
export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 2 * 86400) return `${Math.floor(s / 3600)} h`;
  if (s < 60 * 86400) return plural(Math.floor(s / 86400), "day");
  if (s < 730 * 86400) return plural(Math.floor(s / (30 * 86400)), "month");
  return plural(Math.floor(s / (365 * 86400)), "year");
}

/** A moment, seconds since 1970, beside now. */
export function ago(time, now = Date.now() / 1000) {
  if (now - time < 5) return "just now";
  return `${duration(now - time)} ago`;
}

const MOMENT = new Intl.DateTimeFormat("en-GB", {
  year: "numeric",
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
});

/** A moment, seconds since 1970. */
export function moment(time) {
  return MOMENT.format(new Date(time * 1000));
}

/** Nanoseconds, as `1.2 ms`. */
export function nanos(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  if (n < 1e3) return `${Math.round(n)} ns`;
  if (n < 1e6) return `${three(n / 1e3)} µs`;
  if (n < 1e9) return `${three(n / 1e6)} ms`;
  return `${three(n / 1e9)} s`;
}

function three(value) {
  return value < 10 ? value.toFixed(1) : String(Math.round(value));
}

/** A rate without a unit. */
export function rate(n) {
  if (n >= 1000) return count(Math.round(n));
  return n >= 10 || n === 0 ? String(Math.round(n)) : n.toFixed(1);
}

/** A size as a command takes it, in bytes; `null` if it is none. */
export function parseSize(text) {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([KMGTPE]?)(?:i?B)?\s*$/i.exec(text);
  if (!match) return null;
  const size = Number(match[1]) * 1024 ** " KMGTPE".indexOf(match[2].toUpperCase() || " ");
  return Number.isSafeInteger(size) ? size : null;
}
