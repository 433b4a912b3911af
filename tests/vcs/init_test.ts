import assert from "node:assert/strict";
import { isError } from "../../lib/home/mod.ts";
import type { Part } from "../../lib/vcs/mod.ts";
import { Bench, failure, git, Work } from "./kit.ts";

const options = { summary: "Begin", owned: ["sublet.toml"], ignore: [".sublet/", "*.log"] };

Deno.test("a plain directory becomes a repository of all its files, but for what it ignores", async () => {
  await using bench = await Bench.make();
  const path = bench.dir.join("plain");
  await Deno.mkdir(`${path}/sub`, { recursive: true });
  for (const name of ["sublet.toml", "sub/x", "run.log", "own.tmp"]) {
    await Deno.writeTextFile(`${path}/${name}`, name);
  }
  await Deno.writeTextFile(`${path}/.gitignore`, "*.tmp");
  const saved = await bench.vcs.init(path, options);
  assert.deepEqual(saved, [".gitignore", "sub/x", "sublet.toml"]);
  assert.equal(await Deno.readTextFile(`${path}/.gitignore`), "*.tmp\n.sublet/\n*.log\n");
  assert.equal(await git(path, "log", "--format=%an %s"), "sublet Begin");
  assert.equal(await git(path, "symbolic-ref", "HEAD"), "refs/heads/main");
  assert.equal(await git(path, "status", "--porcelain"), "");
  const head = await git(path, "rev-parse", "HEAD");
  assert.deepEqual(await bench.vcs.init(path, options), []);
  assert.equal(await git(path, "rev-parse", "HEAD"), head);
});

Deno.test("an empty directory becomes a repository with one empty version", async () => {
  await using bench = await Bench.make();
  const path = bench.dir.join("empty");
  await Deno.mkdir(path);
  assert.deepEqual(await bench.vcs.init(path, { summary: "Begin", owned: [], ignore: [] }), []);
  assert.equal((await (await bench.vcs.open(path)).head()).subject, "Begin");
});

Deno.test("of a repository its own files alone are saved, and what a person staged stays staged", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  await work.commit({ ".gitignore": "sublet.toml\n" });
  for (const name of ["sublet.toml", "staged", "untracked"]) {
    await Deno.writeTextFile(`${work.path}/${name}`, name);
  }
  await Deno.writeTextFile(`${work.path}/a.txt`, "changed\n");
  await work.git("add", "staged");
  await Deno.writeTextFile(`${work.path}/.git/hooks/pre-commit`, "#!/bin/sh\nexit 1\n");
  await Deno.chmod(`${work.path}/.git/hooks/pre-commit`, 0o755);
  assert.deepEqual(await bench.vcs.init(`${work.path}`, options), [".gitignore", "sublet.toml"]);
  assert.equal(await work.git("status", "--porcelain"), "M a.txt\nA  staged\n?? untracked");
  assert.equal((await record.head()).subject, "Begin");
  assert.deepEqual(await bench.vcs.init(work.path, options), []);
  const error = await failure(bench.vcs.init(work.path, { ...options, owned: ["../x"] }));
  assert.ok(isError(error, "unsafe_path"));
});

Deno.test("a clone is a repository at its path, there in full or not at all", async () => {
  await using bench = await Bench.make();
  const { work, record } = await bench.record();
  const path = bench.dir.join("deep/er/clone");
  const clone = await bench.vcs.clone(work.path, path);
  assert.deepEqual(await clone.head(), await record.head());
  assert.equal(await git(path, "remote", "get-url", "origin"), work.path);
  assert.equal(await git(path, "status", "--porcelain"), "");
  assert.ok(isError(await failure(bench.vcs.clone(work.path, path)), "conflict"));
  const other = bench.dir.join("deep/er/none");
  const error = await failure(bench.vcs.clone(bench.dir.join("nowhere"), other));
  assert.ok(isError(error, "failed"), String(error));
  assert.match(error.message, /nowhere/);
  assert.deepEqual(
    (await Array.fromAsync(Deno.readDir(bench.dir.join("deep/er")))).map(({ name }) => name),
    ["clone"],
  );
  const wide = await Work.make(bench.dir.join("wide"), "sha256");
  const revision = await wide.commit({ "x": "x" });
  const copy = await bench.vcs.clone(wide.path, bench.dir.join("copy"));
  assert.equal((await copy.head()).revision, revision);
});

Deno.test("an address that would run a program, or is an option, is refused before git sees it", async () => {
  await using bench = await Bench.make();
  const path = bench.dir.join("clone");
  for (
    const url of [
      "ext::sh -c touch% /tmp/x",
      "ext::x",
      "--upload-pack=x",
      "-u",
      "file:///etc",
      "ftp://host/x",
      "relative/path",
      "ssh://-oProxyCommand=x/y",
      "-x@host:y",
      "a@-host:y",
      "https://host/a\nb",
      "https://user:password@host/x",
      "",
    ]
  ) {
    const commands = await bench.commands(async () => {
      const error = await failure(bench.vcs.clone(url, path));
      assert.ok(isError(error, "invalid_request"), `${url}: ${error}`);
      assert.doesNotMatch(error.message, /password@/);
    });
    assert.deepEqual(commands, [], url);
  }
  const six = await failure(bench.vcs.clone("http://[::1]:9/x", path));
  assert.ok(isError(six, "failed"), "an address of IPv6 names no helper");
  const ssh = await failure(bench.vcs.clone("git@host.invalid:x", path, "token"));
  assert.ok(isError(ssh, "invalid_request"));
});

Deno.test("a credential reaches its own host alone, and stands in no argument, variable or setting", async () => {
  await using bench = await Bench.make();
  const { work } = await bench.record();
  await work.git("update-server-info");
  const asked: { path: string; authorization: string | null }[] = [];
  await using server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen: () => {} },
    async (request) => {
      const { pathname } = new URL(request.url);
      const authorization = request.headers.get("authorization");
      asked.push({ path: pathname, authorization });
      if (authorization === null) {
        return new Response("who?", {
          status: 401,
          headers: { "www-authenticate": 'Basic realm="x"' },
        });
      }
      const file = await Deno.readFile(`${work.path}/.git${pathname.replace("/repo", "")}`).catch(
        () => null,
      );
      return file === null ? new Response("none", { status: 404 }) : new Response(file);
    },
  );
  const url = `http://127.0.0.1:${server.addr.port}/repo`;
  const path = bench.dir.join("clone");
  const clone = await bench.vcs.clone(url, path, "ada:s3cr@t/:é");
  assert.equal((await clone.head()).subject, "First");
  const expected = `Basic ${
    btoa(String.fromCharCode(...new TextEncoder().encode("ada:s3cr@t/:é")))
  }`;
  assert.ok(asked.some(({ authorization }) => authorization === expected), JSON.stringify(asked));
  const told = JSON.stringify(bench.calls.map(({ argv, env }) => [argv, env]));
  assert.doesNotMatch(told, /s3cr/);
  assert.doesNotMatch(await Deno.readTextFile(`${path}/.git/config`), /s3cr/);
  const left = await Array.fromAsync(Deno.readDir(bench.dir.path));
  assert.deepEqual(left.map(({ name }) => name).sort(), ["clone", "record"]);
  const wrong = await failure(bench.vcs.clone(url, bench.dir.join("again")));
  assert.match(
    wrong.message,
    /could not read Username|Authentication failed|terminal prompts disabled/,
  );
});

Deno.test("every passage for agents has words, in one paragraph", async () => {
  await using bench = await Bench.make();
  const parts: Part[] = [
    "repo",
    "checkout",
    "save",
    "versions",
    "skip",
    "earlier",
    "old_files",
    "show",
    "read",
    "port",
    "code",
  ];
  for (const part of parts) {
    const text = bench.vcs.prompt(part);
    assert.ok(text.trim().length > 2 && !text.includes("\n"), part);
  }
});
