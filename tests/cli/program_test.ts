/** @module The command table, its documentation and its exit codes agree. */

import assert from "node:assert/strict";
import { type Command, Help } from "commander";
import { main, program } from "../../lib/cli/program.ts";
import * as version from "../../lib/cli/version.ts";
import { PROTOCOL } from "../../lib/lease/mod.ts";
import { EXIT } from "../../lib/home/mod.ts";
import { agent, agentPrompt, prompted } from "../../lib/web/agent_schemas.ts";
import { jobDetails } from "../../lib/web/job_schemas.ts";
import { evaluation } from "../../lib/web/schemas.ts";

const root = new URL("../../", import.meta.url);

interface Node {
  readonly name: () => string;
  readonly description: () => string;
  readonly commands: readonly Node[];
  readonly options: readonly {
    readonly long?: string | null | undefined;
    readonly description: string;
  }[];
}

/** The commands below `node` that help lists. */
function shown(node: Node): readonly Node[] {
  const visible: readonly unknown[] = new Help().visibleCommands(node as unknown as Command);
  return node.commands.filter((command) => visible.includes(command));
}

/** Every command for people that can be run, as `job list`. */
function leaves(node: Node, prefix = ""): { name: string; node: Node }[] {
  return shown(node).flatMap((command) => {
    const name = `${prefix}${command.name()}`;
    const below = leaves(command, `${name} `);
    return below.length === 0
      ? [{ name, node: command }]
      : [...below, ...(name === "worker" ? [{ name, node: command }] : [])];
  });
}

Deno.test("docs/commands.md names every command", async () => {
  const docs = await Deno.readTextFile(new URL("docs/commands.md", root));
  for (const { name } of leaves(program() as unknown as Node)) {
    const [first = "", second] = name.split(" ");
    const row = docs.split("\n").filter((line) => line.includes(`sublet ${first}`));
    assert.ok(row.length > 0, `docs/commands.md does not name sublet ${name}`);
    if (second !== undefined) {
      assert.ok(
        row.some((line) => line.includes(second)),
        `docs/commands.md does not name sublet ${name}`,
      );
    }
  }
});

/** Every command with an option of its own named `--json`. */
function withJson(node: Node, prefix = ""): string[] {
  return shown(node).flatMap((command) => {
    const name = `${prefix}${command.name()}`;
    const own = command.options.some(({ long }) => long === "--json") ? [name] : [];
    return [...own, ...withJson(command, `${name} `)];
  });
}

Deno.test("docs/commands.md says what each command prints with --json, in keys that there are", async () => {
  const docs = await Deno.readTextFile(new URL("docs/commands.md", root));
  const [, table = ""] = docs.split(/^\| with `--json` .*$/m);
  const rows = new Map(
    [...table.matchAll(/^\| `([a-z ]+)` +\| (.*?) +\|$/gm)].map((
      [, name = "", text = ""],
    ) => [name, text]),
  );
  assert.deepEqual([...rows.keys()].sort(), withJson(program() as unknown as Node).sort());
  const keys: Record<string, object> = {
    eval: evaluation.shape,
    agent: agent.shape,
    prompt: { ...prompted.shape, ...agentPrompt.shape },
    "job list": jobDetails.shape,
    "job show": jobDetails.shape,
  };
  for (const [name, shape] of Object.entries(keys)) {
    const [text = ""] = (rows.get(name) ?? "").split(/: another|States|, as of `job list`/);
    for (const [, key = ""] of text.matchAll(/`([a-z_]+)`/g)) {
      assert.ok(key in shape, `${name}: ${key}`);
    }
  }
});

Deno.test("every command and option has a description", () => {
  for (const { name, node } of leaves(program() as unknown as Node)) {
    assert.notEqual(node.description(), "", name);
    for (const option of node.options) {
      assert.notEqual(option.description, "", `${name} ${option.long}`);
    }
  }
});

Deno.test("the version is the one of deno.json, and the protocol that of the leases", async () => {
  const config = JSON.parse(await Deno.readTextFile(new URL("deno.json", root)));
  assert.equal(version.VERSION, config.version);
  assert.equal(version.PROTOCOL, PROTOCOL);
});

Deno.test("docs/commands.md lists every exit code", async () => {
  const docs = await Deno.readTextFile(new URL("docs/commands.md", root));
  for (const code of Object.values(EXIT)) assert.match(docs, new RegExp(`^\\| ${code} `, "m"));
});

Deno.test("wrong usage exits with 2", async () => {
  assert.equal(await main(["eval", "--repeats", "zero"]), EXIT.usage);
  assert.equal(await main(["no-such-command"]), EXIT.usage);
  assert.equal(await main(["worker", "--server", "http://127.0.0.1:1"]), EXIT.usage);
});

Deno.test("no command at all is wrong usage; --version is none", async () => {
  assert.equal(await main([]), EXIT.usage);
  assert.equal(await main(["--version"]), EXIT.ok);
});

Deno.test("--help exits with 0", async () => {
  assert.equal(await main(["--help"]), EXIT.ok);
  assert.equal(await main(["job", "list", "--help"]), EXIT.ok);
});
