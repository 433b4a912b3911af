/** @module The door of `lib/web`: the HTTP API and its document. */

export { type ApiDeps, apiRoutes, createApi } from "./api.ts";
export { AgentCommands, type AgentCommandsDeps } from "./agent_commands.ts";
export type { ApiEngine } from "./engine_port.ts";
export { openApi } from "./openapi.ts";
export type { ServerInfo } from "./status_routes.ts";
