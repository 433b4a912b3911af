import assert from "node:assert/strict";
import * as fc from "fast-check";
import { agentStart } from "../../lib/job/agent_shapes.ts";
import { agentTables } from "../../lib/job/agent_tables.ts";
import { harnessNamed } from "../../lib/job/harness.ts";
import { BUILT_IN } from "../../lib/job/harness_builtin.ts";
import { harnessTable } from "../../lib/job/harness_config.ts";
import { startOf } from "../../lib/job/harness_start.ts";
import { checkCampaign } from "../../lib/job/mod.ts";
import { sessionLines } from "../../lib/job/session_text.ts";
import { textOf } from "../../lib/web/session_lines.ts";
import { TOML } from "./campaign_kit.ts";

const VALUES = {
  model: "m",
  effort: "e",
  sessionId: "s",
  prompt: null,
  resumes: false,
  actor: "agent#1",
};

Deno.test("the built-in harnesses are tables like any other", () => {
  for (const [name, table] of Object.entries(BUILT_IN)) {
    assert.deepEqual(harnessTable.parse(table), table, name);
  }
});

Deno.test("every placeholder that the server knows is filled in, the worker's stay", () => {
  for (const name of ["claude", "codex", "pi"]) {
    const start = startOf(harnessNamed(name, []), VALUES);
    assert.deepEqual(agentStart.parse(start), start);
    const left = [...start.args, ...start.resume_args].flatMap((each) =>
      each.match(/\{[a-z_]+\}/g) ?? []
    );
    const allowed = ["{cwd}", "{log_dir}", "{mcp}", "{prompt}", "{session_id}"];
    assert.deepEqual(left.filter((each) => !allowed.includes(each)), [], name);
    assert.ok(!start.args.some((each) => /\{(prompt|session_id)\}/.test(each)), name);
  }
});

Deno.test("options without a value are left out with it", () => {
  const start = startOf(harnessNamed("codex", []), { ...VALUES, model: null, effort: null });
  assert.ok(!start.args.includes("--model"));
  assert.ok(!start.args.some((each) => each.includes("reasoning_effort")));
  const each = start.args.filter((arg) => arg === "-c").length;
  const values = start.args.filter((_, index) => start.args[index - 1] === "-c");
  assert.equal(values.length, each);
  assert.ok(values.every((value) => value.includes("=")), values.join(" "));
});

Deno.test("what a value holds is not filled in again", () => {
  const harness = harnessNamed("mine", [{
    mine: { executable: "x", headless: ["{model}", "{effort}", "{prompt}"] },
  }]);
  const start = startOf(harness, {
    ...VALUES,
    model: "{effort}",
    effort: "{prompt}",
    prompt: "{model}",
  });
  assert.deepEqual(start.args, ["{effort}", "{prompt}", "{model}"]);
});

Deno.test("a table changes the keys of a built-in harness that it holds, the campaign's last", () => {
  const harness = harnessNamed("claude", [
    { claude: { executable: "/opt/claude", env: { A: "home" } } },
    { claude: { env: { A: "campaign" } } },
  ]);
  assert.equal(harness.executable, "/opt/claude");
  assert.deepEqual(harness.env, { A: "campaign" });
  assert.deepEqual(harness.resume, BUILT_IN.claude?.resume);
});

Deno.test("every mistake of a harness's table names the key and the rule", () => {
  const wrong = (toml: string) => {
    const checked = checkCampaign(`${TOML}\n${toml}`, "sublet.toml");
    return "problems" in checked ? checked.problems.join("\n") : "";
  };
  for (
    const [toml, text] of [
      ['[harness.x]\nexecutible = "a"', /harness\.x\.executible.*did you mean 'executable'\?/],
      ['[harness.x]\nheadless = ["a"]', /harness\.x\.headless.*must hold \{prompt\} or \{brief\}/],
      ['[harness.x]\nresume = ["{prompt}"]', /must hold \{prompt\} and \{session_id\}/],
      ['[harness.x]\nsession_id_pattern = "abc"', /with a group/],
      ['[harness.x]\nsession_id_pattern = "a("', /with a group/],
      ['[harness.x]\nmcp = "vi"', /must be one of claude, codex, pi/],
      ['[harness.x]\nenv = { A = { secret = "a b" } }', /harness\.x\.env\.A/],
      ['[harness.x]\nenv = { "A B" = "x" }', /variable/],
      ['[harness.x]\nusage = { file = "f", tally = "vi" }', /must be one of claude, codex, pi/],
      ['[harness."a b"]\nexecutable = "a"', /a name is/],
      ['[mcp.x]\nurl = "https://x"\ncommand = ["y"]', /either a url/],
      ["[mcp.x]\nenv = ['A']", /either a url/],
      ['[mcp.x]\nurl = "ftp://x"', /http or https/],
      ['[mcp.x]\nkey = "value"', /mcp\.x\.key/],
      ["[roles.x]\ntimeout = -1", /roles\.x\.timeout = -1: must be greater than 0/],
    ] as const
  ) assert.match(wrong(toml), text, toml);
});

Deno.test("the tables of a home's config are judged like a campaign's", () => {
  const read = (harness: object, mcp: object = {}) =>
    agentTables({ harness, mcp }, "/home/config.toml");
  assert.deepEqual(read({ x: { executable: "a" } }).harness, { x: { executable: "a" } });
  assert.throws(() => read({ x: { executabel: "a" } }), /harness\.x\.executabel.*config\.toml/);
  assert.throws(
    () => read({ x: { executabel: "a" } }, { x: {} }),
    /harness\.x\.executabel.*\nmcp\.x.*either a url/,
  );
});

Deno.test("what does not fit together in a harness is refused by name", () => {
  const named = (table: object) => harnessNamed("x", [{ x: harnessTable.parse(table) }]);
  const usage = { file: "f", tally: "pi" };
  assert.throws(() => named({ headless: ["{prompt}"] }), /\[harness\.x\] lacks executable/);
  assert.throws(() => named({ executable: "a" }), /lacks headless/);
  assert.throws(
    () => named({ executable: "a", headless: ["{prompt}", "{mcp}"] }),
    /\{mcp\} needs mcp/,
  );
  assert.throws(
    () => named({ executable: "a", headless: ["{prompt}"], usage }),
    /usage needs the session's id/,
  );
});

Deno.test("sessions of each format show what the agent says and uses, and nothing else", () => {
  const lines = (format: string, ...records: unknown[]) =>
    records.flatMap((record) => sessionLines(format, JSON.stringify(record)));
  assert.deepEqual(
    lines(
      "claude",
      { type: "user", message: { content: "hello" } },
      { type: "assistant", message: { content: [{ type: "thinking", thinking: "hm" }] } },
      { type: "assistant", message: { content: [{ type: "text", text: "one\n\ntwo" }] } },
      {
        type: "assistant",
        message: { content: [{ type: "tool_use", name: "Read", input: { a: 1 } }] },
      },
    ),
    ["one", "two", '[Read] {"a":1}'],
  );
  assert.deepEqual(
    lines(
      "codex",
      { type: "session_meta", payload: { id: "x" } },
      {
        type: "response_item",
        payload: { type: "message", role: "user", content: [{ type: "input_text", text: "x" }] },
      },
      {
        type: "response_item",
        payload: {
          type: "message",
          role: "assistant",
          content: [{ type: "output_text", text: "done" }],
        },
      },
      {
        type: "response_item",
        payload: { type: "function_call", name: "shell", arguments: '{"command":["ls"]}' },
      },
    ),
    ["done", '[shell] {"command":["ls"]}'],
  );
  assert.deepEqual(
    lines(
      "pi",
      { type: "session", id: "x" },
      { type: "message", message: { role: "user", content: "x" } },
      {
        type: "message",
        message: {
          role: "assistant",
          content: [{ type: "text", text: "ok" }, {
            type: "toolCall",
            name: "bash",
            arguments: { command: "ls" },
          }],
        },
      },
    ),
    ["ok", '[bash] {"command":"ls"}'],
  );
});

Deno.test("no line of a session makes the reader fail", () => {
  fc.assert(fc.property(
    fc.constantFrom("claude", "codex", "pi", "other"),
    fc.oneof(fc.string(), fc.json()),
    (format, line) => {
      for (const each of sessionLines(format, line)) assert.equal(typeof each, "string");
    },
  ));
});

Deno.test("text of a session in pieces of any size is that of the whole", async () => {
  await fc.assert(fc.asyncProperty(
    fc.array(fc.string({ minLength: 1, maxLength: 20 }), { maxLength: 8 }),
    fc.integer({ min: 1, max: 60 }),
    async (texts, size) => {
      const whole = texts.map((text) =>
        JSON.stringify({ type: "assistant", message: { content: [{ type: "text", text }] } }) + "\n"
      ).join("");
      const bytes = new TextEncoder().encode(whole);
      const read = (from: number) => {
        const part = bytes.subarray(from, from + size);
        const over = from + part.length >= bytes.length;
        return Promise.resolve({ from, bytes: part, over });
      };
      let found = "";
      for (let at = 0, over = false; !over;) {
        const piece = await textOf(await read(at), "claude", read);
        assert.ok(piece.next > at || piece.over);
        found += piece.text;
        at = piece.next;
        over = piece.over;
      }
      const wanted = whole.split("\n").filter((line) => line !== "")
        .flatMap((line) => sessionLines("claude", line));
      assert.equal(found, wanted.map((line) => `${line}\n`).join(""));
    },
  ));
});
