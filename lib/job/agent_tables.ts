/** @module The tables `[harness.NAME]` and `[mcp.NAME]` of a home's `config.toml`. */

import type * as z from "zod";
import { ConfigError, parseTable } from "../home/config/mod.ts";
import type { AgentTables } from "./agent_request.ts";
import { harnessTables, mcpTables } from "./harness_config.ts";

/** Read them; `file` is where they are. Throws `ConfigError` with a line for each mistake. */
export function agentTables(
  config: { readonly harness: unknown; readonly mcp: unknown },
  file: string,
): AgentTables {
  const problems: string[] = [];
  const read = <T>(schema: z.ZodType<T>, key: "harness" | "mcp"): T | null => {
    try {
      return parseTable(schema, config[key], key, file);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      problems.push(...error.problems);
      return null;
    }
  };
  const [harness, mcp] = [read(harnessTables, "harness"), read(mcpTables, "mcp")];
  if (harness === null || mcp === null) throw new ConfigError(problems);
  return { harness, mcp };
}
