/** @module What of a long session its transcript holds. */

import assert from "node:assert/strict";
import { SessionTranscript } from "../../lib/job/agent_transcript.ts";

const line = (text: string) =>
  JSON.stringify({
    type: "assistant",
    message: { content: [{ type: "text", text }] },
  });

Deno.test("a transcript holds what the agent said, and of a long one the newest 4 MiB", () => {
  const transcript = new SessionTranscript("claude");
  const said = () => transcript.text;
  assert.equal(said(), "");
  transcript.add("no JSON");
  transcript.add(JSON.stringify({ type: "user", message: { content: "asked" } }));
  transcript.add(line("first\nand more"));
  assert.equal(said(), "first\nand more\n");
  for (let n = 0; n < 100_000; n++) transcript.add(line(`é ${n}`.padEnd(99, ".")));
  const text = said();
  const size = new TextEncoder().encode(text).length;
  assert.ok(size <= 4 * 1024 * 1024 && size > 4 * 1024 * 1024 - 200, String(size));
  assert.ok(text.endsWith(`é 99999${".".repeat(99 - 7)}\n`));
});
