/** @module Tests of METRIC lines: what counts, and that a flood of output costs no memory. */

import assert from "node:assert/strict";
import fc from "fast-check";
import { MetricReader, missingMetrics, type Printed } from "../../lib/job/run_metrics.ts";

const utf8 = new TextEncoder();

function read(text: string, required: string[] = ["a"]): Printed {
  const reader = new MetricReader(required);
  reader.push(utf8.encode(text));
  return reader.finish();
}

const metrics = (text: string) => Object.fromEntries(read(text).metrics);

const lines: [string, Record<string, number>][] = [
  ["METRIC a=1", { a: 1 }],
  ["METRIC a=1\n", { a: 1 }],
  ["  METRIC   a  =  1.5  \r\n", { a: 1.5 }],
  ["METRIC a=-2e-3\nMETRIC b=+.5\nMETRIC c=5.\nMETRIC d=1_000", {
    a: -0.002,
    b: 0.5,
    c: 5,
    d: 1000,
  }],
  ["METRIC a=1\nMETRIC a=2\n", { a: 2 }],
  ["METRIC a=2\nMETRIC a=nan\n", { a: 2 }],
  ["METRIC a b=1", { "a b": 1 }],
  ["METRIC gr\u00f6\u00dfe=1", { "gr\u00f6\u00dfe": 1 }],
  ["10 %\r50 %\rMETRIC a=1\r100 %\n", { a: 1 }],
  ["metric a=1\nXMETRIC a=1\nMETRICS a=1\n# METRIC a=1\n", {}],
  [
    "METRIC a=inf\nMETRIC b=NaN\nMETRIC c=0x10\nMETRIC d=\nMETRIC e=1 2\nMETRIC f=1e999\nMETRIC =1\n",
    {},
  ],
  ["METRIC a=1=2", {}],
  ["METRIC a 1", {}],
  ["METRIC\ta=1", {}],
  ["", {}],
  ["\n\n\r\n", {}],
  ["METRIC constructor=2", { constructor: 2 }],
];
for (const [text, expected] of lines) {
  Deno.test(`${JSON.stringify(text)} prints ${JSON.stringify(expected)}`, () => {
    assert.deepEqual(Object.entries(metrics(text)), Object.entries(expected));
  });
}

Deno.test("it does not matter how the bytes are cut", () => {
  const text = "start\nMETRIC a=1\r\n\u00fcber\rMETRIC \u00fc=2.5\nMETRIC a=x\nMETRIC b=3";
  const whole = read(text);
  const bytes = utf8.encode(text);
  fc.assert(fc.property(fc.array(fc.nat(bytes.length), { maxLength: 8 }), (cuts) => {
    const reader = new MetricReader(["a"]);
    const ends = [...cuts, bytes.length].sort((a, b) => a - b);
    let at = 0;
    for (const end of ends) {
      reader.push(bytes.subarray(at, end));
      at = end;
    }
    assert.deepEqual(reader.finish(), whole);
  }));
});

Deno.test("a line of over 64 KiB is no metric, and the next one is", () => {
  assert.deepEqual(metrics(`METRIC a=${"1".repeat(70_000)}\nMETRIC b=2\n`), { b: 2 });
  assert.deepEqual(metrics(`${"x".repeat(200_000)} METRIC a=1\nMETRIC b=2\n`), { b: 2 });
});

Deno.test("a flood of names is bounded, and required ones always count", () => {
  const reader = new MetricReader(["last"]);
  for (let i = 0; i < 5000; i++) reader.push(utf8.encode(`METRIC m${i}=${i}\n`));
  reader.push(utf8.encode("METRIC last=1\nMETRIC m1=7\n"));
  const printed = reader.finish();
  assert.equal(printed.metrics.size, 1001);
  assert.equal(printed.metrics.get("last"), 1);
  assert.equal(printed.metrics.get("m1"), 7);
});

Deno.test("a metric that is lacking is named, with the lines that were not understood", () => {
  const printed = read("METRIC a: 0.5\nMETRIC b=1");
  assert.equal(missingMetrics(printed, ["b"]), null);
  assert.equal(
    missingMetrics(printed, ["a", "b", "c"]),
    'no METRIC line for "a", "c": print METRIC a=NUMBER on stdout; not understood: "METRIC a: 0.5"',
  );
});

Deno.test("of many malformed lines only the last few are told, shortened", () => {
  const text = Array.from({ length: 100 }, (_, i) => `METRIC bad${i}=${"x".repeat(1000)}`).join(
    "\n",
  );
  const { malformed } = read(text);
  assert.equal(malformed.length, 3);
  assert.ok(malformed.every((line) => line.length <= 121));
  assert.match(malformed[2] ?? "", /^METRIC bad99=/);
});

Deno.test("a metric that a report cannot name is told as malformed, and does not vanish", () => {
  const printed = read("METRIC a=1\nMETRIC __proto__=2\nMETRIC constructor=3\n");
  assert.deepEqual([...printed.metrics], [["a", 1], ["constructor", 3]]);
  assert.deepEqual(printed.malformed, ["METRIC __proto__=2"]);
});
