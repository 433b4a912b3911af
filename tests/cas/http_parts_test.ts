/** @module Tests of how our client sends large blobs: in parts, and after a break only the rest. */

import assert from "node:assert/strict";
import { casService, checkCas, cidOf, openDisk, openHttpCas, Uploads } from "../../lib/cas/mod.ts";
import { systemClock } from "../../lib/home/mod.ts";
import { endHashPool } from "../../lib/cas/hash_pool.ts";
import { openHttpClient, serveHttp } from "../../lib/net/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { leftovers } from "./disk_kit.ts";

const noise = (length: number) => {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) {
    crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  }
  return bytes;
};

const HASTY = {
  ...systemClock,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 20, signal),
};

/** What passes connections on to a server, counts what is sent, and cuts them all when it is told to. */
class Relay implements AsyncDisposable {
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #open = new Set<Deno.Conn>();
  /** Where connections are passed on to; null: they are closed. */
  target: number | null;
  /** Bytes sent to the server. */
  sent = 0;
  /** Called as bytes pass. */
  onSent: () => void = () => {};

  constructor(target: number) {
    this.target = target;
    void this.#accept();
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#listener.addr as Deno.NetAddr).port}`;
  }

  async #accept(): Promise<void> {
    for await (const client of this.#listener) {
      if (this.target === null) {
        client.close();
        continue;
      }
      const server = await Deno.connect({ hostname: "127.0.0.1", port: this.target });
      this.#open.add(client).add(server);
      void this.#pass(client, server, true);
      void this.#pass(server, client, false);
    }
  }

  async #pass(from: Deno.Conn, to: Deno.Conn, up: boolean): Promise<void> {
    const buffer = new Uint8Array(65_536);
    try {
      for (let count = await from.read(buffer); count !== null; count = await from.read(buffer)) {
        for (let at = 0; at < count;) at += await to.write(buffer.subarray(at, count));
        if (!up) continue;
        this.sent += count;
        this.onSent();
      }
    } catch {
      // One of the two was cut.
    }
    for (const end of [from, to]) this.#close(end);
  }

  #close(connection: Deno.Conn): void {
    if (!this.#open.delete(connection)) return;
    try {
      connection.close();
    } catch {
      // It was cut before.
    }
  }

  cut(): void {
    for (const connection of this.#open) this.#close(connection);
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    this.cut();
    return Promise.resolve();
  }
}

interface Options {
  readonly root: string;
  readonly parts?: boolean;
  readonly asked?: string[];
}

async function serve({ root, parts = true, asked = [] }: Options) {
  const store = await openDisk({ path: root });
  const uploads = await Uploads.open(store, { directory: `${root}/none` });
  const service = casService(store, parts ? { uploads } : {});
  const server = await serveHttp({
    fetch: (request, peer) => {
      asked.push(`${request.method} ${new URL(request.url).pathname.split("/")[3]}`);
      return service.fetch(request, peer);
    },
    listen: { host: "127.0.0.1", port: 0 },
  });
  return {
    store,
    port: server.addr?.port ?? 0,
    async [Symbol.asyncDispose]() {
      await server.shutdown(0);
      await store[Symbol.asyncDispose]();
      await endHashPool();
    },
  };
}

function connect(url: string, tmp: string) {
  return openHttpCas(openHttpClient({ server: url }), { tmp, ownsClient: true, clock: HASTY });
}

Deno.test("a large blob is sent in parts, from memory, a stream or a file", async () => {
  await using scratch = await TempDir.make();
  const asked: string[] = [];
  await using served = await serve({ root: scratch.join("store"), asked });
  await using cas = connect(`http://127.0.0.1:${served.port}`, scratch.path);
  for (const way of ["put", "putStream", "putFile"] as const) {
    const data = noise(40_000_000 + way.length);
    const cid = cidOf(data);
    await Deno.writeFile(scratch.join("file"), data);
    asked.length = 0;
    if (way === "put") assert.equal(await cas.put(data), cid);
    else if (way === "putStream") assert.equal(await cas.putStream(new Blob([data]).stream()), cid);
    else assert.equal(await cas.putFile(scratch.join("file")), cid);
    assert.deepEqual(asked, [`HEAD ${cid}`, "POST uploads", ...Array(3).fill("PATCH uploads")]);
    assert.equal(cidOf(await served.store.get(cid) ?? noise(1)), cid);
    assert.equal(await cas.put(data), cid);
    assert.equal(asked.length, 6);
  }
  assert.deepEqual(await leftovers(scratch.join("store")), []);
});

Deno.test("a connection that is lost at 90 % costs what was under way, and not the whole", async () => {
  await using scratch = await TempDir.make();
  await using served = await serve({ root: scratch.join("store") });
  await using relay = new Relay(served.port);
  await using cas = connect(relay.url, scratch.path);
  const data = noise(60_000_000);
  let cuts = 0;
  relay.onSent = () => {
    if (cuts >= 2 || relay.sent < (cuts === 0 ? 0.5 : 0.9) * data.length) return;
    cuts++;
    relay.cut();
  };
  assert.equal(await cas.put(data), cidOf(data));
  assert.equal(cuts, 2);
  // What the connections held when they were cut is sent again; all of it each time would come to 2.4 times the blob.
  assert.ok(relay.sent < 1.6 * data.length, `${relay.sent} bytes`);
  assert.equal(await served.store.integrity(cidOf(data)), "ok");
});

Deno.test("a server that restarts under way goes on with what it has", async () => {
  await using scratch = await TempDir.make();
  const root = scratch.join("store");
  const first = await serve({ root });
  await using relay = new Relay(first.port);
  await using cas = connect(relay.url, scratch.path);
  const data = noise(60_000_000);
  const half = Promise.withResolvers<void>();
  relay.onSent = () => {
    if (relay.sent > 0.5 * data.length) half.resolve();
  };
  const put = cas.put(data);
  await half.promise;
  relay.target = null;
  relay.cut();
  await first[Symbol.asyncDispose]();
  await using second = await serve({ root });
  relay.target = second.port;
  assert.equal(await put, cidOf(data));
  assert.ok(relay.sent < 1.6 * data.length, `${relay.sent} bytes`);
  assert.equal(await second.store.integrity(cidOf(data)), "ok");
});

Deno.test("a server that takes no parts gets the whole, and is not asked again", async () => {
  await using scratch = await TempDir.make();
  const asked: string[] = [];
  await using served = await serve({ root: scratch.join("store"), parts: false, asked });
  await using cas = connect(`http://127.0.0.1:${served.port}`, scratch.path);
  for (let i = 0; i < 2; i++) {
    const data = noise(9_000_000);
    const cid = cidOf(data);
    asked.length = 0;
    assert.equal(await cas.put(data), cid);
    assert.deepEqual(asked, [`HEAD ${cid}`, ...i === 0 ? ["POST uploads"] : [], `PUT ${cid}`]);
  }
});

Deno.test("a file that changes while it is sent is integrity, and nothing is stored", async () => {
  await using scratch = await TempDir.make();
  await using served = await serve({ root: scratch.join("store") });
  await using relay = new Relay(served.port);
  await using cas = connect(relay.url, scratch.path);
  const path = scratch.join("file");
  await Deno.writeFile(path, noise(40_000_000));
  let changed = false;
  relay.onSent = () => {
    if (changed || relay.sent < 1_000_000) return;
    changed = true;
    using file = Deno.openSync(path, { write: true });
    file.seekSync(-10, Deno.SeekMode.End);
    file.writeSync(noise(10));
  };
  await assert.rejects(cas.putFile(path), { code: "integrity" });
  assert.equal((await served.store.usage()).blobs, 0);
});

Deno.test("the service with parts keeps the contract of a store", async () => {
  await using scratch = await TempDir.make();
  await using served = await serve({ root: scratch.join("store") });
  await using cas = connect(`http://127.0.0.1:${served.port}`, scratch.path);
  await checkCas(() => Promise.resolve(cas), { scratch: scratch.path });
});
