/** @module Session files of harnesses: tokens, ids and folder names. */

import assert from "node:assert/strict";
import { exitCodeOf } from "../../lib/job/agent_exit.ts";
import { fill } from "../../lib/job/agent_argv.ts";
import { tomlValue } from "../../lib/job/agent_mcp_codex.ts";
import { folderOf, sessionIdIn, sessionPattern } from "../../lib/job/agent_session.ts";
import { TallyFeed, tallyOf, usageSince } from "../../lib/job/agent_usage.ts";

function counts(name: string, lines: readonly unknown[], cut = 7) {
  const tally = tallyOf(name);
  assert.ok(tally !== null);
  const feed = new TallyFeed(tally);
  const text = lines.map((line) => typeof line === "string" ? line : JSON.stringify(line)).join(
    "\n",
  );
  const bytes = new TextEncoder().encode(text + "\n");
  for (let at = 0; at < bytes.length; at += cut) feed.add(bytes.subarray(at, at + cut));
  return feed.counts;
}

const claude = (id: string, input: number) => ({
  type: "assistant",
  message: {
    id,
    content: [{ type: "text", text: "é" }],
    usage: {
      input_tokens: input,
      output_tokens: 2,
      cache_read_input_tokens: 3,
      cache_creation_input_tokens: 4,
    },
  },
});

Deno.test("Claude Code: each response counts once, however many lines it has", () => {
  const lines = [
    { type: "user", message: { usage: { input_tokens: 1e9 } } },
    claude("a", 1),
    claude("a", 1),
    "not JSON",
    "[]",
    claude("b", 10),
    { type: "assistant", message: { id: "c" } },
    '{"type":"assistant","message":{"id":"d","usage":{"input_tokens":5',
  ];
  for (const cut of [1, 7, 100_000]) {
    assert.deepEqual(counts("claude", lines, cut), {
      input: 11,
      output: 4,
      cache_read: 6,
      cache_write: 8,
      total: 29,
      turns: 2,
    });
  }
});

Deno.test("Codex: the last running total, without what the cache served", () => {
  const total = (input: number) => ({
    type: "event_msg",
    payload: {
      type: "token_count",
      info: {
        total_token_usage: {
          input_tokens: input,
          cached_input_tokens: 40,
          output_tokens: 7,
          total_tokens: input + 7,
        },
      },
    },
  });
  const limits = { type: "event_msg", payload: { type: "token_count", info: null } };
  assert.deepEqual(counts("codex", [limits, total(50), total(100), limits]), {
    input: 60,
    output: 7,
    cache_read: 40,
    cache_write: 0,
    total: 107,
    turns: 2,
  });
});

Deno.test("pi: every message of the assistant, and what is no count counts nothing", () => {
  const message = (usage: unknown, role = "assistant") => ({
    type: "message",
    message: { role, usage },
  });
  const lines = [
    message({ input: 1, output: 2, cacheRead: 3, cacheWrite: 4, totalTokens: 10 }),
    message({ input: "9", output: null, totalTokens: -5, cacheRead: 1e400 }),
    message({ input: 1e9 }, "user"),
  ];
  assert.deepEqual(counts("pi", lines), {
    input: 1,
    output: 2,
    cache_read: 3,
    cache_write: 4,
    total: 10,
    turns: 2,
  });
  assert.equal(counts("pi", [{ type: "session" }]), null);
  assert.equal(tallyOf("other"), null);
});

Deno.test("harnesses name folders after the checkout", () => {
  assert.equal(folderOf("dash_non_alnum", "/home/me/x.y_z/é"), "-home-me-x-y-z--");
  assert.equal(folderOf("dash_separators_wrapped", "/home/me/x.y"), "--home-me-x.y--");
  assert.equal(folderOf("none", "/x"), null);
});

Deno.test("a session's id is found in what an agent prints, and only what can be one", () => {
  const pattern = sessionPattern('"thread_id":"(?P<id>[^"]*)"');
  assert.ok(pattern !== null);
  assert.equal(sessionIdIn('x\n{"thread_id":"0199-ab"}\n', pattern), "0199-ab");
  assert.equal(sessionIdIn('{"thread_id":"../../etc"}', pattern), null);
  assert.equal(sessionIdIn('{"thread_id":""}', pattern), null);
  assert.equal(sessionPattern("("), null);
});

Deno.test("placeholders are filled in once", () => {
  const values = { cwd: "/c", log_dir: "/l", brief: "/l/brief.md", prompt: "{cwd} $& {prompt}" };
  assert.deepEqual(fill(["{prompt}", "a={cwd}{log_dir}", "{session_id}", "{other}"], values), [
    "{cwd} $& {prompt}",
    "a=/c/l",
    "{session_id}",
    "{other}",
  ]);
});

Deno.test("TOML values are one line, whatever a name holds", () => {
  assert.equal(tomlValue({ "a b": ['"', "\n\x7f"] }), '{"a b" = ["\\"", "\\n\\u007f"]}');
});

Deno.test("exit codes are told as Python does", () => {
  assert.equal(exitCodeOf({ code: 3, signal: null }, null), 3);
  assert.equal(exitCodeOf({ code: 137, signal: null }, null), -9);
  assert.equal(exitCodeOf({ code: null, signal: "SIGTERM" }, null), -15);
  assert.equal(exitCodeOf({ code: null, signal: null }, 1), 1);
  assert.equal(exitCodeOf({ code: null, signal: null }, null), null);
  assert.equal(exitCodeOf({ code: 255, signal: null }, null), 255);
});

Deno.test("what came after is what the session counts more, or all of one that began anew", () => {
  const usage = (total: number, turns: number) => ({
    input: total,
    output: 0,
    cache_read: 0,
    cache_write: 0,
    total,
    turns,
    source: "/s",
  });
  assert.equal(usageSince(null, usage(5, 1)), null);
  assert.deepEqual(usageSince(usage(5, 1), null), usage(5, 1));
  assert.deepEqual(usageSince(usage(9, 3), usage(5, 1)), usage(4, 2));
  assert.deepEqual(usageSince(usage(5, 1), usage(5, 1)), usage(0, 0));
  assert.deepEqual(usageSince(usage(9, 1), usage(5, 2)), usage(9, 1));
});
