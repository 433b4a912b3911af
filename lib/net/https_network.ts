/** @module The network `https`: one TCP listener, TLS of our own or of a proxy before it, callers by token. */

import type { Config } from "../home/config/mod.ts";
import { type Address, formatAddress, listenReason, messageOf, SubletError } from "../home/mod.ts";
import type { Network, Refused } from "./contract.ts";

/** A certificate chain and its key, PEM. */
export interface Tls {
  readonly cert: string;
  readonly key: string;
}

/** The server's side of `[plugins.network] provider = "https"`. */
export class HttpsNetwork implements Network {
  readonly takesTokens = true;
  /** Where the server listens. Null: only on the home's Unix socket. */
  readonly listen: Address | null;
  /** What the listener ends TLS with. Null: it speaks plain HTTP. */
  readonly tls: Tls | null;
  /** Where machines that the server starts dial it. */
  readonly url: string | null;

  private constructor(listen: Address | null, tls: Tls | null, url: string | null) {
    this.listen = listen;
    this.tls = tls;
    this.url = url;
  }

  /**
   * The network of a parsed `[plugins.network]`. Throws `config` when it may not listen there without TLS, and for a
   * certificate or key that cannot be used.
   */
  static async open(config: Config["network"]): Promise<HttpsNetwork> {
    const { listen, tls, url } = config;
    const reason = listen === null ? null : listenReason(listen, tls);
    if (listen !== null && reason !== null) {
      throw new SubletError("config", `${formatAddress(listen)}: ${reason}`);
    }
    if (tls === null || tls === "proxy") return new HttpsNetwork(listen, null, url);
    const cert = await readPem(tls.cert, "cert", /-----BEGIN CERTIFICATE-----/);
    const key = await readPem(tls.key, "key", /-----BEGIN (RSA |EC )?PRIVATE KEY-----/);
    return new HttpsNetwork(listen, { cert, key }, url);
  }

  identify(headers: Headers): Refused {
    const token =
      "with `Authorization: Bearer TOKEN`: `sublet token create NAME` on the server makes one";
    return {
      refused: headers.has("authorization")
        ? `this Authorization is no bearer token: say who you are ${token}`
        : `say who you are ${token}`,
    };
  }
}

async function readPem(path: string, name: string, what: RegExp): Promise<string> {
  let text: string;
  try {
    text = await Deno.readTextFile(path);
  } catch (error) {
    throw new SubletError(
      "config",
      `plugins.network.tls.${name} = ${JSON.stringify(path)}: cannot be read: ${messageOf(error)}`,
      { cause: error },
    );
  }
  if (what.test(text) && !text.includes("ENCRYPTED")) return text;
  throw new SubletError(
    "config",
    `plugins.network.tls.${name} = ${JSON.stringify(path)}: must be PEM` +
      (name === "key" ? ", and its key not encrypted" : ", the server's certificate first"),
  );
}
