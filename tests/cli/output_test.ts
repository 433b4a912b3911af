/** @module Output is a table on a terminal, tab-separated in a pipe, and carries no control characters. */

import assert from "node:assert/strict";
import { Finished } from "../../lib/cli/finished.ts";
import { age, Output, plainCell, READER_LEFT, size } from "../../lib/cli/output.ts";

function fake(terminal: boolean) {
  const written: string[] = [];
  const stream = {
    writeSync(bytes: Uint8Array) {
      // A short write, as a pipe may do.
      const part = bytes.subarray(0, 7);
      written.push(new TextDecoder().decode(part));
      return part.length;
    },
    isTerminal: () => terminal,
  };
  return { streams: { stdout: stream, stderr: stream }, text: () => written.join("") };
}

Deno.test("Output.table() writes tab-separated rows and no header into a pipe", () => {
  const { streams, text } = fake(false);
  new Output({}, streams).table(["name", "state"], [["a", "open"], ["b\tc\n", "dead"]]);
  assert.equal(text(), "a\topen\nb c\tdead\n");
});

Deno.test("Output.table() aligns columns under a header on a terminal", () => {
  const { streams, text } = fake(true);
  new Output({}, streams).table(["name", "state"], [["longer-name", "open"]]);
  assert.equal(text(), "NAME         STATE\nlonger-name  open\n");
});

Deno.test("plainCell() removes escape sequences' controls", () => {
  assert.equal(plainCell("\x1b[31mred\x1b[0m\r\n"), "[31mred [0m");
});

Deno.test("Output.note() keeps lines and moves no cursor", () => {
  const written: string[] = [];
  const stderr = {
    writeSync(bytes: Uint8Array) {
      written.push(new TextDecoder().decode(bytes));
      return bytes.length;
    },
    isTerminal: () => true,
  };
  new Output({}, { stdout: stderr, stderr }).note("a\tb\nc\x1b]0;title\x07\r\x9b2Jd");
  assert.equal(written.join(""), "a\tb\nc ]0;title 2Jd\n");
});

Deno.test("age() floors and is never negative", () => {
  assert.deepEqual([age(-5), age(59_999), age(60_000), age(7_200_000), age(90_000_000)], [
    "0s",
    "59s",
    "1m",
    "2h",
    "1d",
  ]);
});

Deno.test("size() counts in decimal units", () => {
  assert.deepEqual([size(0), size(999), size(1500), size(2_000_000_000)], [
    "0 B",
    "999 B",
    "1.5 kB",
    "2.0 GB",
  ]);
});

Deno.test("Output ends the command quietly when nobody reads its data, and goes on when nobody reads its notes", () => {
  const closed = {
    writeSync(): number {
      throw new Deno.errors.BrokenPipe("closed");
    },
    isTerminal: () => false,
  };
  const output = new Output({}, { stdout: closed, stderr: closed });
  output.note("to nobody");
  const full = {
    ...closed,
    writeSync(): number {
      throw new Error("No space left on device");
    },
  };
  new Output({}, { stdout: closed, stderr: full }).note("to a full disk");
  assert.throws(
    () => output.line("data"),
    (error) => error instanceof Finished && error.exit === READER_LEFT,
  );
});
