import assert from "node:assert/strict";
import { isError, parseAddress } from "../../lib/home/mod.ts";
import { credentialFromEnv, HttpsNetwork } from "../../lib/net/mod.ts";
import { TempDir } from "../kit/mod.ts";
import { hasOpenssl, makeCertificates } from "./certificates.ts";

const open = (listen: string | null, tls: Parameters<typeof HttpsNetwork.open>[0]["tls"] = null) =>
  HttpsNetwork.open({
    provider: "https",
    listen: listen === null ? null : parseAddress(listen),
    tls,
    url: null,
  });

Deno.test("the https network listens in clear on loopback, and behind a proxy that ends TLS anywhere", async () => {
  for (const listen of ["127.0.0.1:0", "[::1]:0", "localhost:0"]) {
    assert.equal((await open(listen)).tls, null);
  }
  assert.deepEqual((await open("0.0.0.0:80", "proxy")).listen, { host: "0.0.0.0", port: 80 });
  assert.equal((await open(null)).listen, null);
});

Deno.test("the https network refuses to listen in clear elsewhere, and names both cures", async () => {
  for (const listen of ["0.0.0.0:80", "[::]:80", "server.example:80", "10.0.0.1:80"]) {
    await assert.rejects(
      open(listen),
      (error) =>
        isError(error, "config") && error.message.includes("cert =") &&
        error.message.includes('tls = "proxy"'),
    );
  }
});

Deno.test({
  name: "the https network reads its certificate and key, and refuses what is not PEM",
  ignore: !hasOpenssl,
  async fn() {
    await using dir = await TempDir.make();
    const certificates = await makeCertificates(dir.path);
    const good = certificates.path("good");
    assert.match((await open("0.0.0.0:0", good)).tls?.cert ?? "", /BEGIN CERTIFICATE/);
    const cases = [
      [{ cert: good.key, key: good.key }, /tls\.cert = .*must be PEM/],
      [{ cert: good.cert, key: good.cert }, /tls\.key = .*must be PEM/],
      [{ cert: dir.join("nowhere"), key: good.key }, /tls\.cert = .*cannot be read/],
    ] as const;
    for (const [tls, text] of cases) {
      await assert.rejects(
        open("0.0.0.0:0", tls),
        (error) => isError(error, "config") && text.test(error.message),
      );
    }
  },
});

Deno.test("the credential is SUBLET_HTTPS_TOKEN; without it the error names it and the command that makes one", () => {
  assert.equal(credentialFromEnv({ SUBLET_HTTPS_TOKEN: " slt_abc\n" }), "slt_abc");
  for (const value of [undefined, "", "  ", "slt_a b", "slt_\u00e9", "slt_\r\nx: y"]) {
    assert.throws(
      () => credentialFromEnv({ SUBLET_HTTPS_TOKEN: value }),
      (error) =>
        isError(error, "no_credential") && error.message.includes("SUBLET_HTTPS_TOKEN") &&
        error.message.includes("sublet token create"),
    );
  }
});
