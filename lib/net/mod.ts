/** @module The door of `lib/net`: networks, tokens and access, the HTTP server and client. */

export type * from "./contract.ts";
export {
  allows,
  authenticate,
  Authenticator,
  checkAccess,
  identify,
  type NetEnv,
  requireAccess,
} from "./access.ts";
export { credentialFromEnv, CREDENTIALS, tokenOf } from "./credential.ts";
export { errorBody, type ErrorStyle, onError, onNotFound, toResponse } from "./http_error.ts";
export { HttpsNetwork, type Tls } from "./https_network.ts";
export { pathOf } from "./path_of.ts";
export { issueText, readJson } from "./read_json.ts";
export { CALLER_NAME, type TokenInfo, type TokenOptions, Tokens } from "./tokens.ts";
export { type HttpClientOptions, openHttpClient, trustedRoots } from "./client.ts";
export { proxyFor } from "./proxy.ts";
export { type HttpServer, serveHttp, type ServeOptions } from "./server.ts";
export { neverLeft } from "./unreachable.ts";
