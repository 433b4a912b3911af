/** @module Tests of what the `s3` provider makes of servers and networks that fail, mislead or have moved. */

import assert from "node:assert/strict";
import { type Cas, type Cid, cidOf, isCid, openCas, type Tiered } from "../../lib/cas/mod.ts";
import { objectKey } from "../../lib/cas/objects.ts";
import { openS3, type S3Options } from "../../lib/cas/s3.ts";
import { isError, type SubletError } from "../../lib/home/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { hastyClock, noise } from "./bucket_kit.ts";
import { cutAfter, FakeS3, refuse } from "./s3_fake.ts";
import { s3Env } from "./s3_kit.ts";

const SECRET = "sublet-test-secret";

interface Bench extends AsyncDisposable {
  readonly fake: FakeS3;
  readonly cas: Awaited<ReturnType<typeof openS3>>;
  readonly tmp: TempDir;
}

async function bench(options: Partial<S3Options> = {}): Promise<Bench> {
  const fake = new FakeS3();
  const tmp = await TempDir.make();
  const env = { ...s3Env(fake.url), ...options.env };
  const cas = await openS3({
    url: "s3://bucket",
    tmp: tmp.path,
    clock: hastyClock(),
    ...options,
    env,
  });
  return {
    fake,
    cas,
    tmp,
    async [Symbol.asyncDispose]() {
      await cas[Symbol.asyncDispose]();
      await fake[Symbol.asyncDispose]();
      await tmp[Symbol.asyncDispose]();
    },
  };
}

/** A hook that does `what` the first `times` times that `when` holds. */
function first(
  times: number,
  when: (seen: { method: string; url: URL }) => boolean,
  what: (usual: () => Response) => Response | Promise<Response>,
): FakeS3["hook"] {
  let left = times;
  return (seen, usual) => when(seen) && left-- > 0 ? what(usual) : null;
}

const method = (name: string, part = "") => (seen: { method: string; url: URL }) =>
  seen.method === name && seen.url.href.includes(part);

async function leftovers({ tmp, fake }: Bench): Promise<string[]> {
  const names: string[] = [...fake.uploads.keys()];
  for await (const { name } of Deno.readDir(tmp.join("cas-uploads"))) names.push(name);
  return names;
}

const failure = async (work: Promise<unknown>): Promise<SubletError> => {
  const error = await work.then(() => null, (error) => error);
  assert.ok(isError(error), String(error));
  assert.ok(!error.message.includes(SECRET), "it shows no secret");
  return error;
};

const LARGE = noise(20 * 1024 * 1024);

Deno.test("busy and broken servers are asked again, whatever is asked of them", async () => {
  for (
    const answer of [
      () => refuse(503, "SlowDown", "", { "retry-after": "1" }),
      () => refuse(500, "InternalError"),
      () => new Response("<html>bad gateway</html>", { status: 502 }),
      () => refuse(429, "TooManyRequests"),
      () => refuse(409, "ConditionalRequestConflict"),
      () => refuse(400, "RequestTimeout"),
    ]
  ) {
    await using at = await bench();
    // Each kind of call fails twice.
    const times = new Map<string, number>();
    at.fake.hook = (seen) => {
      const kind = seen.method + [...seen.url.searchParams.keys()].join();
      const count = (times.get(kind) ?? 0) + 1;
      times.set(kind, count);
      if (count > 2) return null;
      const refusal = answer();
      return seen.method === "HEAD"
        ? new Response(null, {
          status: refusal.status === 400 ? 503 : refusal.status === 409 ? 503 : refusal.status,
        })
        : refusal;
    };
    const small = noise(1000);
    const cid = await at.cas.put(small);
    assert.deepEqual(await at.cas.get(cid), small);
    const large = await at.cas.put(LARGE);
    assert.deepEqual(await at.cas.get(large), LARGE);
    assert.equal((await at.cas.usage()).blobs, 2);
    assert.equal(await at.cas.release(cid), 1017);
    assert.deepEqual(await leftovers(at), []);
  }
});

Deno.test("an outage that lasts is unavailable, with what the server said, and leaves nothing", async () => {
  await using at = await bench();
  at.fake.hook = () => refuse(503, "SlowDown");
  const cid = cidOf(LARGE);
  for (
    const work of [
      () => at.cas.has(cid),
      () => at.cas.get(cid),
      () => at.cas.put(noise(10)),
      () => at.cas.put(LARGE),
      () => at.cas.usage(),
    ]
  ) {
    const error = await failure(work());
    assert.equal(error.code, "unavailable");
    assert.match(error.message, /503/);
  }
  at.fake.hook = () => null;
  assert.deepEqual(await leftovers(at), []);
  assert.equal(at.fake.objects.size, 0);
});

Deno.test("a body that breaks off again and again is read on from where it broke off", async () => {
  await using at = await bench();
  const cid = await at.cas.put(LARGE);
  let cuts = 0;
  at.fake.hook = async (seen, usual) => {
    if (seen.method !== "GET" || ++cuts > 3) return null;
    return await cutAfter(usual(), 5_000_000);
  };
  assert.deepEqual(await at.cas.get(cid), LARGE);
  const ranges = at.fake.seen.filter((seen) => seen.method === "GET").map((seen) =>
    seen.headers.get("range") ?? "all"
  );
  assert.equal(ranges.length, 4);
  assert.equal(ranges[0], "all");
  for (const range of ranges.slice(1)) assert.match(range, /^bytes=[1-9]\d*-$/);
});

Deno.test("an object that is written anew while it is read fails, and is not mixed", async () => {
  await using at = await bench();
  const cid = await at.cas.put(LARGE);
  at.fake.hook = async (seen, usual) => {
    if (seen.method !== "GET") return null;
    const answer = await cutAfter(usual(), 5_000_000);
    at.fake.objects.set(objectKey(cid), noise(30_000_000));
    at.fake.hook = () => null;
    return answer;
  };
  assert.equal((await failure(at.cas.get(cid))).code, "unavailable");
});

Deno.test("wrong bytes are never delivered, however they come", async () => {
  const small = noise(2000);
  for (const data of [small, LARGE]) {
    await using at = await bench();
    const cid = await at.cas.put(data);
    const right = at.fake.objects.get(objectKey(cid)) as Uint8Array<ArrayBuffer>;
    for (
      const wrong of [
        right.map((byte, i) => i === right.length - 3 ? byte ^ 1 : byte),
        right.slice(0, -4),
        noise(right.length),
        new Uint8Array(0),
      ]
    ) {
      at.fake.hook = (seen) =>
        seen.method === "GET"
          ? new Response(wrong, {
            headers: { etag: '"x"', "content-length": String(wrong.length) },
          })
          : null;
      const error = await failure(at.cas.get(cid));
      assert.equal(error.code, "integrity");
      assert.ok(error.message.includes(cid));
      assert.equal(await at.cas.integrity(cid), "corrupt");
    }
    at.fake.hook = () => null;
    assert.deepEqual(await at.cas.get(cid), data);
  }
});

Deno.test("a reset in the middle of a part sends that part again", async () => {
  await using at = await bench();
  at.fake.hook = first(2, method("PUT", "partNumber=2"), () => {
    throw new Error("reset");
  });
  const cid = await at.cas.put(LARGE);
  assert.deepEqual(await at.cas.get(cid), LARGE);
  assert.equal(at.fake.count("PUT", "partNumber=1"), 1);
  assert.equal(at.fake.count("PUT", "partNumber=2"), 3);
});

Deno.test("a part that is refused for good ends the upload, and nothing is visible", async () => {
  await using at = await bench();
  at.fake.hook = (seen) => method("PUT", "partNumber=2")(seen) ? refuse(403, "AccessDenied") : null;
  const error = await failure(at.cas.put(LARGE));
  assert.equal(error.code, "config");
  assert.match(error.message, /s3:PutObject/);
  assert.equal(at.fake.objects.size, 0);
  assert.deepEqual(await leftovers(at), []);
});

Deno.test("a put that is cancelled ends its upload", async () => {
  await using at = await bench();
  const stop = new AbortController();
  at.fake.hook = (seen) => {
    if (method("PUT", "partNumber=2")(seen)) stop.abort();
    return null;
  };
  const source = new Response(LARGE).body as ReadableStream<Uint8Array>;
  const error = await failure(at.cas.putStream(source, { signal: stop.signal }));
  assert.equal(error.code, "cancelled");
  assert.equal(at.fake.objects.size, 0);
  assert.deepEqual(await leftovers(at), []);
});

Deno.test("the lost answer to the last call of an upload does not fail it", async () => {
  await using at = await bench();
  at.fake.hook = first(1, method("POST", "uploadId"), (usual) => {
    usual();
    return refuse(500, "InternalError");
  });
  // What is there is known by its MD5.
  const data = noise(9 * 1024 * 1024);
  const cid = await at.cas.put(data);
  assert.deepEqual(await at.cas.get(cid), data);
});

Deno.test("a failure that is told after the status of success is a failure", async () => {
  await using at = await bench();
  const late =
    "<?xml version='1.0'?>\n\n<Error><Code>InternalError</Code><Message>late</Message></Error>";
  at.fake.hook = first(2, method("POST", "uploadId"), () => new Response(late));
  const cid = await at.cas.put(LARGE);
  assert.equal(at.fake.count("POST", "uploadId"), 3);
  assert.deepEqual(await at.cas.get(cid), LARGE);
  at.fake.hook = (seen) => method("POST", "uploadId")(seen) ? new Response(late) : null;
  assert.equal((await failure(at.cas.put(noise(9_000_000)))).code, "unavailable");
  assert.deepEqual(await leftovers(at), []);
});

Deno.test("a blob that another writer put first is left as it is", async () => {
  await using at = await bench();
  const data = noise(100_000);
  await at.cas.put(data);
  const [key, bytes] = [...at.fake.objects][0] as [string, Uint8Array<ArrayBuffer>];
  at.fake.objects.clear();
  at.fake.seen.length = 0;
  // It comes between the question and the put.
  at.fake.hook = (seen) => {
    if (seen.method === "PUT") at.fake.objects.set(key, bytes);
    return null;
  };
  assert.equal(await at.cas.put(data), cidOf(data));
  assert.equal(at.fake.count("PUT"), 1);
  assert.equal(at.fake.objects.get(key), bytes);
});

Deno.test("a server without conditional writes gets plain ones", async () => {
  await using at = await bench();
  at.fake.hook = (seen) => seen.headers.has("if-none-match") ? refuse(501, "NotImplemented") : null;
  const data = noise(1000);
  assert.deepEqual(await at.cas.get(await at.cas.put(data)), data);
  await at.cas.put(noise(1001));
  assert.equal(at.fake.seen.filter((seen) => seen.headers.has("if-none-match")).length, 1);
});

Deno.test("an ETag that is no MD5 is no reason to write anew or to fail", async () => {
  await using at = await bench();
  at.fake.hook = async (_seen, usual) => {
    const answer = usual();
    if (!answer.headers.has("etag")) return answer;
    const headers = new Headers(answer.headers);
    headers.set("etag", '"0123-of-another-kind"');
    return new Response(answer.body === null ? null : await answer.bytes(), {
      status: answer.status,
      headers,
    });
  };
  for (const data of [noise(1000), noise(100_000)]) {
    const cid = await at.cas.put(data);
    at.fake.seen.length = 0;
    await using other = await openS3({ url: "s3://bucket", env: s3Env(at.fake.url) });
    assert.equal(await other.put(data), cid);
    assert.equal(at.fake.seen.filter((seen) => seen.method === "GET").length, 1, "it is read");
    assert.deepEqual(await other.get(cid), data);
  }
});

Deno.test("another region is learnt from the answer, and asked from then on", async () => {
  await using at = await bench();
  const region = (headers: Headers) =>
    /Credential=[^/]+\/\d+\/([^/]+)\//.exec(headers.get("authorization") ?? "")?.[1];
  at.fake.hook = (seen) => {
    if (region(seen.headers) === "eu-north-1") return null;
    return seen.method === "HEAD"
      ? new Response(null, { status: 400, headers: { "x-amz-bucket-region": "eu-north-1" } })
      : refuse(400, "AuthorizationHeaderMalformed", "<Region>eu-north-1</Region>");
  };
  const data = noise(1000);
  const cid = await at.cas.put(data);
  assert.equal(await at.cas.has(cid), true);
  assert.deepEqual(await at.cas.get(cid), data);
  assert.equal(at.fake.seen.filter((seen) => region(seen.headers) === "us-east-1").length, 1);
});

Deno.test("many calls at once that all learn the same all succeed", async () => {
  await using at = await bench({
    clock: { ...hastyClock(), now: () => Date.now() + 3 * 60 * 60 * 1000 },
  });
  at.fake.hook = async (seen) => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    const sent = seen.headers.get("x-amz-date") ?? "";
    const now = new Date();
    if (!(seen.headers.get("authorization") ?? "").includes("/eu-north-1/")) {
      return refuse(301, "PermanentRedirect", "", { "x-amz-bucket-region": "eu-north-1" });
    }
    if (sent > new Date(+now + 900_000).toISOString().replaceAll(/[:-]|\.\d{3}/g, "")) {
      return refuse(403, "RequestTimeTooSkewed", "", { date: now.toUTCString() });
    }
    return seen.headers.has("if-none-match") ? refuse(501, "NotImplemented") : null;
  };
  const blobs = Array.from({ length: 20 }, (_, i) => noise(100 + i));
  const cids = await Promise.all(blobs.map((blob) => at.cas.put(blob)));
  assert.deepEqual(await Promise.all(cids.map((cid) => at.cas.get(cid))), blobs);
});

Deno.test("a length is told from the start of an object, also by a server that sends it all", async () => {
  await using at = await bench();
  const cid = await at.cas.put(LARGE);
  let sent = 0;
  at.fake.hook = (seen) => {
    if (seen.method !== "GET") return null;
    const bytes = at.fake.objects.get(objectKey(cid)) as Uint8Array<ArrayBuffer>;
    const stream = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(bytes.subarray(sent, sent += 65_536));
      },
    }, { highWaterMark: 0 });
    return new Response(stream, { headers: { "content-length": String(bytes.length) } });
  };
  assert.equal(await at.cas.sizeOf(cid), LARGE.length);
  assert.ok(sent < LARGE.length / 2, `${sent} bytes were sent`);
});

Deno.test("a cache over a bucket is whole again after the bucket lost and damaged objects", async () => {
  await using home = await TempDir.make();
  await using fake = new FakeS3();
  const remote = { provider: "s3", url: "s3://bucket", storage_class: "STANDARD" };
  const client = () => Promise.reject(new Error("no client of ours is needed"));
  const context = { home: home.path, tmp: home.path, env: s3Env(fake.url), client };
  const cas = await openCas({ provider: "cached", remote }, context);
  await using _cas = cas as unknown as AsyncDisposable;
  const store = cas as Cas & Tiered;
  const data = noise(300_000);
  const cid = await cas.put(data);
  const [key, bytes] = [...fake.objects][0] as [string, Uint8Array<ArrayBuffer>];
  assert.equal(key, objectKey(cid));
  fake.objects.set(key, noise(1000));
  assert.equal(await store.mend(cid), "mended");
  assert.deepEqual(fake.objects.get(key), bytes);
  fake.objects.clear();
  assert.equal(await store.mend(cid), "mended");
  assert.deepEqual(fake.objects.get(key), bytes);
  assert.equal(await Deno.readTextFile(home.join("store/remote.url")), "s3://bucket");
});

Deno.test("a very large object is read in parts at once, which break off and come in any order", async () => {
  await using at = await bench();
  const data = noise(34 * 1024 * 1024 + 3);
  const cid = await at.cas.put(data);
  at.fake.seen.length = 0;
  let [now, most, gets] = [0, 0, 0];
  at.fake.hook = async (seen, usual) => {
    if (seen.method !== "GET" || !seen.headers.has("range")) return null;
    const mine = ++gets;
    most = Math.max(most, ++now);
    await new Promise((resolve) => setTimeout(resolve, mine % 3 === 0 ? 60 : 10));
    now--;
    return mine % 4 === 0 ? await cutAfter(usual(), 1_000_000) : null;
  };
  assert.deepEqual(await at.cas.get(cid), data);
  assert.ok(most > 1 && most <= 4, `${most} at once`);
  // Left early, it stops; and who comes after it reads ahead again.
  for (let i = 0; i < 6; i++) {
    const body = await at.cas.getStream(cid);
    const reader = body?.stream.getReader();
    await reader?.read();
    await reader?.cancel();
  }
  most = 0;
  const part = await at.cas.getRange(cid, 100, data.length - 100);
  const bytes = await new Response(part?.stream as ReadableStream).bytes();
  assert.deepEqual(bytes, data.slice(100, data.length - 100));
  assert.ok(most > 1);
  // Parts of two states are not joined.
  gets = 0;
  at.fake.hook = (seen) => {
    if (seen.method === "GET" && ++gets === 4) {
      at.fake.objects.set(objectKey(cid), noise(50_000_000));
    }
    return null;
  };
  assert.equal((await failure(at.cas.get(cid))).code, "unavailable");
});

Deno.test("a region that is no region does not become a part of a host's name", async () => {
  await using at = await bench();
  at.fake.hook = () => refuse(301, "PermanentRedirect", "<Region>evil.example/</Region>");
  assert.equal((await failure(at.cas.get(cidOf(LARGE)))).code, "config");
});

Deno.test("a clock that is wrong by hours does not keep anybody out", async () => {
  await using at = await bench({
    clock: { ...hastyClock(), now: () => Date.now() + 3 * 60 * 60 * 1000 },
  });
  at.fake.hook = (seen) => {
    const date = seen.headers.get("x-amz-date") ?? "";
    const sent = Date.parse(date.replace(/^(....)(..)(..T..)(..)(..Z)$/, "$1-$2-$3:$4:$5"));
    if (Math.abs(sent - Date.now()) < 900_000) return null;
    return seen.method === "HEAD"
      ? new Response(null, { status: 403 })
      : refuse(403, "RequestTimeTooSkewed", "", { date: new Date().toUTCString() });
  };
  const data = noise(70_000);
  assert.deepEqual(await at.cas.get(await at.cas.put(data)), data);
});

Deno.test("credentials that are refused are a mistake that says what to do, and show no secret", async () => {
  for (
    const [code, what] of [
      ["InvalidAccessKeyId", /AWS_ACCESS_KEY_ID/],
      ["SignatureDoesNotMatch", /secret/],
      ["ExpiredToken", /sign in again/],
      ["AccessDenied", /s3:GetObject.*s3:ListBucket/],
    ] as const
  ) {
    await using at = await bench();
    at.fake.hook = (seen) =>
      seen.method === "HEAD" ? new Response(null, { status: 403 }) : refuse(403, code);
    for (const work of [() => at.cas.has(cidOf(LARGE)), () => at.cas.put(noise(10))]) {
      const error = await failure(work());
      assert.equal(error.code, "config", code);
      assert.match(error.message, what);
    }
  }
});

Deno.test("a storage class that the server lacks is a mistake in the table", async () => {
  await using at = await bench();
  at.fake.hook = (seen) =>
    seen.headers.get("x-amz-storage-class") === "GLACIER_IR"
      ? refuse(400, "InvalidStorageClass")
      : null;
  await at.cas.put(noise(1000));
  const error = await failure(at.cas.put(noise(200_000)));
  assert.equal(error.code, "config");
  assert.match(error.message, /storage_class/);
});

Deno.test("a listing that does not go on ends, and hostile keys in it are passed over", async () => {
  await using at = await bench();
  const page = (key: string, token: string) =>
    new Response(
      `<R><IsTruncated>true</IsTruncated><Contents><Key>${key}</Key><Size>1</Size></Contents>` +
        `<NextContinuationToken>${token}</NextContinuationToken></R>`,
    );
  at.fake.hook = () => page("blake3/../../etc/passwd/bytes.zst", "same");
  const cids: Cid[] = [];
  const error = await failure((async () => {
    for await (const cid of at.cas.list()) cids.push(cid);
  })());
  assert.equal(error.code, "unavailable");
  assert.deepEqual(cids.filter((cid) => !isCid(cid)), []);
  assert.deepEqual(cids, []);
});

Deno.test("an endless answer where a short one is due is given up", async () => {
  await using at = await bench();
  at.fake.hook = (seen) => {
    if (seen.method !== "POST") return null;
    const piece = new Uint8Array(1 << 20).fill(97);
    return new Response(new ReadableStream({ pull: (controller) => controller.enqueue(piece) }));
  };
  assert.equal((await failure(at.cas.put(LARGE))).code, "unavailable");
  assert.deepEqual(await leftovers(at), []);
});

Deno.test("many large uploads at once send a bounded number of parts at once", async () => {
  await using at = await bench();
  const source = (i: number) => {
    let sent = 0;
    return new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent === 9) return controller.close();
        const piece = LARGE.slice(sent << 20, ++sent << 20);
        piece[0] = i;
        controller.enqueue(piece);
      },
    });
  };
  let now = 0;
  let most = 0;
  at.fake.hook = async (seen) => {
    if (seen.method !== "PUT") return null;
    most = Math.max(most, ++now);
    await new Promise((resolve) => setTimeout(resolve, 5));
    now--;
    return new Response(null, { headers: { etag: '"kept by nobody"' } });
  };
  const cids = await Promise.all(
    Array.from({ length: 40 }, (_, i) => at.cas.putStream(source(i))),
  );
  assert.equal(new Set(cids).size, 40);
  assert.ok(most > 1 && most <= 128, `${most} parts at once`);
  assert.deepEqual(await leftovers(at), []);
});
