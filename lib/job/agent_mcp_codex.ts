/**
 * @module MCP servers for Codex. Its `-c` flags are merged into the person's configuration, which can only be told to
 * leave a server out by name. So it is asked which it would load, each is switched off, and it is asked again.
 */

import * as z from "zod";
import { SubletError } from "../home/mod.ts";
import type { McpHost, Rendered, Servers } from "./agent_mcp.ts";
import type { McpServer } from "./agent_shapes.ts";

/** Servers that come from plugins and from the account's apps have no table that could be switched off. */
const OFF = ["-c", "features.apps=false", "-c", "features.plugins=false"];
const listing = z.array(z.object({ name: z.string(), enabled: z.boolean().default(true) }));

/** `value` as TOML on one line. A JSON string is one of TOML, but for DEL. */
export function tomlValue(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value).replaceAll("\x7f", "\\u007f");
  if (Array.isArray(value)) return `[${value.map(tomlValue).join(", ")}]`;
  if (typeof value === "object" && value !== null) {
    const pairs = Object.entries(value).map(([key, each]) =>
      `${/^[A-Za-z0-9_-]+$/.test(key) ? key : tomlValue(key)} = ${tomlValue(each)}`
    );
    return `{${pairs.join(", ")}}`;
  }
  throw new SubletError("internal", `no TOML for ${typeof value}`);
}

function table(server: McpServer): Record<string, unknown> {
  if (server.command !== null) {
    const [command, ...args] = server.command;
    return { command, args, ...(server.env.length > 0 ? { env_vars: server.env } : {}) };
  }
  const headers = Object.keys(server.headers_env).length > 0
    ? { env_http_headers: server.headers_env }
    : {};
  const bearer = server.bearer_token_env === null
    ? {}
    : { bearer_token_env_var: server.bearer_token_env };
  return { url: server.url, ...headers, ...bearer };
}

/** Every variable that holds a secret of `servers`. */
function variables(servers: Servers): string[] {
  const names = Object.values(servers).flatMap(({ headers_env, bearer_token_env, env }) => [
    ...Object.values(headers_env),
    ...(bearer_token_env === null ? [] : [bearer_token_env]),
    ...env,
  ]);
  return [...new Set(names)];
}

/** The servers of `codex mcp list` under `flags`. */
async function listed(host: McpHost, flags: readonly string[]): Promise<Map<string, boolean>> {
  const own = host.args.flatMap((arg, at) => {
    const flag = host.args[at - 1];
    return flag === "-c" || flag === "--config" ? ["-c", arg] : [];
  });
  const said = await host.ask([...own, ...flags, "mcp", "list", "--json"]);
  try {
    return new Map(listing.parse(JSON.parse(said)).map(({ name, enabled }) => [name, enabled]));
  } catch (cause) {
    throw new SubletError(
      "failed",
      `codex mcp list printed no list of servers: ${said.slice(0, 200)}`,
      {
        cause,
      },
    );
  }
}

/** For Codex: those servers, and none of the person's. Throws `failed` when it would load others. */
export async function renderCodex(servers: Servers, host: McpHost): Promise<Rendered> {
  const theirs = await listed(host, OFF);
  const clash = Object.keys(servers).filter((name) => theirs.has(name));
  if (clash.length > 0) {
    throw new SubletError(
      "failed",
      `the configuration of Codex on this worker has MCP servers that the job names too: ${
        clash.join(", ")
      }. Rename one of each`,
    );
  }
  for (const name of theirs.keys()) {
    if (!/^[A-Za-z0-9_-]+$/.test(name)) {
      throw new SubletError(
        "failed",
        `Codex's MCP server ${JSON.stringify(name)} cannot be switched off`,
      );
    }
  }
  const args = [
    ...OFF,
    ...[...theirs.keys()].flatMap((name) => ["-c", `mcp_servers.${name}.enabled=false`]),
    ...Object.entries(servers).flatMap(([name, server]) => [
      "-c",
      `mcp_servers.${name}=${tomlValue(table(server))}`,
    ]),
    // Its own shell commands do not get what only servers need.
    "-c",
    `shell_environment_policy.exclude=${tomlValue(variables(servers))}`,
  ];
  const loads = [...await listed(host, args)].filter(([, enabled]) => enabled).map(([name]) =>
    name
  );
  const wanted = Object.keys(servers).sort();
  if (loads.sort().join("\n") !== wanted.join("\n")) {
    throw new SubletError(
      "failed",
      `Codex would load the MCP servers ${loads.join(", ") || "(none)"}, not ${
        wanted.join(", ") || "(none)"
      }`,
    );
  }
  return { args, env: {} };
}
