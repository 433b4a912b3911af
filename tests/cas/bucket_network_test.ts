/** @module Tests of how buckets are dialed: through a proxy, with another authority's certificates, by which name. */

import assert from "node:assert/strict";
import { openCas, whereIs } from "../../lib/cas/mod.ts";
import { openS3 } from "../../lib/cas/s3.ts";
import { bucketUrl, cleanPrefix, parseS3Url } from "../../lib/cas/s3_endpoint.ts";
import { isError } from "../../lib/home/mod.ts";
import { proxyFor } from "../../lib/net/mod.ts";
import { run, TempDir } from "../kit/mod.ts";
import { hasOpenssl } from "../net/certificates.ts";
import { hastyClock, noise } from "./bucket_kit.ts";
import { FakeS3 } from "./s3_fake.ts";

/** A proxy that tunnels to 127.0.0.1:`port`, wherever it is asked to. */
class Proxy implements Disposable {
  readonly heads: string[] = [];
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  /** What it answers with; a tunnel is opened only for 200. */
  status = 200;

  constructor(readonly port: number) {
    const serve = async () => {
      for await (const connection of this.#listener) this.#serve(connection).catch(() => {});
    };
    serve().catch(() => {});
  }

  get address(): string {
    return `127.0.0.1:${(this.#listener.addr as Deno.NetAddr).port}`;
  }

  async #serve(connection: Deno.Conn): Promise<void> {
    using _connection = connection;
    let head = "";
    const buffer = new Uint8Array(4096);
    while (!head.endsWith("\r\n\r\n")) {
      const count = await connection.read(buffer);
      if (count === null) return;
      head += new TextDecoder().decode(buffer.subarray(0, count));
    }
    this.heads.push(head);
    await connection.write(new TextEncoder().encode(`HTTP/1.1 ${this.status} Tunnel\r\n\r\n`));
    if (this.status !== 200) return;
    const target = await Deno.connect({ hostname: "127.0.0.1", port: this.port });
    await Promise.allSettled([
      connection.readable.pipeTo(target.writable),
      target.readable.pipeTo(connection.writable),
    ]);
  }

  [Symbol.dispose](): void {
    this.#listener.close();
  }
}

/** An authority in `dir`, and a certificate that it signed for `names`. */
async function certificate(dir: string, names: readonly string[]) {
  const openssl = (line: string, ...args: string[]) =>
    run(["openssl", ...line.split(" "), ...args], { cwd: dir });
  const key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
  await openssl(
    `req -x509 ${key} -days 30 -keyout ca.key -out ca.pem -subj /CN=ca`,
    "-addext",
    "keyUsage=critical,keyCertSign",
  );
  const san = names.map((name) => `DNS:${name}`).join();
  await Deno.writeTextFile(`${dir}/ext`, `subjectAltName=${san}\nbasicConstraints=CA:FALSE\n`);
  await openssl(`req ${key} -keyout s.key -out s.csr -subj /CN=s`);
  await openssl(
    "x509 -req -CA ca.pem -CAkey ca.key -CAcreateserial -in s.csr -out s.pem -days 30 -extfile ext",
  );
  return {
    cert: await Deno.readTextFile(`${dir}/s.pem`),
    key: await Deno.readTextFile(`${dir}/s.key`),
    ca: `${dir}/ca.pem`,
  };
}

const KEYS = { AWS_ACCESS_KEY_ID: "a", AWS_SECRET_ACCESS_KEY: "b", HOME: "/nonexistent" };

Deno.test({
  name: "AWS is dialed by the bucket's host, through a proxy, and trusted by a file of roots",
  ignore: !hasOpenssl,
  async fn() {
    await using dir = await TempDir.make();
    const tls = await certificate(dir.path, [
      "*.s3.us-east-1.amazonaws.com",
      "*.s3.eu-west-3.amazonaws.com",
    ]);
    await using fake = new FakeS3({ cert: tls.cert, key: tls.key });
    using proxy = new Proxy(fake.port);
    const env = {
      ...KEYS,
      HTTPS_PROXY: `http://me:p%40ss@${proxy.address}`,
      SSL_CERT_FILE: tls.ca,
    };
    await using cas = await openS3({ url: "s3://my-bucket/p", env, clock: hastyClock() });
    const data = noise(9 * 1024 * 1024);
    const cid = await cas.put(data);
    assert.deepEqual(await cas.get(cid), data);
    assert.match(proxy.heads[0] ?? "", /^CONNECT my-bucket\.s3\.us-east-1\.amazonaws\.com:443 /);
    assert.match(
      proxy.heads[0] ?? "",
      new RegExp(`proxy-authorization: Basic ${btoa("me:p@ss")}`, "i"),
    );
    assert.equal(fake.seen[0]?.headers.get("host"), "my-bucket.s3.us-east-1.amazonaws.com");
    // The bucket is in another region: from then on it is dialed there.
    fake.hook = (seen) =>
      seen.url.hostname.includes("us-east-1")
        ? new Response(null, { status: 301, headers: { "x-amz-bucket-region": "eu-west-3" } })
        : null;
    assert.deepEqual(await cas.get(cid), data);
    assert.match(
      proxy.heads.at(-1) ?? "",
      /^CONNECT my-bucket\.s3\.eu-west-3\.amazonaws\.com:443 /,
    );
  },
});

Deno.test({
  name: "a host that a redirect names is asked only when it is one of S3's",
  ignore: !hasOpenssl,
  async fn() {
    await using dir = await TempDir.make();
    const tls = await certificate(dir.path, [
      "*.s3.us-east-1.amazonaws.com",
      "my-bucket.s3-4.amazonaws.com",
      "s3.evil.example",
    ]);
    await using fake = new FakeS3({ cert: tls.cert, key: tls.key });
    using proxy = new Proxy(fake.port);
    const env = { ...KEYS, HTTPS_PROXY: proxy.address, SSL_CERT_FILE: tls.ca };
    await using cas = await openS3({ url: "s3://my-bucket", env, clock: hastyClock() });
    let to = "https://my-bucket.s3-4.amazonaws.com/there";
    fake.hook = (seen) =>
      seen.url.hostname.includes("us-east-1")
        ? new Response(null, { status: 307, headers: { location: to } })
        : null;
    const data = noise(100);
    assert.deepEqual(await cas.get(await cas.put(data)), data);
    to = "https://s3.evil.example/there";
    await assert.rejects(cas.put(noise(101)), (error) => isError(error, "config"));
    assert.ok(!proxy.heads.some((head) => head.includes("evil")));
  },
});

Deno.test("a proxy that refuses is told, and its password is not", async () => {
  using proxy = new Proxy(1);
  proxy.status = 407;
  const env = { ...KEYS, HTTPS_PROXY: `http://me:hidden@${proxy.address}` };
  await using cas = await openS3({ url: "s3://my-bucket", env, clock: hastyClock() });
  const error = await cas.put(noise(10)).then(() => null, (error) => error);
  assert.ok(isError(error, "unavailable"), String(error));
  assert.match(error.message, /407/);
  assert.ok(!error.message.includes("hidden"));
});

Deno.test("a proxy is used for what is outside, unless NO_PROXY names it", () => {
  const env = {
    HTTPS_PROXY: "http://proxy:3128",
    HTTP_PROXY: "plain:80",
    NO_PROXY: ".corp.example, s3.local:9000,10.0.0.1",
  };
  const proxy = (url: string, more = {}) => proxyFor(new URL(url), { ...env, ...more });
  assert.equal(proxy("https://bucket.s3.amazonaws.com/x"), "http://proxy:3128");
  assert.equal(proxy("http://bucket.example"), "http://plain:80");
  assert.equal(proxy("https://a.corp.example"), null);
  assert.equal(proxy("https://corp.example"), null);
  assert.equal(proxy("https://notcorp.example"), "http://proxy:3128");
  assert.equal(proxy("https://s3.local:9000"), null);
  assert.equal(proxy("https://s3.local"), "http://proxy:3128");
  assert.equal(proxy("http://10.0.0.1"), null);
  for (
    const near of [
      "http://localhost:1",
      "http://127.0.0.1",
      "http://[::1]:3",
      "http://169.254.169.254",
    ]
  ) {
    assert.equal(proxy(near), null);
  }
  assert.equal(proxy("https://x", { NO_PROXY: "*" }), null);
  assert.equal(proxy("https://x", { https_proxy: "https://lower:1" }), "https://lower:1");
  assert.equal(proxyFor(new URL("https://x"), {}), null);
  assert.throws(() => proxy("https://x", { HTTPS_PROXY: "socks5://u:hidden@h:1" }), (error) => {
    return isError(error, "config") && !error.message.includes("hidden");
  });
});

Deno.test("buckets that cannot be a part of a host's name are a part of the path", () => {
  const url = (...args: Parameters<typeof bucketUrl>) => bucketUrl(...args).href;
  assert.equal(
    url("my-bucket", "eu-west-1", null),
    "https://my-bucket.s3.eu-west-1.amazonaws.com/",
  );
  assert.equal(
    url("dots.in.name", "eu-west-1", null),
    "https://s3.eu-west-1.amazonaws.com/dots.in.name",
  );
  assert.equal(
    url("Upper_Case", "us-east-1", null),
    "https://s3.us-east-1.amazonaws.com/Upper_Case",
  );
  assert.equal(url("b-1", "cn-north-1", null), "https://b-1.s3.cn-north-1.amazonaws.com.cn/");
  assert.equal(url("b-1", "x", "http://minio:9000"), "http://minio:9000/b-1");
  assert.equal(url("b-1", "x", "https://gateway/s3/"), "https://gateway/s3/b-1");
});

Deno.test("the URL of a bucket is taken as it stands, or not at all", () => {
  assert.deepEqual(parseS3Url("s3://bucket"), { bucket: "bucket", prefix: "" });
  assert.deepEqual(parseS3Url("s3://bucket/"), { bucket: "bucket", prefix: "" });
  assert.deepEqual(parseS3Url("s3://bucket/a%20b/c d/"), {
    bucket: "bucket",
    prefix: "a%20b/c d/",
  });
  for (
    const bad of [
      "s3:/bucket",
      "bucket",
      "https://bucket",
      "s3://b",
      "s3://bucket/a//b",
      "s3://bucket/../b",
      "s3://bucket/a/./b",
      "s3://bucket/a?b",
      "s3://bucket/a#b",
      "s3://u:p@bucket/a",
      "s3://bucket/a\nb",
      `s3://bucket/${"a".repeat(1000)}`,
    ]
  ) {
    assert.equal(parseS3Url(bad), null, bad);
  }
  assert.equal(cleanPrefix("/a/b/"), "a/b/");
  assert.equal(cleanPrefix(""), "");
});

Deno.test("every mistake in the table of a bucket is a line that names the key", async () => {
  const lines = async (table: Record<string, unknown>) => {
    const client = () => Promise.reject(new Error("no client is needed"));
    const error = await openCas(table, { home: "/home/me", env: {}, client })
      .then(() => null, (error) => error);
    assert.ok(isError(error, "config"), String(error));
    return error.message.split("\n");
  };
  const s3 = await lines({
    provider: "s3",
    url: "https://bucket",
    storage_class: "DEEP_ARCHIVE",
    standard_below: -1,
    endpoint: "x",
  });
  assert.equal(s3.length, 4);
  const all = s3.join("\n");
  assert.match(all, /plugins\.cas\.url = "https:\/\/bucket".*s3:\/\/bucket\[\/prefix\]/);
  assert.match(all, /plugins\.cas\.storage_class = "DEEP_ARCHIVE".*restored.*GLACIER_IR/);
  assert.match(all, /plugins\.cas\.standard_below = -1.*number of bytes/);
  assert.match(all, /plugins\.cas\.endpoint/);
  assert.match((await lines({ provider: "s3" }))[0] ?? "", /plugins\.cas\.url/);
  const gcs = (await lines({
    provider: "gcs",
    bucket: "gs://bucket/x",
    prefix: "a//b",
    storage_class: "GLACIER_IR",
    credentials_file: 3,
  })).join("\n");
  assert.match(gcs, /plugins\.cas\.bucket = "gs:\/\/bucket\/x".*without gs:\/\//);
  assert.match(gcs, /plugins\.cas\.prefix = "a\/\/b"/);
  assert.match(gcs, /plugins\.cas\.storage_class = "GLACIER_IR".*STANDARD, NEARLINE/);
  assert.match(gcs, /plugins\.cas\.credentials_file = 3/);
});

Deno.test("one spelling says where a bucket is", () => {
  assert.equal(whereIs({ provider: "s3", url: "s3://bucket/a/b/" }, "/"), "s3://bucket/a/b");
  assert.equal(whereIs({ provider: "s3", url: "s3://bucket/" }, "/"), "s3://bucket");
  assert.equal(whereIs({ provider: "gcs", bucket: "bucket", prefix: "/a/" }, "/"), "gs://bucket/a");
  assert.equal(whereIs({ provider: "gcs", bucket: "bucket" }, "/"), "gs://bucket");
});
