/** @module Tests of the http provider against a scripted server, under a clock of its own. */

import assert from "node:assert/strict";
import { type Cas, cidOf, openHttpCas } from "../../lib/cas/mod.ts";
import { isError, SubletError } from "../../lib/home/mod.ts";
import type { HttpClient, HttpRequest, HttpResponse } from "../../lib/net/mod.ts";
import { TempDir } from "../kit/mod.ts";

const ABC = new TextEncoder().encode("abc");
const CID = cidOf(ABC);

/** What the scripted server answers; `cut` breaks the body off after its bytes. */
interface Answer {
  readonly status: number;
  readonly headers?: Record<string, string>;
  readonly body?: Uint8Array | string;
  readonly cut?: boolean;
}

const unreachable = () => new SubletError("unreachable", "connection refused");

function response({ status, headers = {}, body = "", cut = false }: Answer): HttpResponse {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  let taken = false;
  const stream = () => {
    assert.equal(taken, false, "a body is taken once");
    taken = true;
    let sent = false;
    return new ReadableStream<Uint8Array>({
      pull(controller) {
        if (!sent && bytes.length > 0) controller.enqueue(bytes);
        else if (cut) controller.error(unreachable());
        else controller.close();
        sent = true;
      },
    });
  };
  return {
    status,
    headers: new Headers(headers),
    stream,
    bytes: async () => new Uint8Array(await new Response(stream() as ReadableStream).arrayBuffer()),
    discard: () => {
      taken = true;
      return Promise.resolve();
    },
  };
}

/** A store whose server answers as `script` says, one call after another; what was asked, and how long it waited. */
function scripted(script: (request: HttpRequest, call: number) => Answer | Error, tmp?: string) {
  const asked: HttpRequest[] = [];
  const waits: number[] = [];
  const bodies: Uint8Array[] = [];
  let now = 0;
  const client: HttpClient = {
    url: "http://store",
    async request(request) {
      asked.push(request);
      const { body } = request;
      if (body instanceof Uint8Array) bodies.push(body);
      else if (body !== undefined) {
        bodies.push(await new Response(body.stream as ReadableStream).bytes());
      }
      const answer = script(request, asked.length - 1);
      if (answer instanceof Error) throw answer;
      return response(answer);
    },
    [Symbol.dispose]() {},
  };
  const clock = {
    now: () => now,
    monotonic: () => now,
    sleep(ms: number) {
      waits.push(ms);
      now += ms;
      return Promise.resolve();
    },
    after: () => () => {},
  };
  const cas: Cas = openHttpCas(client, { clock, ...(tmp === undefined ? {} : { tmp }) });
  return { cas, asked, waits, bodies };
}

const refused = (status: number, code: string): Answer => ({
  status,
  body: JSON.stringify({ code, message: `this is ${code}` }),
});

Deno.test("what the network or a proxy fails is tried again, 0.1 s to 5 s apart, for a minute", async () => {
  for (const failure of [unreachable(), { status: 502 }, { status: 503 }, { status: 504 }]) {
    const { cas, waits } = scripted(() => failure);
    const code = failure instanceof Error ? "unreachable" : "unavailable";
    await assert.rejects(cas.has(CID), (error) => isError(error, code));
    assert.deepEqual(waits.slice(0, 8), [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
    const total = waits.reduce((sum, wait) => sum + wait, 0);
    assert.ok(total > 54_000 && total <= 60_000, `${total} ms`);
  }
});

Deno.test("the error after a minute names the method, the path, the status and what was said", async () => {
  const { cas } = scripted(() => ({
    status: 503,
    body: '{"code":"unavailable","message":"full"}',
  }));
  await assert.rejects(cas.get(CID), (error) => {
    return isError(error, "unavailable") &&
      ["GET", `/v1/cas/${CID}`, "503", "full", "http://store"].every((part) =>
        error.message.includes(part)
      );
  });
});

Deno.test("a store that comes back within the minute is used, and every try has the whole body", async () => {
  const { cas, bodies, waits } = scripted((_, call) => call < 3 ? unreachable() : { status: 201 });
  assert.equal(await cas.put(ABC), CID);
  assert.deepEqual(bodies, [ABC, ABC, ABC, ABC]);
  assert.deepEqual(waits, [100, 200, 400]);
});

Deno.test("Retry-After in seconds is the least wait, a date is not looked at", async () => {
  const { cas, waits } = scripted((_, call) => {
    if (call === 0) return { status: 503, headers: { "retry-after": "7" } };
    if (call === 1) {
      return { status: 503, headers: { "retry-after": "Sun, 06 Nov 2044 08:49:37 GMT" } };
    }
    return { status: 200 };
  });
  assert.equal(await cas.has(CID), true);
  assert.deepEqual(waits, [7000, 200]);
});

Deno.test("a Retry-After beyond the minute gives up at once", async () => {
  const { cas, waits } = scripted(() => ({ status: 503, headers: { "retry-after": "61" } }));
  await assert.rejects(cas.has(CID), (error) => isError(error, "unavailable"));
  assert.deepEqual(waits, []);
});

Deno.test("a refusal is not tried again, and keeps its code", async () => {
  const cases: [Answer, Parameters<typeof isError>[1]][] = [
    [refused(401, "unauthenticated"), "unauthenticated"],
    [refused(403, "permission_denied"), "permission_denied"],
    [refused(400, "invalid_cid"), "invalid_cid"],
    [refused(413, "too_large"), "too_large"],
    [refused(500, "integrity"), "integrity"],
    [refused(500, "internal"), "internal"],
    [{ status: 500, body: "<html>" }, "unavailable"],
    [{ status: 302, headers: { location: "http://elsewhere" } }, "failed"],
    [{ status: 418 }, "failed"],
  ];
  for (const [answer, code] of cases) {
    const { cas, asked } = scripted(() => answer);
    await assert.rejects(cas.get(CID), (error) => isError(error, code), JSON.stringify(answer));
    await assert.rejects(cas.put(ABC), (error) => isError(error, code), JSON.stringify(answer));
    assert.equal(asked.length, 2);
  }
});

Deno.test("a put of bytes that arrive as others is integrity", async () => {
  const { cas } = scripted(() => refused(400, "cid_mismatch"));
  await assert.rejects(cas.put(ABC), (error) => isError(error, "integrity"));
});

Deno.test("a large put asks first and is not sent when the store has it undamaged", async () => {
  const data = new Uint8Array(100_000);
  const { cas, asked } = scripted(() => ({ status: 200 }));
  assert.equal(await cas.put(data), cidOf(data));
  assert.deepEqual(asked.map((request) => request.method), ["HEAD"]);
  assert.equal(asked[0]?.headers?.["sublet-check"], "1");
});

Deno.test("a put of a stream is sent with its length, from memory or from a file that is gone afterwards", async () => {
  await using tmp = await TempDir.make();
  for (const length of [3, 100_000, 3_000_000]) {
    const data = new Uint8Array(length).fill(7);
    const { cas, asked, bodies } = scripted(
      ({ method }, call) =>
        method === "HEAD" ? { status: 404 } : call < 2 ? unreachable() : { status: 201 },
      tmp.path,
    );
    const cid = await cas.putStream(new Blob([data]).stream());
    assert.equal(cid, cidOf(data));
    const put = asked.at(-1);
    const body = put?.body;
    assert.equal(body instanceof Uint8Array ? body.length : body?.length, length);
    for (const sent of bodies) assert.deepEqual(sent, data);
    assert.deepEqual(await Array.fromAsync(Deno.readDir(tmp.path)), []);
  }
});

Deno.test("a get that breaks off goes on where it was, and nothing comes twice", async () => {
  const data = new TextEncoder().encode("one two three four");
  const cid = cidOf(data);
  for (const ranges of [true, false]) {
    const { cas, asked } = scripted((request, call) => {
      const from = Number(/bytes=(\d+)-/.exec(request.headers?.range ?? "")?.[1] ?? 0);
      const to = Math.min(data.length, from + 6);
      const cut = call < 4 && to < data.length;
      if (!ranges || from === 0) {
        return { status: 200, body: cut ? data.subarray(0, to) : data, cut };
      }
      const headers = { "content-range": `bytes ${from}-${data.length - 1}/${data.length}` };
      return { status: 206, headers, body: data.subarray(from, cut ? to : undefined), cut };
    });
    assert.deepEqual(await cas.get(cid), data);
    assert.ok(asked.length > 1);
    assert.equal(asked[1]?.headers?.["if-range"], `"${cid}"`);
  }
});

Deno.test("a get that breaks off again and again without a byte gives up after a minute", async () => {
  const { cas, waits } = scripted(() => ({ status: 200, body: "", cut: true }));
  await assert.rejects(cas.get(CID), (error) => isError(error, "unreachable"));
  assert.ok(waits.reduce((sum, wait) => sum + wait, 0) > 50_000);
});

Deno.test("bytes that are not the blob's are integrity", async () => {
  const { cas } = scripted(() => ({ status: 200, body: "abd" }));
  await assert.rejects(cas.get(CID), (error) => isError(error, "integrity"));
});

Deno.test("many are asked about in one question, or one by one where the store takes none", async () => {
  const other = cidOf(new Uint8Array(9));
  const batch = scripted(() => ({ status: 200, body: JSON.stringify({ missing: [other] }) }));
  assert.deepEqual(await batch.cas.missing([CID, other, CID, other]), [other, other]);
  assert.deepEqual(JSON.parse(new TextDecoder().decode(batch.bodies[0])), { cids: [CID, other] });
  for (const status of [400, 404, 405]) {
    const single = scripted(({ method, path }) =>
      method === "POST" ? { status } : { status: path.endsWith(CID) ? 200 : 404 }
    );
    for (let i = 0; i < 2; i++) {
      assert.deepEqual(await single.cas.missing([other, CID, other]), [other, other]);
    }
    assert.equal(single.asked.filter(({ method }) => method === "POST").length, 1);
  }
});

Deno.test("an answer to the question about many that is none is unavailable", async () => {
  for (const body of ["<html>", "{}", '{"missing":["x"]}']) {
    const { cas } = scripted(() => ({ status: 200, body }));
    await assert.rejects(cas.missing([CID]), (error) => isError(error, "unavailable"));
  }
});

Deno.test("blobs are asked for by their raw CID", async () => {
  const drisl = "bafyr4ideg6z2yocgkez77nr3outtvdnvjdcvqrs5phnqh7jvtrwnlpm5qu" as typeof CID;
  const { cas, asked } = scripted(() => ({ status: 200, body: "abc" }));
  assert.deepEqual(await cas.get(drisl), ABC);
  await cas.has(drisl);
  assert.deepEqual(asked.map(({ path }) => path), [`/v1/cas/${CID}`, `/v1/cas/${CID}`]);
});

Deno.test("a call that is cancelled while it waits says so", async () => {
  const stop = new AbortController();
  const { cas } = scripted(() => {
    stop.abort();
    return unreachable();
  });
  await assert.rejects(
    cas.put(ABC, { signal: stop.signal }),
    (error) => isError(error, "cancelled"),
  );
});

Deno.test("too many requests are tried again when the store says, and for a minute at most", async () => {
  const { cas, waits } = scripted((_, call) =>
    call < 2 ? { status: 429, headers: { "retry-after": "3" } } : { status: 201 }
  );
  assert.equal(await cas.put(ABC), CID);
  assert.deepEqual(waits, [3000, 3000]);
  const busy = scripted(() => ({ ...refused(429, "busy"), headers: { "retry-after": "1" } }));
  await assert.rejects(busy.cas.put(ABC), (error) => isError(error, "busy"));
  assert.ok(busy.waits.reduce((sum, wait) => sum + wait, 0) <= 60_000);
  const slow = scripted((_, call) => ({ status: call === 0 ? 408 : 201 }));
  assert.equal(await slow.cas.put(ABC), CID);
});

/** The answer about an upload of `length` bytes, of which what is after `from` is missing. */
const state = (from: number, length: number): Answer => ({
  status: 201,
  body: JSON.stringify({ id: "0".repeat(32), complete: false, missing: [[from, length]] }),
});

Deno.test("a part that fails is followed by the question what is missing, and only that is sent", async () => {
  const length = 10_000_000;
  const data = new Uint8Array(length).map((_, i) => i % 251);
  const failures: Answer[] = [
    { status: 503, headers: { "retry-after": "2" } },
    { status: 429 },
    refused(409, "conflict"),
    refused(404, "not_found"),
  ];
  for (const failure of [unreachable(), ...failures]) {
    let begun = 0;
    const { cas, asked, bodies } = scripted(({ method }) => {
      if (method === "HEAD") return { status: 404 };
      if (method === "POST") return state(begun++ === 0 ? 0 : 9_000_000, length);
      return begun === 1 ? failure : { status: 201, headers: { "upload-complete": "?1" } };
    });
    assert.equal(await cas.put(data), cidOf(data));
    const methods = asked.map(({ method }) => method).join(" ");
    assert.equal(methods, "HEAD POST PATCH POST PATCH");
    assert.equal(asked.at(-1)?.headers?.["upload-offset"], "9000000");
    assert.deepEqual(bodies.at(-1)?.length, 1_000_000);
  }
});

Deno.test("an upload that never ends, or an answer that is none, is given up", async () => {
  const data = new Uint8Array(9_000_000);
  const stuck = scripted(({ method }) =>
    method === "HEAD" ? { status: 404 } : method === "POST" ? state(0, 9_000_000) : { status: 503 }
  );
  await assert.rejects(stuck.cas.put(data), (error) => isError(error, "unavailable"));
  assert.ok(stuck.waits.reduce((sum, wait) => sum + wait, 0) > 50_000);
  for (const body of ["<html>", "{}", '{"complete":"yes","missing":[]}']) {
    const { cas } = scripted(({ method }) =>
      method === "HEAD" ? { status: 404 } : { status: 200, body }
    );
    await assert.rejects(cas.put(data), (error) => isError(error, "unavailable"));
  }
});
