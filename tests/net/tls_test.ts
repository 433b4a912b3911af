import assert from "node:assert/strict";
import { isError } from "../../lib/home/mod.ts";
import { type HttpClientOptions, openHttpClient, serveHttp } from "../../lib/net/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { type Certificates, hasOpenssl, makeCertificates } from "./certificates.ts";

async function setUp(name: "good" | "wrong" | "expired") {
  const dir = await TempDir.make();
  const certificates = await makeCertificates(dir.path);
  const server = await serveHttp({
    listen: { host: "127.0.0.1", port: 0 },
    tls: certificates.cert(name),
    fetch: async (request) => new Response(`${(await request.bytes()).length} bytes`),
  });
  return {
    certificates,
    url: `https://localhost:${server.addr?.port}`,
    server,
    async get(options: HttpClientOptions): Promise<string> {
      using client = openHttpClient(options);
      const response = await client.request({
        method: "PUT",
        path: "/",
        body: { stream: new Blob([new Uint8Array(100_000)]).stream(), length: 100_000 },
      });
      return new TextDecoder().decode(await response.bytes());
    },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await dir[Symbol.asyncDispose]();
    },
  };
}

function test(
  title: string,
  name: "good" | "wrong" | "expired",
  body: (t: Awaited<ReturnType<typeof setUp>>) => Promise<void>,
) {
  Deno.test({
    name: title,
    ignore: !hasOpenssl,
    async fn() {
      await using t = await setUp(name);
      await body(t);
    },
  });
}

const ca = ({ certificates }: { certificates: Certificates }) => certificates.ca;
const says = (text: RegExp) => (error: unknown) => {
  assert.ok(isError(error, "unreachable"), String(error));
  assert.match(error.message, text);
  return true;
};

test(
  "a server with a certificate is https, and answers whoever knows its authority",
  "good",
  async (t) => {
    assert.match(t.server.url, /^https:\/\/127\.0\.0\.1:\d+$/);
    for (const server of [t.url, t.server.url]) {
      assert.equal(await t.get({ server, ca: ca(t) }), "100000 bytes");
    }
  },
);

test("SSL_CERT_FILE adds authorities, several in one file", "good", async (t) => {
  await using dir = await TempDir.make();
  const path = dir.join("roots.pem");
  await Deno.writeTextFile(path, `${t.certificates.otherCa}\n${t.certificates.ca}`);
  assert.equal(await t.get({ server: t.url, env: { SSL_CERT_FILE: path } }), "100000 bytes");
});

test("an unknown authority is named as such, with the cure", "good", async (t) => {
  for (const options of [{}, { ca: t.certificates.otherCa }]) {
    await assert.rejects(
      t.get({ server: t.url, ...options }),
      says(/authority that this machine does not know.*SSL_CERT_FILE/),
    );
  }
});

test("an expired certificate is named as such", "expired", async (t) => {
  await assert.rejects(t.get({ server: t.url, ca: ca(t) }), says(/has expired.*clock/));
});

test("a certificate for another host is named as such", "wrong", async (t) => {
  await assert.rejects(t.get({ server: t.url, ca: ca(t) }), says(/for another host name/));
});

test(
  "http to a server that speaks TLS, and a name that the certificate lacks, are told apart",
  "good",
  async (t) => {
    await assert.rejects(
      t.get({ server: t.url.replace("https", "http"), ca: ca(t) }),
      says(/https instead of http|closed before an answer/),
    );
  },
);

test(
  "a server that offers HTTP/2, too, is spoken to in HTTP/1.1",
  "good",
  async ({ certificates }) => {
    using listener = Deno.listenTls({
      hostname: "127.0.0.1",
      port: 0,
      ...certificates.cert("good"),
      alpnProtocols: ["h2", "http/1.1"],
    });
    const server = (async () => {
      using connection = await listener.accept();
      const { alpnProtocol } = await connection.handshake();
      await connection.read(new Uint8Array(1024));
      const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
      await connection.write(new TextEncoder().encode(answer));
      return alpnProtocol;
    })();
    using client = openHttpClient({
      server: `https://localhost:${listener.addr.port}`,
      ca: certificates.ca,
    });
    const response = await client.request({ method: "GET", path: "/" });
    assert.equal(new TextDecoder().decode(await response.bytes()), "ok");
    assert.notEqual(await server, "h2");
  },
);
