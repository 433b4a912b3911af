/** @module The directory of a cache, taken over from a real piloop 0.3.1 and back. Skipped where there is none. */

import assert from "node:assert/strict";
import { cidOf } from "../../lib/cas/mod.ts";
import { damageObject } from "../cas/disk_kit.ts";
import { Cluster } from "./cluster.ts";
import { freePort, PILOOP, Piloop } from "./piloop_kit.ts";

const SKIPPED = PILOOP === null ? " (skipped: SUBLET_TEST_PILOOP names no piloop)" : "";

const text = (value: string) => new TextEncoder().encode(value);

Deno.test({
  name: "a piloop's cache directory is taken over, and given back" + SKIPPED,
  ignore: PILOOP === null,
  async fn() {
    await using cluster = await Cluster.make();
    const { programs, root } = cluster;
    await using peer = new Piloop(programs, PILOOP ?? "");
    const table = (days: string) =>
      `[plugins.cas]\nprovider = "cached"\n${days}[plugins.cas.remote]\nprovider = "disk"\n` +
      `path = "${root}/remote"\n[plugins.cas.local]\nprovider = "disk"\npath = "${root}/local"\n`;
    await programs.write("peer/config.toml", table(""));
    await programs.write("ours/config.toml", table(""));
    await programs.write("repo/evaluate.sh", "echo METRIC score=1\n");
    const run = async (program: string, ...args: string[]) => {
      const { success, stderr } = await new Deno.Command(program, { args, cwd: `${root}/repo` })
        .output();
      assert.ok(success, new TextDecoder().decode(stderr));
    };
    await programs.write("repo/brief.md", "Make the number larger.\n");
    await programs.write(
      "repo/piloop.toml",
      'name = "numbers"\nevaluate = ["sh", "evaluate.sh"]\nharnesses = ["fake"]\n' +
        '[[metrics]]\nname = "score"\ndirection = "higher"\nrole = "primary"\n[model]\nfake = "none"\n' +
        '[harness.fake]\nexecutable = "sh"\nheadless = ["-c", "true", "{prompt}"]\n[roles.watchdog]\ntriggers = []\n' +
        "[roles.research]\ntriggers = []\n[roles.scout]\ntriggers = []\n",
    );
    await run("git", "init", "-q", "-b", "main");
    await run("git", "add", "-A");
    await run("git", "-c", "user.name=t", "-c", "user.email=t@e", "commit", "-q", "-m", "one");
    await peer.run("peer", "init", `${root}/repo`);
    const token = /plt_[\w-]+/.exec(await peer.run("peer", "token", "create", "o1"))?.[0] ?? "";
    const port = freePort();
    const server = await peer.listen("peer", ["cas", "serve"], port);
    const dial = async (method: string, data: Uint8Array<ArrayBuffer>) =>
      await fetch(`http://127.0.0.1:${port}/v1/cas/${cidOf(data)}`, {
        method,
        headers: { authorization: `Bearer ${token}` },
        ...(method === "PUT" ? { body: data } : {}),
      });

    const theirs = text("put by piloop through its cache");
    assert.equal((await dial("PUT", theirs)).status, 201);
    assert.equal(await Deno.readTextFile(`${root}/local/remote.url`), `file://${root}/remote`);
    const get = async (data: Uint8Array<ArrayBuffer>) => {
      await programs.sublet("ours", ["cas", "get", cidOf(data), `${root}/got`]);
      assert.deepEqual(await Deno.readFile(`${root}/got`), data);
    };
    await get(theirs);

    // What piloop evicts is fetched, and a copy that is damaged is mended.
    await programs.write("peer/config.toml", table("local_max_gb = 0.0\n"));
    await peer.run("peer", "store", "evict");
    await get(theirs);
    await damageObject(`${root}/local`, cidOf(theirs), "flipped");
    await get(theirs);
    await programs.sublet("ours", ["cas", "check"]);

    // What we put, piloop finds: marked, on the remote, and after its eviction as well.
    await programs.write("blob", "put by us through our cache");
    await programs.sublet("ours", ["cas", "put", `${root}/blob`]);
    const ours = text("put by us through our cache");
    for (const again of [false, true]) {
      if (again) await peer.run("peer", "store", "evict");
      const got = await dial("GET", ours);
      assert.equal(got.status, 200);
      assert.deepEqual(await got.bytes(), ours);
    }
    // Its service keeps the contract of a store, as our client sees it.
    const url = `http://127.0.0.1:${port}`;
    const check = ["cas", "check", "--contract", "--url", url];
    const contract = await programs.finish("ours", check, { SUBLET_HTTPS_TOKEN: token });
    assert.equal(contract.code, 0, contract.stdout + contract.stderr);
    server.kill("SIGTERM");
    await server.ended();

    // The cache of another remote is refused.
    await programs.write("ours/config.toml", table("").replace("/remote", "/elsewhere"));
    const refused = await programs.finish("ours", ["cas", "status"]);
    assert.notEqual(refused.code, 0);
    assert.match(refused.stderr, /this is a cache of file:/);
  },
});
