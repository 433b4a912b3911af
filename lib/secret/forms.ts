/** @module The forms in which a secret's value appears in what a program writes. */

import { Buffer } from "node:buffer";

/** A shorter piece of base64 stands in too many texts. */
const MIN_PIECE = 4;
/** A shorter line of a value of several lines stands in too many texts. */
const MIN_LINE = 8;

const encoder = new TextEncoder();

/** Every form of `value`, as bytes, without repeats: see {@linkcode textForms} and {@linkcode base64Forms}. */
export function formsOf(value: string): Uint8Array[] {
  if (value === "") return [];
  const forms = new Set<string>();
  for (const each of [value, ...linesOf(value)]) {
    for (const form of textForms(each)) forms.add(form);
  }
  for (const form of base64Forms(encoder.encode(value))) forms.add(form);
  return [...forms].map((form) => encoder.encode(form));
}

/** The lines of a value of several lines: programs print them with something before each. */
function linesOf(value: string): string[] {
  const lines = value.split(/\r?\n/).map((line) => line.trim());
  return lines.length < 2
    ? []
    : [lines.join("\r\n"), ...lines.filter((line) => line.length >= MIN_LINE)];
}

/** As it is, URL-encoded, JSON-escaped (also twice, as JSON within JSON), HTML-escaped, quoted, and in hex. */
function textForms(value: string): string[] {
  const urls = urlForms(value);
  const bytes = Buffer.from(value);
  const json = jsonForms(value);
  const html = value.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const hex = bytes.length < MIN_PIECE ? [] : [bytes.toString("hex")];
  return [
    value,
    ...urls,
    ...json,
    ...json.flatMap(jsonForms),
    ...[html, html.replaceAll('"', "&quot;").replaceAll("'", "&#39;")],
    ...[html.replaceAll('"', "&#34;").replaceAll("'", "&#x27;")],
    html.replaceAll('"', "&quot;").replaceAll("'", "&apos;"),
    ...quotedForms(value),
    ...hex,
    ...hex.map((text) => text.toUpperCase()),
  ];
}

/** What the usual encoders make of it: they differ in what they leave as it is, and in the case of their digits. */
function urlForms(value: string): string[] {
  const bytes = encoder.encode(value);
  const percent = (byte: number) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  const encode = (safe: RegExp) =>
    Array.from(bytes, (byte) => {
      const char = String.fromCharCode(byte);
      return byte < 128 && safe.test(char) ? char : percent(byte);
    }).join("");
  const upper = [
    /[A-Za-z0-9\-_.!~*'()]/, // encodeURIComponent
    /[A-Za-z0-9\-_.~]/, // RFC 3986
    /[A-Za-z0-9\-_.~/]/, // Python's quote
    /[A-Za-z0-9\-_.!~*'();/?:@&=+$,#]/, // encodeURI
    /[A-Za-z0-9\-_.*]/, // application/x-www-form-urlencoded
    /[A-Za-z0-9]/,
    /[^\s\S]/, // every byte
  ].map(encode);
  const all = [...upper, ...upper.map((text) => text.replaceAll("%20", "+"))];
  return [...all, ...all.map((text) => text.replace(/%../g, (code) => code.toLowerCase()))];
}

/** The inside of a JSON text: as JavaScript writes it, and as encoders that keep to ASCII, or escape the slash, do. */
function jsonForms(value: string): string[] {
  const plain = JSON.stringify(value).slice(1, -1);
  const escape = (text: string, digits: (code: string) => string) =>
    text.replace(
      // deno-lint-ignore no-control-regex
      /[^\x00-\x7f]/g,
      (char) => `\\u${digits(char.charCodeAt(0).toString(16).padStart(4, "0"))}`,
    );
  const ascii = [plain, escape(plain, (x) => x), escape(plain, (x) => x.toUpperCase())];
  const html = plain.replace(
    /[<>&']/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return [...ascii, html, ...ascii.map((text) => text.replaceAll("/", "\\/"))];
}

/** Within the quotes of shells (traces of `sh -x`, `export -p`, `printf %q`) and of Python's repr. */
function quotedForms(value: string): string[] {
  const escape = (which: RegExp) => value.replace(which, "\\$&");
  const repr = [/\\/g, /[\\']/g].map(escape);
  return [
    ...repr,
    ...repr.map((text) =>
      text.replaceAll("\n", "\\n").replaceAll("\r", "\\r").replaceAll("\t", "\\t")
    ),
    value.replaceAll("'", "'\\''"),
    value.replaceAll("'", "'\"'\"'"),
    escape(/[\\"$`]/g),
    escape(/[ \t'"\\|&;()<>!{}*[\]?^$`,]/g),
  ];
}

/** Base64 of it wherever it stands in what is encoded: the characters that no neighbour has a part in. */
function base64Forms(bytes: Uint8Array): string[] {
  const forms: string[] = [];
  for (const before of [0, 1, 2]) {
    const padded = Buffer.concat([new Uint8Array(before), bytes]);
    const from = Math.ceil(before * 8 / 6);
    const to = Math.floor(padded.length * 8 / 6);
    for (const alphabet of ["base64", "base64url"] as const) {
      const piece = padded.toString(alphabet).slice(from, to);
      if (piece.length >= MIN_PIECE) forms.push(piece);
    }
  }
  // Alone it ends with a character that the padding has a part in.
  const whole = Buffer.from(bytes).toString("base64").replace(/=+$/, "");
  if (whole.length >= MIN_PIECE) forms.push(whole, Buffer.from(bytes).toString("base64url"));
  return forms;
}
