/** @module Commands as processes of their own: what a shell sees of them when something is odd. */

import assert from "node:assert/strict";
import { selfCommand } from "../../lib/cli/self.ts";
import { READER_LEFT } from "../../lib/cli/output.ts";

interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Run `args` in the home `home`, with `env` more. */
async function sublet(home: string, args: string[], env: Record<string, string> = {}) {
  const [program = "", ...argv] = selfCommand(args);
  const { code, stdout, stderr } = await new Deno.Command(program, {
    args: argv,
    env: { SUBLET_HOME: home, ...env },
    stdin: "null",
  }).output();
  const text = new TextDecoder();
  return { code, stdout: text.decode(stdout), stderr: text.decode(stderr) } satisfies Run;
}

async function shell(home: string, script: string): Promise<Run> {
  const { code, stdout, stderr } = await new Deno.Command("/bin/sh", {
    args: ["-c", script, "sh", ...selfCommand([])],
    env: { SUBLET_HOME: home },
    stdin: "null",
  }).output();
  const text = new TextDecoder();
  return { code, stdout: text.decode(stdout), stderr: text.decode(stderr) };
}

Deno.test("a command whose reader leaves says nothing and is no fault", async () => {
  const home = await Deno.makeTempDir({ prefix: "sublet-test-" });
  try {
    // More than a pipe holds, so that the command still writes when its reader leaves.
    const bytes = new Uint8Array(1_000_000).map((_, i) => i * i);
    await Deno.writeFile(`${home}/big`, bytes);
    const cid = (await sublet(home, ["cas", "put", `${home}/big`])).stdout.trim();
    const { stderr } = await shell(
      home,
      `{ "$@" cas get ${cid}; echo "code $?" >&2; } | head -c 1 >/dev/null`,
    );
    assert.equal(stderr, `code ${READER_LEFT}\n`);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});

Deno.test({
  name: "cas get writes to a device, and does not take its place",
  ignore: Deno.build.os === "windows",
  async fn() {
    const home = await Deno.makeTempDir({ prefix: "sublet-test-" });
    try {
      await Deno.writeTextFile(`${home}/f`, "through the pipe");
      const cid = (await sublet(home, ["cas", "put", `${home}/f`])).stdout.trim();
      await new Deno.Command("mkfifo", { args: [`${home}/pipe`] }).output();
      const [got, put] = await Promise.all([
        // Not by this process: some versions of Deno wait for a writer on the thread that starts the other one.
        new Deno.Command("cat", { args: [`${home}/pipe`] }).output(),
        sublet(home, ["cas", "get", cid, `${home}/pipe`]),
      ]);
      assert.equal(put.code, 0, put.stderr);
      assert.equal(new TextDecoder().decode(got.stdout), "through the pipe");
      assert.equal((await Deno.lstat(`${home}/pipe`)).isFifo, true);
    } finally {
      await Deno.remove(home, { recursive: true });
    }
  },
});

Deno.test("a refusal of the operating system is told as one, and is no fault of the program", async () => {
  const home = await Deno.makeTempDir({ prefix: "sublet-test-" });
  try {
    // A directory where the file with the server's pid goes.
    await Deno.mkdir(`${home}/serve.pid`);
    const { code, stderr } = await sublet(home, ["serve"]);
    assert.equal(code, 1);
    assert.match(stderr, /serve\.pid/);
    assert.match(stderr, /check its path/);
    assert.doesNotMatch(stderr, /fault of sublet/);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});

Deno.test("serve --detach says why the server does not start, and ends with its code", async () => {
  const home = await Deno.makeTempDir({ prefix: "sublet-test-" });
  using busy = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  try {
    const listen = `127.0.0.1:${busy.addr.port}`;
    // The log of an earlier run, whose characters are fewer than its bytes.
    await Deno.writeTextFile(`${home}/serve.log`, "é".repeat(2000) + "\n");
    const { code, stderr } = await sublet(home, ["serve", "--detach", "--listen", listen]);
    assert.equal(code, 6, stderr);
    assert.match(stderr, new RegExp(`${listen}: it is in use`));
    assert.doesNotMatch(stderr, /é/);
    const checked = await sublet(home, ["serve", "--check", "--listen", listen]);
    assert.equal(checked.code, 6, checked.stderr);
    assert.match(checked.stderr, new RegExp(`${listen}: it is in use`));
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});

Deno.test("a server in the background says where it listens, and is no obstacle to its own restart", async () => {
  const home = await Deno.makeTempDir({ prefix: "sublet-test-" });
  try {
    const listen = ["--listen", "127.0.0.1:0"];
    const { code, stdout, stderr } = await sublet(home, ["serve", "--detach", ...listen]);
    assert.equal(code, 0, stderr);
    const url = /^server \d+ serving on (http:\/\/127\.0\.0\.1:\d+), log in /.exec(stdout)?.[1];
    assert.ok(url !== undefined, stdout);
    try {
      const own = await sublet(home, ["serve", "--check", "--listen", url.replace("http://", "")]);
      assert.equal(own.code, 0, own.stderr);
      const again = await sublet(home, ["restart"]);
      assert.match(again.stdout, new RegExp(`serving on ${url}, `), again.stderr);
    } finally {
      await sublet(home, ["stop"]);
    }
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});

Deno.test("a command that cannot reach SUBLET_SERVER says why", async () => {
  const home = await Deno.makeTempDir({ prefix: "sublet-test-" });
  const closed = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const url = `http://127.0.0.1:${closed.addr.port}`;
  closed.close();
  try {
    const env = { SUBLET_SERVER: url, SUBLET_TOKEN: "slt_x" };
    const { code, stderr } = await sublet(home, ["status"], env);
    assert.equal(code, 7, stderr);
    assert.match(stderr, /connection refused/);
    assert.ok(stderr.includes(url), stderr);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});
