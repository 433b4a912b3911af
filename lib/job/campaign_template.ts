/** @module The files that `init` writes into a repo that has no campaign yet. */

import { CAMPAIGN_FILES } from "./campaign_file.ts";

/** A file to write, in the root of a repo. */
export interface NewFile {
  /** Relative to the root. */
  readonly path: string;
  readonly text: string;
}

/**
 * The files of a new campaign in `root`, none when a campaign's file is there. The command and the metrics stay empty:
 * what measures a commit is for its author to say, and the file does not load before.
 */
export async function campaignFiles(root: string): Promise<NewFile[]> {
  for (const name of CAMPAIGN_FILES) {
    try {
      await Deno.lstat(`${root}/${name}`);
      return [];
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return [{ path: CAMPAIGN_FILES[0], text: campaignTemplate(root) }];
}

/** Write `files` beneath `root`. Rejects with `Deno.errors.AlreadyExists` rather than write over one. */
export async function writeNewFiles(root: string, files: readonly NewFile[]): Promise<void> {
  for (const file of files) {
    await Deno.writeTextFile(`${root}/${file.path}`, file.text, { createNew: true });
  }
}

/** A valid campaign name from the last part of `root`. */
export function campaignName(root: string): string {
  const last = root.split("/").filter((part) => part !== "").at(-1) ?? "";
  const name = last.replaceAll(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "").slice(0, 64);
  return /[^0-9]/.test(name) ? name : `campaign-${name || "1"}`;
}

/** The text of a new campaign's file, for the checkout at `root` (its last part names the campaign). */
export function campaignTemplate(root: string): string {
  return `# A campaign of sublet: what measures a commit of this repo, and which numbers it prints.
# The server runs the copy that 'sublet init' stores: run it again after each edit.

# Names the campaign on its server.
name = "${campaignName(root)}"

# The command, as a list: no shell reads it. It runs in a clean checkout of each commit, and prints
# a line 'METRIC <name>=<number>' for each metric below. An exit code other than 0 is a failure.
evaluate = []             # such as ["python3", "evaluate.py"]

# Seconds for each run of the command.
evaluate_timeout = 600

# Paths of this checkout that git ignores, which each run gets read-only, such as ["data"].
link = []

# One table for each number that the command prints: fill in the first, and copy it for the next.
[[metrics]]
name = ""                 # as the command prints it
direction = ""            # "higher" or "lower": which one is better
role = "primary"          # primary: decides; guardrail: may lose at most its margin; watch: recorded only
# margin = 0.1            # guardrail: the largest loss against the bar, in the metric's own units
# floor = 0.5             # guardrail: a hard limit
# repeats = 3             # a noisy number, such as a time: run the command this often

# [plugins.verdict_rule]
# confidence = 0.95       # of the bound that must show a gain, from 0.5 to below 1
`;
}
