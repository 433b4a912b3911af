/** @module A campaign's file: `sublet.toml` in the root of its repo, or else `piloop.toml`. */

import { parse, TomlError } from "smol-toml";
import { messageOf, SubletError } from "../home/mod.ts";
import { type CampaignConfig, campaignConfig, metricConfig } from "./campaign_config.ts";
import { problemLines } from "./campaign_problems.ts";
import { harnessTable, mcpTable } from "./harness_config.ts";

/** The names of a campaign's file, the first that exists is read. */
export const CAMPAIGN_FILES = ["sublet.toml", "piloop.toml"] as const;

const MAX_BYTES = 1024 * 1024;

/** A campaign's file that was read. */
export interface CampaignFile {
  /** Its absolute path. */
  readonly path: string;
  readonly config: CampaignConfig;
}

/**
 * Read the campaign's file in `root`. Throws `not_found` when neither is there, and `invalid_request` with one line
 * for each mistake.
 */
export async function loadCampaign(root: string): Promise<CampaignFile> {
  for (const name of CAMPAIGN_FILES) {
    const path = `${root}/${name}`;
    const text = await readText(path);
    if (text === null) continue;
    const checked = checkCampaign(text, path);
    if ("config" in checked) return { path, config: checked.config };
    throw new SubletError("invalid_request", checked.problems.join("\n"));
  }
  throw new SubletError(
    "not_found",
    `${root} has no ${CAMPAIGN_FILES.join(" and no ")}: write one with 'sublet init'`,
  );
}

/** Check the text of a campaign's file; each problem is one line that names `file`, key, value and rule. */
export function checkCampaign(
  text: string,
  file: string,
): { config: CampaignConfig } | { problems: string[] } {
  let raw: unknown;
  try {
    raw = parse(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const why = (messageOf(error).split("\n")[0] ?? "").replace(/^Invalid TOML document: /, "");
    return {
      problems: [`line ${error.line}, column ${error.column}: is not TOML: ${why} (in ${file})`],
    };
  }
  const checked = campaignConfig.safeParse(raw);
  if (checked.success) return { config: checked.data };
  return { problems: problemLines(file, raw, checked.error.issues, knownKeys) };
}

async function readText(path: string): Promise<string | null> {
  try {
    const { size } = await Deno.stat(path);
    if (size > MAX_BYTES) {
      throw new SubletError(
        "too_large",
        `${path} holds ${size} bytes: at most ${MAX_BYTES} are read`,
      );
    }
    return await Deno.readTextFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    if (error instanceof SubletError) throw error;
    throw new SubletError("failed", `${path} cannot be read: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

function knownKeys(path: readonly PropertyKey[]): readonly string[] {
  if (path.length === 0) return Object.keys(campaignConfig.shape);
  if (path[0] === "metrics") return Object.keys(metricConfig.shape);
  if (path[0] === "tracks") return ["share", "addendum"];
  if (path[0] === "harness") {
    const { usage } = harnessTable.shape;
    return Object.keys(path[2] === "usage" ? usage.unwrap().shape : harnessTable.shape);
  }
  if (path[0] === "mcp") return Object.keys(mcpTable.shape);
  if (path[0] !== "plugins") return [];
  if (path[1] === undefined) return Object.keys(campaignConfig.shape.plugins.unwrap().shape);
  const { verdict_rule: rule, vcs } = campaignConfig.shape.plugins.unwrap().shape;
  if (path[1] === "verdict_rule") return Object.keys(rule.unwrap().shape);
  return path[1] === "vcs" ? Object.keys(vcs.unwrap().shape) : [];
}
