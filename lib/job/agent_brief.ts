/** @module The brief of an agent: its role, the campaign's own text, what it works in, and its task. */

import { isError, messageOf, openBeneath, SubletError } from "../home/mod.ts";
import type { Part } from "../vcs/mod.ts";
import type { Campaign } from "./campaign_store.ts";
import type { RoleTable } from "./harness_config.ts";

/** The campaign's own text, in the root of its checkout. */
const CAMPAIGN_BRIEF = "brief.md";
/** Bytes of one file of a brief. */
const MAX_TEXT = 1024 * 1024;

/** What a brief tells. */
export interface Brief {
  readonly campaign: Campaign;
  readonly role: string;
  readonly table: RoleTable;
  readonly base: string;
  readonly subject: string;
  /** Seconds that it may run. */
  readonly timeout: number;
  readonly task: string;
  /** Whether it goes on with a session of its own. */
  readonly resumes: boolean;
  /** What version control says about a part. */
  readonly words: (part: Part) => string;
}

/** The texts that a brief takes from the campaign's checkout. */
export interface BriefTexts {
  readonly role: string | null;
  readonly campaign: string | null;
  readonly addendum: string | null;
}

/** Read the texts of a role's brief. Throws `invalid_request` for a file that its table names and that is not there. */
export async function readBriefTexts(campaign: Campaign, table: RoleTable): Promise<BriefTexts> {
  const named = async (key: "prompt" | "addendum") => {
    const path = table[key];
    if (path === undefined) return null;
    const text = await readText(campaign.path, path);
    if (text !== null) return text;
    throw new SubletError(
      "invalid_request",
      `the role's ${key} ${path} is not in ${campaign.path}: write it, or correct its path`,
    );
  };
  return {
    role: await named("prompt"),
    campaign: await readText(campaign.path, CAMPAIGN_BRIEF),
    addendum: await named("addendum"),
  };
}

async function readText(root: string, path: string): Promise<string | null> {
  try {
    await using file = await openBeneath(root, path, { what: "a text of the brief" });
    return new TextDecoder().decode(await file.bytes(MAX_TEXT)).trim();
  } catch (error) {
    if (isError(error, "not_found")) return null;
    if (isError(error)) {
      throw new SubletError("invalid_request", messageOf(error), { cause: error });
    }
    throw error;
  }
}

/** The whole text. */
export function briefText(brief: Brief, texts: BriefTexts): string {
  const parts = brief.resumes ? [task(brief), context(brief)] : [
    texts.role,
    texts.campaign,
    texts.addendum,
    context(brief),
    task(brief),
  ];
  return parts.filter((part) => part !== null && part !== "").join("\n\n") + "\n";
}

function task({ task: text, resumes }: Brief): string {
  return `# ${resumes ? "Your next task" : "Your task"}\n\n${text.trim()}`;
}

function context({ campaign, role, base, subject, timeout, resumes, words }: Brief): string {
  const from = `\`${base.slice(0, 12)}\` (${subject})`;
  return [
    "# Where you work",
    "",
    `- You are an agent of the campaign ${campaign.name}, in the role ${role}: \`SUBLET_ACTOR\` names you. Nobody answers questions while you work.`,
    resumes
      ? `- You go on with your session. Your directory is a new ${
        words("checkout")
      } It starts from ${from}, which has what you left.`
      : `- Your directory is ${words("checkout")} It starts from ${from}.`,
    `- ${words("save")}`,
    "- `workspace/` holds files that the campaign's agents share. What you write there comes back when you end. Where somebody else changed the same file meanwhile, yours is kept beside it.",
    `- You may run for ${
      durationText(timeout)
    }: \`SUBLET_DEADLINE\` (\`PILOOP_DEADLINE\`) in your environment is the Unix time at which you are stopped. Save your work before that.`,
  ].join("\n");
}

function durationText(seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  if (minutes < 1) return `${Math.floor(seconds)} seconds`;
  const hours = Math.floor(minutes / 60);
  return hours < 1 ? `${minutes} minutes` : `${hours} h ${minutes % 60} min`;
}
