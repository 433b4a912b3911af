/** @module The tables `[harness.NAME]` and `[mcp.NAME]` of a home's `config.toml`. */

import { parseTable } from "../home/config/mod.ts";
import type { AgentTables } from "./agent_request.ts";
import { harnessTables, mcpTables } from "./harness_config.ts";

/** Read them; `file` is where they are. Throws `ConfigError` with a line for each mistake. */
export function agentTables(
  config: { readonly harness: unknown; readonly mcp: unknown },
  file: string,
): AgentTables {
  return {
    harness: parseTable(harnessTables, config.harness, "harness", file),
    mcp: parseTable(mcpTables, config.mcp, "mcp", file),
  };
}
