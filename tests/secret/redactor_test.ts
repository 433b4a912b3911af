// deno-lint-ignore-file no-non-null-assertion
/** @module Nothing of a secret leaves: in no form, and however the stream is cut. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import fc from "fast-check";
import { formsOf } from "../../lib/secret/forms.ts";
import { MASK, redaction, Redactor } from "../../lib/secret/mod.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** What a stream of `redactor` makes of `bytes`, cut at `cuts`. */
async function through(
  redactor: Redactor,
  bytes: Uint8Array,
  cuts: readonly number[],
): Promise<string> {
  const ends = [...new Set([...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length])]
    .sort((a, b) => a - b);
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let from = 0;
  for (const end of ends) {
    chunks.push(new Uint8Array(bytes.slice(from, end)));
    from = end;
  }
  const out = ReadableStream.from(chunks).pipeThrough(redactor.stream());
  return decoder.decode(await new Response(out as ReadableStream<Uint8Array<ArrayBuffer>>).bytes());
}

/** The same by trying every form at every place. */
function slowly(values: readonly string[], bytes: Uint8Array): string {
  const forms = values.flatMap(formsOf).map((form) => Buffer.from(form));
  const hidden = new Uint8Array(bytes.length);
  const whole = Buffer.from(bytes);
  for (const form of forms) {
    for (let at = whole.indexOf(form); at >= 0; at = whole.indexOf(form, at + 1)) {
      hidden.fill(1, at, at + form.length);
    }
  }
  const out: number[] = [];
  bytes.forEach((byte, at) => {
    if (hidden[at] === 0) out.push(byte);
    else if (at === 0 || hidden[at - 1] === 0) out.push(...encoder.encode(MASK));
  });
  return decoder.decode(Uint8Array.from(out));
}

const FORMS: Record<string, (value: string) => string> = {
  plain: (value) => value,
  base64: (value) => Buffer.from(value).toString("base64"),
  "base64 within more": (value) => Buffer.from(`x${value}yz`).toString("base64"),
  "base64 of a header": (value) => Buffer.from(`user:${value}`).toString("base64"),
  base64url: (value) => Buffer.from(value).toString("base64url"),
  "URL-encoded": encodeURIComponent,
  "URL-encoded in small letters": (value) =>
    encodeURIComponent(value).replace(/%../g, (code) => code.toLowerCase()),
  "in a form": (value) => new URLSearchParams({ value }).toString().slice("value=".length),
  "JSON-escaped": (value) => JSON.stringify(value).slice(1, -1),
  "JSON within JSON": (value) => JSON.stringify(JSON.stringify(value).slice(1, -1)).slice(1, -1),
  "in XML": (value) =>
    value.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")
      .replaceAll('"', "&quot;").replaceAll("'", "&apos;"),
  "in the quotes of Python": (value) =>
    value.replace(/[\\']/g, "\\$&").replaceAll("\n", "\\n").replaceAll("\t", "\\t"),
  "in the quotes of sh -x": (value) => value.replaceAll("'", "'\\''"),
  "in the quotes of shlex": (value) => value.replaceAll("'", `'"'"'`),
  "in double quotes of a shell": (value) => value.replace(/["\\$`]/g, "\\$&"),
  "in hex": (value) => Buffer.from(value).toString("hex"),
};

const VALUES = [
  "hunter22",
  "p@ss w/rd+é\"'<&>",
  "ghp_0123456789abcdefABCDEF",
  "line one of it\nline two of it",
  "\\back\\slash/\t",
  `a"b\\c$d'e\`f&g`,
  "日本語のパスワード",
];

for (const [name, encode] of Object.entries(FORMS)) {
  Deno.test(`a value is hidden ${name}, whole and in pieces of one byte`, async () => {
    for (const value of VALUES) {
      const redactor = new Redactor([value]);
      const bytes = encoder.encode(`before ${encode(value)} after`);
      const cuts = Array.from({ length: bytes.length }, (_, at) => at);
      for (
        const found of [await through(redactor, bytes, []), await through(redactor, bytes, cuts)]
      ) {
        assert.ok(found.includes(MASK), `${name}: ${value}: ${found}`);
        const rest = found.replaceAll(MASK, "");
        for (const form of formsOf(value)) assert.ok(!rest.includes(decoder.decode(form)), found);
        assert.ok(found.startsWith("before ") && found.endsWith(" after"), found);
      }
    }
  });
}

Deno.test("a value is hidden as bash's %q and Python's repr really print it", async () => {
  const value = `a"b\\c$d\`f&g (h)[i]{j},k~l#m;n|o*p?q!r^s<t>'u`;
  const repr = value.replace("'", "");
  for (
    const [program, secret, ...args] of [
      ["bash", value, "-c", 'printf "%q" "$V"'],
      ["bash", value, "-c", 'exec 2>&1; set -x; : "$V"'],
      ["bash", value, "-c", "export -p | grep ' V='"],
      ["sh", value, "-c", 'exec 2>&1; set -x; : "$V"'],
      ["python3", value, "-c", "import os; print(repr(os.environ['V']))"],
      ["python3", repr, "-c", "import os; print(repr(os.environ['V']))"],
    ] as [string, string, ...string[]][]
  ) {
    const { stdout } = await new Deno.Command(program, { args, env: { V: secret } }).output();
    const found = new Redactor([secret]).text(decoder.decode(stdout));
    assert.ok(found.includes(MASK) && !found.includes("[i"), `${program}: ${found}`);
  }
});

Deno.test("a text without a value is left as it is, also one that nearly has it", async () => {
  const redactor = new Redactor(["correct horse"]);
  for (const text of ["", "correct hors", "correct correct hors e", "é", "\0\xff"]) {
    assert.equal(redactor.text(text), text);
    assert.equal(await through(redactor, encoder.encode(text), [1, 2, 3]), text);
  }
});

Deno.test("values that overlap, follow one another, or hold one another are hidden whole", () => {
  const redactor = new Redactor(["abcdef", "defghi", "cd"]);
  assert.equal(redactor.text("_abcdefghi_"), `_${MASK}_`);
  assert.equal(redactor.text("abcdefabcdef"), MASK);
  assert.equal(redactor.text("xcdx"), `x${MASK}x`);
  assert.equal(redactor.text("abcde"), `ab${MASK}e`);
});

Deno.test("each line of a value of several lines is hidden, with whatever stands before it", () => {
  const key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----\n";
  const printed = key.trim().split("\n").map((line) => `  | ${line}`).join("\n");
  const found = new Redactor([key]).text(printed);
  for (const line of key.trim().split("\n")) assert.ok(!found.includes(line), found);
});

Deno.test("a large value costs little: 16 KiB in all its forms", () => {
  const value = Array.from({ length: 400 }, (_, n) => `{"k${n}":"v/${n * 7919}+="}\n`).join("");
  const redactor = new Redactor([value]);
  assert.equal(redactor.text(`<${encodeURIComponent(value)}>`), `<${MASK}>`);
});

Deno.test("no values: streams pass, and text stays", async () => {
  const bytes = encoder.encode("anything");
  const stream = redaction.streams([])();
  const out = ReadableStream.from([bytes]).pipeThrough(stream);
  assert.equal(
    await new Response(out as ReadableStream<Uint8Array<ArrayBuffer>>).text(),
    "anything",
  );
  assert.equal(redaction.text([""], "anything"), "anything");
});

Deno.test("what leaves is the same however a stream is cut, and as slow search has it", async () => {
  const letters = fc.string({
    unit: fc.constantFrom("a", "b", "/", "é", '"'),
    minLength: 1,
    maxLength: 6,
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(letters, { minLength: 1, maxLength: 3 }),
      fc.array(fc.oneof(letters, fc.constantFrom("%", "%2F", "\\", "YWJ", "0"), fc.nat(2)), {
        maxLength: 12,
      }),
      fc.array(fc.constantFrom(...Object.values(FORMS)), { maxLength: 4 }),
      fc.array(fc.nat(200), { maxLength: 8 }),
      async (values, pieces, forms, cuts) => {
        const text = pieces.map((piece, at) => {
          if (typeof piece === "string") return piece;
          const value = values[piece % values.length]!;
          return forms.length === 0 ? value : forms[at % forms.length]!(value);
        }).join("");
        const bytes = encoder.encode(text);
        assert.equal(await through(new Redactor(values), bytes, cuts), slowly(values, bytes));
      },
    ),
    { numRuns: 400 },
  );
});
