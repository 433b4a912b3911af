/** @module Certificates for tests, made with `openssl` where there is one. */

import { run } from "../kit/mod.ts";

/** Whether certificates can be made here; says so when not. */
export const hasOpenssl = await run(["openssl", "version"]).then(() => true, () => {
  console.log("SKIPPED: tests with TLS, since there is no openssl here");
  return false;
});

/** PEM files, by the name of their certificate: `NAME.pem` and `NAME.key`. */
export interface Certificates {
  /** The authority that signed every certificate. */
  readonly ca: string;
  /** Another authority, which signed none. */
  readonly otherCa: string;
  cert(name: "good" | "wrong" | "expired"): { readonly cert: string; readonly key: string };
  path(name: "good" | "wrong" | "expired" | "ca"): { readonly cert: string; readonly key: string };
}

/** Make an authority in `dir`, and certificates for localhost, for another host, and one that has expired. */
export async function makeCertificates(dir: string): Promise<Certificates> {
  const openssl = (...args: string[]) => run(["openssl", ...args], { cwd: dir });
  for (const name of ["ca", "other"]) {
    await openssl(
      ..."req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30".split(" "),
      ...["-keyout", `${name}.key`, "-out", `${name}.pem`, "-subj", `/CN=${name}`],
      ...["-addext", "keyUsage=critical,keyCertSign"],
    );
  }
  const make = async (name: string, san: string, days: string) => {
    await Deno.writeTextFile(
      `${dir}/${name}.ext`,
      `subjectAltName=${san}\nbasicConstraints=CA:FALSE\n`,
    );
    await openssl(
      ..."req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes".split(" "),
      ...["-keyout", `${name}.key`, "-out", `${name}.csr`, "-subj", `/CN=${name}`],
    );
    await openssl(
      ..."x509 -req -CA ca.pem -CAkey ca.key -CAcreateserial".split(" "),
      ...["-in", `${name}.csr`, "-out", `${name}.pem`, "-days", days, "-extfile", `${name}.ext`],
    );
  };
  await make("good", "DNS:localhost,IP:127.0.0.1,IP:::1", "30");
  await make("wrong", "DNS:other.example", "30");
  await make("expired", "DNS:localhost,IP:127.0.0.1", "-1");
  const read = (file: string) => Deno.readTextFileSync(`${dir}/${file}`);
  return {
    ca: read("ca.pem"),
    otherCa: read("other.pem"),
    cert: (name) => ({ cert: read(`${name}.pem`), key: read(`${name}.key`) }),
    path: (name) => ({ cert: `${dir}/${name}.pem`, key: `${dir}/${name}.key` }),
  };
}
