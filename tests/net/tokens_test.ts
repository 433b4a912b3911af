import assert from "node:assert/strict";
import { type Clock, isError, systemClock } from "../../lib/home/mod.ts";
import { type Access, type TokenOptions, Tokens } from "../../lib/net/mod.ts";
import { openSqlite } from "../../lib/store/mod.ts";
import { TempDir } from "../kit/mod.ts";

const TCP = { unix: false };
const UNIX = { unix: true };

/** A clock that goes only when it is told to. */
function stoppedClock(): Clock & { time: number } {
  return {
    ...systemClock,
    time: 1_000_000,
    now() {
      return this.time;
    },
    monotonic() {
      return this.time;
    },
  };
}

async function setUp() {
  const dir = await TempDir.make();
  const db = await openSqlite(dir.join("a.db"));
  const clock = stoppedClock();
  return {
    db,
    clock,
    tokens: new Tokens(db, clock),
    /** The tokens as another process sees them. */
    async elsewhere(): Promise<{ tokens: Tokens } & AsyncDisposable> {
      const other = await openSqlite(dir.join("a.db"));
      return {
        tokens: new Tokens(other, clock),
        [Symbol.asyncDispose]: () => other[Symbol.asyncDispose](),
      };
    },
    async [Symbol.asyncDispose]() {
      await db[Symbol.asyncDispose]();
      await dir[Symbol.asyncDispose]();
    },
  };
}

Deno.test("a token is 32 random bytes, verifies as its caller, and only its hash is kept", async () => {
  await using t = await setUp();
  const secret = await t.tokens.create("gpu-1", { access: "worker", pool: "gpu" });
  assert.match(secret, /^slt_[A-Za-z0-9_-]{43}$/);
  assert.deepEqual(await t.tokens.verify(secret, TCP), {
    name: "gpu-1",
    access: "worker",
    pool: "gpu",
  });
  assert.notEqual(secret, await t.tokens.create("gpu-2", { access: "worker" }));
  const rows = await t.db.read((tx) => tx.all("SELECT * FROM tokens"));
  assert.ok(!JSON.stringify(rows).includes(secret.slice(4)));
});

Deno.test("tokens are listed by name without their secrets", async () => {
  await using t = await setUp();
  await t.tokens.create("b", { access: "read", expiresAt: 2_000_000 });
  await t.tokens.create("a", { access: "worker", pool: "p" });
  assert.deepEqual(await t.tokens.list(), [
    { name: "a", access: "worker", pool: "p", createdAt: 1_000_000, expiresAt: null },
    { name: "b", access: "read", pool: null, createdAt: 1_000_000, expiresAt: 2_000_000 },
  ]);
});

Deno.test("an unknown secret is nobody's", async () => {
  await using t = await setUp();
  const secret = await t.tokens.create("a", { access: "read" });
  for (const other of ["", "slt_", secret.slice(0, -1), secret + "x", "Bearer", "naïve"]) {
    assert.equal(await t.tokens.verify(other, TCP), null, other);
  }
});

Deno.test("a revoked token is refused at once, and its name is free", async () => {
  await using t = await setUp();
  const secret = await t.tokens.create("a", { access: "read" });
  assert.ok(await t.tokens.verify(secret, TCP));
  await t.tokens.revoke("a");
  assert.equal(await t.tokens.verify(secret, TCP), null);
  const again = await t.tokens.create("a", { access: "act" });
  assert.equal((await t.tokens.verify(again, TCP))?.access, "act");
  assert.equal(await t.tokens.verify(secret, TCP), null);
  await assert.rejects(t.tokens.revoke("b"), (error) => isError(error, "not_found"));
});

Deno.test("a token ends at its time, also in a cache that knows it", async () => {
  await using t = await setUp();
  const secret = await t.tokens.create("a", { access: "read", expiresAt: 1_000_100 });
  assert.ok(await t.tokens.verify(secret, TCP));
  t.clock.time = 1_000_099;
  assert.ok(await t.tokens.verify(secret, TCP));
  t.clock.time = 1_000_100;
  assert.equal(await t.tokens.verify(secret, TCP), null);
});

Deno.test("a name that is taken is `conflict`, and the error names the command that frees it", async () => {
  await using t = await setUp();
  const secret = await t.tokens.create("a", { access: "read" });
  await assert.rejects(
    t.tokens.create("a", { access: "admin" }),
    (error) => isError(error, "conflict") && error.message.includes("sublet token revoke a"),
  );
  assert.equal((await t.tokens.verify(secret, TCP))?.access, "read");
});

const REFUSED: readonly (readonly [name: string, options: TokenOptions])[] = [
  ["", { access: "read" }],
  ["a b", { access: "read" }],
  ["a/b", { access: "read" }],
  ["..", { access: "read" }],
  ["a".repeat(65), { access: "read" }],
  ["naïve", { access: "read" }],
  ["serve", { access: "worker" }],
  ["owner", { access: "admin" }],
  ["a", { access: "root" as Access }],
  ["a", { access: "read", pool: "p" }],
  ["a", { access: "worker", pool: "../p" }],
  ["a", { access: "worker", expiresAt: 1_000_000 }],
  ["a", { access: "worker", expiresAt: NaN }],
];

for (const [name, options] of REFUSED) {
  Deno.test(`no token ${JSON.stringify(name).slice(0, 20)} with ${JSON.stringify(options)} is made`, async () => {
    await using t = await setUp();
    await assert.rejects(
      t.tokens.create(name, options),
      (error) => isError(error, "invalid_request"),
    );
    assert.deepEqual(await t.tokens.list(), []);
  });
}

Deno.test("a token that another process made is known at once", async () => {
  await using t = await setUp();
  await using other = await t.elsewhere();
  assert.equal(await t.tokens.verify("slt_x", TCP), null);
  const secret = await other.tokens.create("a", { access: "read" });
  assert.ok(await t.tokens.verify(secret, TCP));
});

Deno.test("a token that another process revoked is refused 50 ms later", async () => {
  await using t = await setUp();
  await using other = await t.elsewhere();
  const secret = await t.tokens.create("a", { access: "read" });
  assert.ok(await t.tokens.verify(secret, TCP));
  await other.tokens.revoke("a");
  t.clock.time += 50;
  assert.equal(await t.tokens.verify(secret, TCP), null);
});

Deno.test("what is known at once is what was verified before, and nothing once it has changed", async () => {
  await using t = await setUp();
  const secret = await t.tokens.create("one", { access: "worker", expiresAt: 1_000_500 });
  assert.equal(t.tokens.known(secret, TCP), null);
  assert.equal((await t.tokens.verify(secret, TCP))?.name, "one");
  assert.equal(t.tokens.known(secret, TCP)?.name, "one");
  assert.equal(t.tokens.known(secret.toLowerCase(), TCP), null);
  await using other = await t.elsewhere();
  await other.tokens.revoke("one");
  t.clock.time += 50;
  // Asked again and again, it goes on knowing nothing, and leaves the look to whoever verifies.
  for (let i = 0; i < 3; i++) assert.equal(t.tokens.known(secret, TCP), null);
  assert.equal(await t.tokens.verify(secret, TCP), null);
  const short = await t.tokens.create("two", { access: "worker", expiresAt: t.clock.time + 10 });
  assert.equal((await t.tokens.verify(short, TCP))?.name, "two");
  assert.equal(t.tokens.known(short, TCP)?.name, "two");
  t.clock.time += 10;
  assert.equal(t.tokens.known(short, TCP), null);
  const inside = t.tokens.grantInternal("serve", "worker");
  await t.tokens.verify(inside, UNIX);
  assert.deepEqual([t.tokens.known(inside, UNIX)?.name, t.tokens.known(inside, TCP)], [
    "serve",
    null,
  ]);
});

Deno.test("verifying known tokens reads nothing from the database", async () => {
  await using t = await setUp();
  const secret = await t.tokens.create("a", { access: "read" });
  let reads = 0;
  const counted = new Tokens({
    write: (body) => t.db.write(body),
    read: (body) => {
      reads++;
      return t.db.read(body);
    },
    dataVersion: () => t.db.dataVersion(),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }, t.clock);
  await Promise.all(Array.from({ length: 20 }, () => counted.verify(secret, TCP)));
  for (let i = 0; i < 100; i++) {
    t.clock.time += 60;
    assert.ok(await counted.verify(secret, TCP));
  }
  assert.equal(reads, 1);
});

Deno.test("the server's own worker has a secret of this process, on the Unix socket only", async () => {
  await using t = await setUp();
  const secret = t.tokens.grantInternal("serve", "worker");
  assert.deepEqual(await t.tokens.verify(secret, UNIX), {
    name: "serve",
    access: "worker",
    pool: null,
  });
  assert.equal(await t.tokens.verify(secret, TCP), null);
  assert.deepEqual(await t.tokens.list(), []);
  assert.equal(await new Tokens(t.db, t.clock).verify(secret, UNIX), null);
});

Deno.test("a change that comes while the tokens are being read is not missed", async () => {
  await using t = await setUp();
  const verified = t.tokens.verify("slt_x", TCP);
  const secret = await t.tokens.create("a", { access: "read" });
  await verified;
  assert.ok(await t.tokens.verify(secret, TCP));
  const [, known] = await Promise.all([t.tokens.revoke("a"), t.tokens.verify(secret, TCP)]);
  assert.ok(known === null || known.name === "a");
  assert.equal(await t.tokens.verify(secret, TCP), null);
});
