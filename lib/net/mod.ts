/** @module The door of `lib/net`: networks, tokens and access, the HTTP server and client. */

export type * from "./contract.ts";
