import assert from "node:assert/strict";
import { rootCertificates } from "node:tls";
import { serveHttp, trustedRoots } from "../../lib/net/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { hasOpenssl, makeCertificates } from "./certificates.ts";

/** What a thread that may only dial `net` says. */
async function inThread(net: string, message: { server: string; ca: string }): Promise<string> {
  const worker = new Worker(new URL("./roots_worker.ts", import.meta.url), {
    type: "module",
    deno: {
      permissions: {
        net: [net],
        read: false,
        write: false,
        env: false,
        run: false,
        ffi: false,
        sys: false,
        import: false,
      },
    },
  });
  const said = Promise.withResolvers<string>();
  worker.onmessage = (event) => said.resolve(event.data);
  worker.onerror = (event) => {
    event.preventDefault();
    said.reject(new Error(event.message));
  };
  worker.postMessage(message);
  try {
    return await said.promise;
  } finally {
    worker.terminate();
  }
}

Deno.test("the roots of SSL_CERT_FILE come with the usual ones", async () => {
  await using dir = await TempDir.make();
  const [root = ""] = rootCertificates;
  await Deno.writeTextFile(dir.join("own.pem"), `own\n${root}`);
  const roots = trustedRoots({ SSL_CERT_FILE: dir.join("own.pem") }) ?? "";
  assert.equal(
    roots.split("-----BEGIN CERTIFICATE-----").length - 1,
    rootCertificates.length + 1,
  );
  assert.equal(trustedRoots({}), undefined);
  assert.equal(trustedRoots({ SSL_CERT_FILE: "" }), undefined);
});

Deno.test({
  name: "a thread that may do nothing but dial uses the roots it was given, over http and https",
  ignore: !hasOpenssl,
  async fn() {
    await using dir = await TempDir.make();
    const certificates = await makeCertificates(dir.path);
    await Deno.writeTextFile(dir.join("ca.pem"), certificates.ca);
    const ca = trustedRoots({ SSL_CERT_FILE: dir.join("ca.pem") }) ?? "";
    for (const tls of [undefined, certificates.cert("good")]) {
      await using server = await serveHttp({
        listen: { host: "127.0.0.1", port: 0 },
        ...(tls === undefined ? {} : { tls }),
        fetch: () => new Response("yes"),
      });
      const net = `127.0.0.1:${server.addr?.port}`;
      const scheme = tls === undefined ? "http" : "https";
      assert.equal(await inThread(net, { server: `${scheme}://${net}`, ca }), "200");
    }
  },
});
