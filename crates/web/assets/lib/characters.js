// Characters that a reader does not see, and text without them: what is shown and what is copied.
//
// A terminal obeys control characters, and a bidirectional mark shows a text in another order than it has.

// As in `protocol::characters`: a test compares the tables.
const HIDDEN = [
  [0x0, 0x1f],
  [0x7f, 0x9f],
  [0xad, 0xad],
  [0x34f, 0x34f],
  [0x61c, 0x61c],
  [0x115f, 0x1160],
  [0x17b4, 0x17b5],
  [0x180e, 0x180e],
  [0x200b, 0x200f],
  [0x2028, 0x202e],
  [0x2060, 0x206f],
  [0x3164, 0x3164],
  [0xfeff, 0xfeff],
  [0xffa0, 0xffa0],
  [0xfff9, 0xfffb],
  [0x1bca0, 0x1bca3],
  [0x1d173, 0x1d17a],
  [0xe0000, 0xe007f],
];

const ranges = HIDDEN.map(([first, last]) => `\\u{${first.toString(16)}}-\\u{${last.toString(16)}}`);
const hidden = new RegExp(`[${ranges.join("")}]`, "gu");
const SHORT = { "\t": "\\t", "\n": "\\n", "\r": "\\r" };

/** Text from elsewhere, with its hidden characters escaped. */
export function visible(text) {
  return String(text).replace(hidden, (c) => SHORT[c] ?? `\\u{${c.codePointAt(0).toString(16)}}`);
}

/** Words as one command line. What is shown is what is copied: it has no hidden character. */
export function commandLine(words) {
  return words.filter((word) => word !== null && word !== false && word !== undefined).map(quoted).join(" ");
}

/** A word, quoted for a shell where that is needed. */
export function quoted(word) {
  const text = String(word);
  if (visible(text) !== text) {
    const inside = text.replaceAll(/[\\']/g, "\\$&").replace(hidden, (c) => [...new TextEncoder().encode(c)].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join(""));
    return `$'${inside}'`;
  }
  // A shell expands a word that begins with `=`.
  if (/^(?!=)[\p{L}\p{N}\-_./,:=@%+]+$/u.test(text)) return text;
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
