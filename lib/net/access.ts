/** @module Who sends a request, and whether it may: middleware for Hono. */

import { createMiddleware } from "hono/factory";
import { type Clock, SubletError, systemClock } from "../home/mod.ts";
import type { Access, Caller, Network, Peer } from "./contract.ts";
import { AuthThrottle } from "./throttle.ts";
import type { Tokens } from "./tokens.ts";

/** What our middleware and server put in a Hono context: `c.env` is the peer, `c.get("caller")` who calls. */
export interface NetEnv {
  Bindings: Peer;
  Variables: { caller: Caller };
}

const GRANTS: Readonly<Record<Access, readonly Access[]>> = {
  read: ["read"],
  act: ["read", "act"],
  admin: ["read", "act", "admin"],
  worker: ["worker"],
};

/** Whether a caller of access `has` may use a route that needs `needed`. `worker` is apart from the others. */
export function allows(has: Access, needed: Access): boolean {
  return GRANTS[has].includes(needed);
}

/** The owner of the home, who is whoever can open its Unix socket. */
const OWNER: Caller = { name: "owner", access: "admin", pool: null };

const UNKNOWN_TOKEN =
  "this token is unknown, revoked or expired: `sublet token create NAME` on the server makes one";

/** Who sends a request with `headers` from `peer`. Throws `unauthenticated`. */
export async function identify(
  tokens: Tokens,
  network: Network,
  headers: Headers,
  peer: Peer,
): Promise<Caller> {
  const bearer = /^Bearer +(\S+) *$/i.exec(headers.get("authorization") ?? "")?.[1];
  if (bearer !== undefined && (peer.unix || network.takesTokens)) {
    const caller = await tokens.verify(bearer, peer);
    if (caller === null) throw new SubletError("unauthenticated", UNKNOWN_TOKEN);
    return caller;
  }
  if (bearer?.startsWith("slt_")) {
    throw new SubletError(
      "unauthenticated",
      "the server's network says who its callers are: send no token of the server's own",
    );
  }
  if (peer.unix) return OWNER;
  const caller = network.identify(headers, peer);
  if ("refused" in caller) throw new SubletError("unauthenticated", caller.refused);
  return caller;
}

/** Finds out who calls. An address that fails again and again is told to slow down; a good token does not feel it. */
export class Authenticator {
  readonly #tokens: Tokens;
  readonly #network: Network;
  readonly #throttle: AuthThrottle;

  constructor(tokens: Tokens, network: Network, clock: Clock = systemClock) {
    this.#tokens = tokens;
    this.#network = network;
    this.#throttle = new AuthThrottle(clock);
  }

  /** The caller of a token that was brought before, at once. Null: {@linkcode Authenticator.identify} tells. */
  known(headers: Headers, peer: Peer): Caller | null {
    if (!peer.unix && !this.#network.takesTokens) return null;
    const credential = headers.get("authorization");
    if (credential === null || !credential.startsWith("Bearer ")) return null;
    return this.#tokens.known(credential.slice("Bearer ".length), peer);
  }

  /** Who calls. Throws `unauthenticated`, or `busy` for an address that failed too often. */
  async identify(headers: Headers, peer: Peer): Promise<Caller> {
    try {
      return await identify(this.#tokens, this.#network, headers, peer);
    } catch (error) {
      if (!(error instanceof SubletError) || error.code !== "unauthenticated") throw error;
      const { address } = peer;
      if (address === null || !this.#throttle.failed(address)) throw error;
      throw new SubletError("busy", `${error.message}. Too many such requests: slow down`);
    }
  }
}

/** Find out who calls, or refuse with 401; see {@linkcode Authenticator}. */
export function authenticate(tokens: Tokens, network: Network, clock: Clock = systemClock) {
  const who = new Authenticator(tokens, network, clock);
  return createMiddleware<NetEnv>(async (c, next) => {
    c.set("caller", await who.identify(c.req.raw.headers, c.env));
    await next();
  });
}

/** Throws `permission_denied` unless `caller` may use a route that needs `needed`. */
export function checkAccess(caller: Caller, needed: Access): void {
  if (allows(caller.access, needed)) return;
  throw new SubletError(
    "permission_denied",
    `${caller.name} has the access ${caller.access}, and this needs ${needed}: ` +
      "`sublet token create NAME --access " + needed + "` on the server makes such a token",
  );
}

/** Refuse with 403 a caller without the access `needed`. After {@linkcode authenticate}. */
export function requireAccess(needed: Access) {
  return createMiddleware<NetEnv>(async (c, next) => {
    checkAccess(c.get("caller"), needed);
    await next();
  });
}
