/** @module The door of an agent: what it runs goes to the server under its own lease, once, and it learns what came of it. */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { nullLog, SubletError } from "../../lib/home/mod.ts";
import { redaction } from "../../lib/secret/mod.ts";
import type { CommandResult } from "../../lib/lease/client.ts";
import { doorSockets } from "../../lib/lease/machine/door_sockets.ts";
import { SocketRelay } from "../../lib/lease/machine/relay.ts";
import { TempDir } from "../kit/mod.ts";

const MAIN = fileURLToPath(new URL("../../main.ts", import.meta.url));
const CONFIG = fileURLToPath(new URL("../../deno.json", import.meta.url));
const SELF = [Deno.execPath(), "run", "-A", "--no-check", "--config", CONFIG, MAIN];

type Cli = (lease: number, argv: readonly string[], stdin: string | null) => Promise<CommandResult>;

/** A door of lease 7 in a home of its own, behind which `cli` is the server. */
async function doorTo(cli: Cli, more: { hide?: (text: string) => string; home?: string } = {}) {
  const dir = await TempDir.make();
  const home = more.home ?? await Deno.realPath(dir.path);
  await Deno.mkdir(`${home}/place`, { recursive: true });
  const script = `${home}/messages`;
  await Deno.writeTextFile(script, '#!/bin/sh\necho "messages $*"\n', { mode: 0o700 });
  const sockets = doorSockets(home, "0123456789abcdef");
  const relay = new SocketRelay({ home, client: { cli }, sockets, self: SELF, log: nullLog });
  const directory = `${home}/place/door`;
  const door = await relay.open({
    lease: 7,
    agent: 1,
    directory,
    aliases: ["piloop"],
    messages: script,
    ...(more.hide === undefined ? {} : { hide: more.hide }),
  });
  return {
    directory,
    socket: sockets[0] ?? "",
    door,
    async run(argv: string[], stdin: string | null = null, name = "sublet") {
      const child = new Deno.Command(`${directory}/bin/${name}`, {
        args: argv,
        stdin: stdin === null ? "null" : "piped",
        stdout: "piped",
        stderr: "piped",
      }).spawn();
      if (stdin !== null) {
        const writer = child.stdin.getWriter();
        await writer.write(new TextEncoder().encode(stdin));
        await writer.close();
      }
      const { code, stdout, stderr } = await child.output();
      const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
      return { code, stdout: text(stdout), stderr: text(stderr) };
    },
    async [Symbol.asyncDispose]() {
      await door[Symbol.asyncDispose]();
      await dir[Symbol.asyncDispose]();
    },
  };
}

Deno.test("a command goes to the server with the door's lease, and its output and exit code come back", async () => {
  const calls: unknown[] = [];
  await using door = await doorTo((...call) => {
    calls.push(call.slice(0, 3));
    return Promise.resolve({ stdout: "out\n", stderr: "err\n", exit_code: 5 });
  });
  assert.equal(door.door.program, `${door.directory}/bin/sublet`);
  const answer = await door.run(["job", "show", "3", "--json", "--help", "it's"]);
  assert.deepEqual(answer, { code: 5, stdout: "out\n", stderr: "err\n" });
  await door.run(["note", "-"], "from stdin", "piloop");
  await door.run(["note", "x"], "not asked for");
  assert.deepEqual(calls, [
    [7, ["job", "show", "3", "--json", "--help", "it's"], null],
    [7, ["note", "-"], "from stdin"],
    [7, ["note", "x"], null],
  ]);
});

Deno.test("messages are handed out on the spot", async () => {
  await using door = await doorTo(() => Promise.reject(new Error("not asked")));
  const answer = await door.run(["agent", "messages", "--format", "lines"]);
  assert.deepEqual(answer, { code: 0, stdout: "messages --format lines\n", stderr: "" });
});

Deno.test("a command that did not run and one that may have run are told apart, and neither is sent again", async () => {
  const refused = Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
  const failures: [SubletError, RegExp][] = [
    [new SubletError("unreachable", "no server", { cause: refused }), /did not run/],
    [new SubletError("unreachable", "cut", { cause: new Error("reset") }), /may have run/],
    [new SubletError("unavailable", "strange"), /may have run/],
    [new SubletError("stale_lease", "lease 7 is over"), /lease is over.*did not run/],
    [new SubletError("invalid_body", "too many words"), /refused.*too many words/],
  ];
  for (const [error, expected] of failures) {
    let asked = 0;
    await using door = await doorTo(() => {
      asked++;
      return Promise.reject(error);
    });
    const answer = await door.run(["eval", "HEAD"]);
    assert.equal(answer.code, 1);
    assert.match(answer.stderr, expected);
    assert.equal(asked, 1);
  }
});

Deno.test("secrets do not go through the door", async () => {
  const calls: unknown[] = [];
  const hide = (text: string) => redaction.text(["hunter22"], text);
  await using door = await doorTo((...call) => {
    calls.push(call.slice(1, 3));
    return Promise.resolve({ stdout: "", stderr: "", exit_code: 0 });
  }, { hide });
  await door.run(["note", "it is hunter22", "-"], "aHVudGVyMjI=");
  assert.deepEqual(calls, [[["note", "it is [secret]", "-"], "[secret]="]]);
});

Deno.test("a door that is closed is gone: its commands say that they did not run", async () => {
  const door = await doorTo(() => Promise.resolve({ stdout: "", stderr: "", exit_code: 0 }));
  const program = await Deno.readTextFile(`${door.directory}/bin/sublet`);
  await door.door[Symbol.asyncDispose]();
  await assert.rejects(Deno.lstat(door.directory), Deno.errors.NotFound);
  const left = await TempDir.make();
  await using _left = left;
  await Deno.writeTextFile(left.join("sublet"), program, { mode: 0o700 });
  const { code, stderr } = await new Deno.Command(left.join("sublet"), { args: ["status"] })
    .output();
  assert.equal(code, 7);
  assert.match(new TextDecoder().decode(stderr), /did not run/);
});

Deno.test("what is no command is refused at the door", async () => {
  await using door = await doorTo(() => Promise.reject(new Error("not asked")));
  const ask = async (method: string, path: string, body: string) => {
    using connection = await Deno.connect({ transport: "unix", path: door.socket });
    const text = `${method} ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n` +
      `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    const bytes = new TextEncoder().encode(text);
    // The answer may come before all is sent.
    const sent = (async () => {
      for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
    })().catch(() => {});
    const head = new Uint8Array(64);
    const count = await connection.read(head) ?? 0;
    connection.closeWrite().catch(() => {});
    await sent;
    return Number(new TextDecoder().decode(head.subarray(9, Math.min(12, count))));
  };
  assert.equal(await ask("GET", "/v1/cli", ""), 404);
  assert.equal(await ask("POST", "/v1/other", "{}"), 404);
  assert.equal(await ask("POST", "/v1/cli", "{"), 400);
  assert.equal(await ask("POST", "/v1/cli", '{"argv": "status"}'), 422);
  assert.equal(await ask("POST", "/v1/cli", JSON.stringify({ argv: ["x".repeat(2 ** 20)] })), 413);
});

Deno.test("the socket is the owner's alone, and a home too deep for one has a program that says so", async () => {
  const cli = () => Promise.reject(new Error("not asked"));
  await using door = await doorTo(cli);
  assert.equal(((await Deno.stat(door.socket)).mode ?? 0) & 0o777, 0o600);
  await using dir = await TempDir.make();
  const home = `${await Deno.realPath(dir.path)}/${"deep/".repeat(20)}home`;
  await using deep = await doorTo(cli, { home });
  const answer = await deep.run(["status"]);
  assert.equal(answer.code, 8);
  assert.match(answer.stderr, /no command goes through/);
  assert.equal((await deep.run(["agent", "messages"])).code, 0);
});
