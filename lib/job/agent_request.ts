/** @module What a request for an agent asks for, found out before any row is made: version, inputs, harness, brief. */

import { type Cas, type Seen, SeenFiles } from "../cas/mod.ts";
import { SubletError } from "../home/mod.ts";
import type { Repository, Vcs, Version } from "../vcs/mod.ts";
import { briefText, type BriefTexts, readBriefTexts } from "./agent_brief.ts";
import type { AgentJob, McpServer, ResumedSession } from "./agent_shapes.ts";
import { storeLinks } from "./campaign_links.ts";
import type { Campaign } from "./campaign_store.ts";
import { artifactOf } from "./evaluation_request.ts";
import { type Harness, harnessNamed, type HarnessTables } from "./harness.ts";
import type { RoleTable } from "./harness_config.ts";
import { makesSessionId, secretsOf, startOf } from "./harness_start.ts";
import type { Requires } from "./job_queue.ts";
import type { Workspaces } from "./workspace.ts";

/** Seconds that an agent may run unless its request or its role says otherwise. */
export const DEFAULT_TIMEOUT = 3600;
/** The most that it may. */
export const MAX_TIMEOUT = 30 * 86_400;
/** The evaluator by which workers say that they can go on with sessions of other machines. */
export const SESSION_RUNNER = "session";
/** A prompt of more characters is put into the brief alone: one argument holds at most 128 KiB. */
const MAX_ARGUMENT = 32_000;

/** What to have done, and how. */
export interface AgentRequest {
  readonly prompt: string;
  /** A revision, branch or tag of the repo of record. Default: its head. */
  readonly base?: string;
  readonly role?: string;
  readonly harness?: string;
  readonly model?: string;
  readonly effort?: string;
  /** What the harness `command` runs. */
  readonly command?: readonly string[];
  /** Seconds that it may run. */
  readonly timeout?: number;
  /** Variables of its environment that hold a secret: the secret's name. */
  readonly secrets?: Readonly<Record<string, string>>;
  readonly pool?: string;
  /** Labels that its worker must have. */
  readonly labels?: readonly string[];
  /** Higher goes first. Default 0. */
  readonly priority?: number;
  /** Names the request within its campaign: asked again, it makes nothing more. */
  readonly dedup?: string;
}

/** The agent that a request goes on with. */
export interface Resumed {
  readonly agent: number;
  readonly session: ResumedSession;
}

/** Tables of a home's config. */
export interface AgentTables {
  readonly harness: HarnessTables;
  readonly mcp: Readonly<Record<string, McpServer>>;
}

/** A request with everything that its row needs. */
export interface PreparedAgent {
  readonly role: string;
  readonly harness: Harness;
  readonly model: string | null;
  readonly effort: string | null;
  readonly version: Version;
  readonly workspace: string;
  readonly timeout: number;
  readonly sessionId: string | null;
  readonly requires: Requires;
  /** The job of agent `id`. */
  job(id: number): AgentJob;
}

/** What a preparer is made of. */
export interface AgentPreparerDeps {
  readonly vcs: Vcs;
  readonly cas: Cas;
  /** What is known of linked inputs, which need not be read then. Default: what this process read. */
  readonly seen?: Seen;
  readonly ids: { uuid(): string };
  readonly workspaces: Workspaces;
  readonly tables: AgentTables;
  /** Other versions that an agent of the campaign may want to read. */
  readonly history: (campaign: number) => Promise<readonly string[]>;
}

/** Looks up what requests ask for. */
export class AgentPreparer {
  readonly #deps: AgentPreparerDeps;
  readonly #seen: Seen;

  constructor(deps: AgentPreparerDeps) {
    this.#deps = deps;
    this.#seen = deps.seen ?? new SeenFiles();
  }

  /**
   * Throws `not_found` for a revision, a harness or a role that there is not, and `invalid_request` for what does not fit
   * together.
   */
  async prepare(
    campaign: Campaign,
    request: AgentRequest,
    resumed: Resumed | null = null,
  ): Promise<PreparedAgent> {
    const { vcs, cas, workspaces, history } = this.#deps;
    check(request);
    const role = request.role ?? "agent";
    const table = roleOf(campaign, request.role);
    const harness = this.#harness(campaign, table, request);
    if (resumed !== null && harness.resume.length === 0) throw cannotResume(harness.name);
    const servers = this.#servers(campaign, table, harness);
    const repository = await vcs.open(campaign.path, campaign.config.plugins.vcs);
    const [version, links, workspace, texts] = await Promise.all([
      repository.version(request.base ?? "HEAD"),
      storeLinks(cas, campaign.path, campaign.config.link, this.#seen),
      workspaces.snapshot(campaign.id),
      readBriefTexts(campaign, table),
    ]);
    const model = request.model ?? table.model?.[harness.name] ??
      campaign.config.model[harness.name] ?? null;
    const effort = request.effort ?? table.effort ?? null;
    const timeout = request.timeout ?? table.timeout ?? DEFAULT_TIMEOUT;
    const brief = await cas.put(new TextEncoder().encode(
      this.#brief({ campaign, role, table, version, timeout, request, resumed, texts }),
    ));
    const artifact = {
      ...artifactOf(campaign, version.revision, links),
      workspace,
      history: await here(repository, await history(campaign.id), version.revision),
    };
    const sessionId = resumed?.session.session_id ??
      (makesSessionId(harness) ? this.#deps.ids.uuid() : null);
    return {
      role,
      harness,
      model,
      effort,
      version,
      workspace: workspace.manifest,
      timeout,
      sessionId,
      requires: requiresOf(request, resumed),
      job: (id) => ({
        kind: "agent",
        agent_session: id,
        runtime: "subprocess",
        artifact,
        place: `agent_sessions/${id}`,
        timeout,
        brief_cid: brief,
        spec: startOf(harness, {
          model,
          effort,
          sessionId,
          prompt: resumed === null ? null : argumentOf(request.prompt),
          resumes: resumed !== null,
          actor: `${role}#${id}`,
        }),
        mcp: harness.mcp,
        servers,
        secrets: { ...secretsOf(harness, servers), ...request.secrets },
        usage: harness.usage,
        session_id: sessionId,
        capture: id,
        resume: resumed?.session ?? null,
      }),
    };
  }

  #harness(campaign: Campaign, table: RoleTable, request: AgentRequest): Harness {
    const name = request.harness ?? table.harnesses?.[0] ?? campaign.config.harnesses[0] ?? "";
    const layers = [this.#deps.tables.harness, campaign.config.harness];
    return harnessNamed(name, layers, request.command);
  }

  #servers(
    campaign: Campaign,
    table: RoleTable,
    harness: Harness,
  ): Record<string, McpServer> {
    const known = { ...this.#deps.tables.mcp, ...campaign.config.mcp };
    const names = table.mcp ?? [];
    if (names.length > 0 && (harness.mcp === null || !harness.headless.includes("{mcp}"))) {
      throw new SubletError(
        "invalid_request",
        `the harness ${harness.name} takes no MCP servers, and the role has ${names.join(", ")}: ` +
          "give [harness] its mcp and an element {mcp}, or take another harness",
      );
    }
    return Object.fromEntries(names.map((name) => {
      const server = Object.hasOwn(known, name) ? known[name] : undefined;
      if (server !== undefined) return [name, server];
      throw new SubletError(
        "not_found",
        `the role's MCP server ${name} has no table [mcp.${name}]`,
      );
    }));
  }

  #brief(of: {
    readonly campaign: Campaign;
    readonly role: string;
    readonly table: RoleTable;
    readonly version: Version;
    readonly timeout: number;
    readonly request: AgentRequest;
    readonly resumed: Resumed | null;
    readonly texts: BriefTexts;
  }): string {
    const { campaign, role, table, version, timeout, request, resumed, texts } = of;
    return briefText({
      campaign,
      role,
      table,
      timeout,
      base: version.revision,
      subject: version.subject,
      task: request.prompt,
      resumes: resumed !== null,
      words: (part) => this.#deps.vcs.prompt(part),
    }, texts);
  }
}

/** The refusal of a prompt for an agent whose harness knows no way to go on. */
export function cannotResume(harness: string): SubletError {
  return new SubletError(
    "conflict",
    `the harness ${harness} cannot go on with a session: it has no resume arguments. Start another agent`,
  );
}

function check({ prompt, timeout }: AgentRequest): void {
  const wrong = (message: string) => new SubletError("invalid_request", message);
  if (prompt.trim() === "") throw wrong("prompt: say what is to be done");
  if (timeout !== undefined && !(timeout > 0 && timeout <= MAX_TIMEOUT)) {
    throw wrong(`timeout: ${timeout} is no number of seconds above 0, at most ${MAX_TIMEOUT}`);
  }
}

function roleOf({ config }: Campaign, name: string | undefined): RoleTable {
  if (name === undefined) {
    return Object.hasOwn(config.roles, "agent") ? config.roles["agent"] ?? {} : {};
  }
  const table = Object.hasOwn(config.roles, name) ? config.roles[name] : undefined;
  if (table !== undefined) return table;
  const known = Object.keys(config.roles).sort().join(", ") || "none";
  throw new SubletError("not_found", `the campaign has no role ${name}: it has ${known}`);
}

function requiresOf({ pool, labels }: AgentRequest, resumed: Resumed | null): Requires {
  return {
    ...(pool === undefined ? {} : { pool }),
    ...(labels === undefined || labels.length === 0 ? {} : { labels }),
    ...(resumed?.session.file == null ? {} : { runner: SESSION_RUNNER }),
  };
}

/**
 * The prompt as an argument; null: the brief is named instead, since it is too long for one, could be taken for an
 * option, or holds what workers fill in.
 */
function argumentOf(prompt: string): string | null {
  const plain = prompt.length <= MAX_ARGUMENT && !/^\s*-|\0|\{(cwd|log_dir|mcp)\}/.test(prompt);
  return plain ? prompt : null;
}

/** Those of `revisions` that the repository still has, without `base`. */
async function here(
  repository: Repository,
  revisions: readonly string[],
  base: string,
): Promise<string[]> {
  const wanted = [...new Set(revisions)].filter((revision) => revision !== base);
  if (wanted.length === 0) return [];
  const found = await repository.has(wanted);
  return wanted.filter((revision) => found.has(revision));
}
