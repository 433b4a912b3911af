/**
 * @module The MCP servers of an agent, in its harness's own form. Variables are named and never valued: the harness
 * expands `${NAME}` from its environment, where secrets are.
 *
 * | renderer | form |
 * | --- | --- |
 * | `claude` | `--strict-mcp-config --mcp-config JSON` of Claude Code |
 * | `codex` | `-c mcp_servers.NAME={…}` for each, and the person's own switched off (`agent_mcp_codex.ts`) |
 * | `pi` | a file for `pi-mcp-adapter`, which then reads nothing else |
 */

import { SubletError } from "../home/mod.ts";
import type { McpServer } from "./agent_shapes.ts";

/** Servers by name. */
export type Servers = Readonly<Record<string, McpServer>>;

/** What `{mcp}` becomes. */
export interface Rendered {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** What a renderer may do on the agent's machine. */
export interface McpHost {
  /** Write a file that the harness reads; its absolute path. */
  write(name: string, text: string): Promise<string>;
  /** Run the harness with `args`, as the agent would run: what it printed. Throws `failed`. */
  ask(args: readonly string[]): Promise<string>;
  /** The agent's arguments, with `{mcp}` in them. */
  readonly args: readonly string[];
}

/** The adapter of pi, which has no servers for one run itself. A later major release changes the person's settings. */
const PI_ADAPTER = "npm:pi-mcp-adapter@4.0.0";

/** Refuse a server that no harness could use. Throws `failed`. */
export function checkServers(servers: Servers): void {
  for (const [name, server] of Object.entries(servers)) {
    const wrong = (server.url === null) === (server.command === null)
      ? "it needs either a url or a command"
      : server.url === null &&
          (server.bearer_token_env !== null || Object.keys(server.headers_env).length > 0)
      ? "headers are for a url"
      : server.command === null && server.env.length > 0
      ? "variables are for a command"
      : server.bearer_token_env !== null &&
          Object.keys(server.headers_env).some((each) => each.toLowerCase() === "authorization")
      ? "it has two values for Authorization"
      : null;
    if (wrong !== null) throw new SubletError("failed", `the MCP server ${name}: ${wrong}`);
  }
}

/** A server as Claude Code and pi's adapter read it. */
function entry(server: McpServer, typed: boolean): Record<string, unknown> {
  if (server.command !== null) {
    const [command, ...args] = server.command;
    const env = Object.fromEntries(server.env.map((name) => [name, `\${${name}}`]));
    const common = { command, args, ...(server.env.length > 0 ? { env } : {}) };
    return typed ? { type: "stdio", ...common } : common;
  }
  const headers: Record<string, string> = {};
  for (const [name, variable] of Object.entries(server.headers_env)) {
    headers[name] = `\${${variable}}`;
  }
  if (server.bearer_token_env !== null) {
    headers["Authorization"] = `Bearer \${${server.bearer_token_env}}`;
  }
  const common = { url: server.url, ...(Object.keys(headers).length > 0 ? { headers } : {}) };
  return typed ? { type: "http", ...common } : common;
}

/** The configuration of `servers`, as JSON. */
function configOf(servers: Servers, typed: boolean): string {
  const entries = Object.entries(servers).map(([name, each]) => [name, entry(each, typed)]);
  return JSON.stringify({ mcpServers: Object.fromEntries(entries) });
}

/** For Claude Code: those servers, and none of the person's. */
export function renderClaude(servers: Servers): Rendered {
  const none = Object.keys(servers).length === 0;
  const config = none ? [] : ["--mcp-config", configOf(servers, true)];
  return { args: ["--strict-mcp-config", ...config], env: {} };
}

/** For pi, whose own extensions are off. */
export async function renderPi(servers: Servers, host: McpHost): Promise<Rendered> {
  if (Object.keys(servers).length === 0) return { args: [], env: {} };
  const path = await host.write("mcp.json", configOf(servers, false));
  return {
    args: ["-e", PI_ADAPTER, "--mcp-config", path],
    env: { PI_MCP_CONFIG_MODE: "exclusive" },
  };
}
