/** @module What a request for evaluations asks for, found out before any row is made: versions, inputs, evaluators. */

import type * as z from "zod";
import { type Cas, type Cid, type Seen, SeenFiles } from "../cas/mod.ts";
import { SubletError } from "../home/mod.ts";
import type { gitTable, Repository, Vcs, Version } from "../vcs/mod.ts";
import { repeatsOf } from "./campaign_config.ts";
import { commandPaths, evaluatorId } from "./campaign_evaluator.ts";
import { storeLinks } from "./campaign_links.ts";
import type { Campaign } from "./campaign_store.ts";
import type { Source } from "./shapes.ts";

/** The most revisions of one request. */
export const MAX_REVISIONS = 1000;

/** The most runs of one evaluation. */
export const MAX_REPEATS = 1000;

const LOOKUPS_AT_ONCE = 8;
const REMEMBERED = 5_000;

/** What to measure, and how. */
export interface EvaluationRequest {
  /** Revisions, branches or tags of the repo of record: one evaluation each. */
  readonly revisions: readonly string[];
  /** Runs of the command. Default: the largest `repeats` of the metrics when there is a bar, else 1. */
  readonly repeats?: number;
  /** Run the bar beside each, in pairs, and compare. */
  readonly against?: string;
  /** Only on workers of this pool. */
  readonly pool?: string;
  /** Higher goes first. Default 0. */
  readonly priority?: number;
  /** Names the request within its campaign: asked again, it makes nothing more. */
  readonly dedup?: string;
}

/** A version to measure. */
export interface Measured {
  readonly version: Version;
  readonly artifact: Source;
  readonly evaluator: string;
}

/** A request with everything that its rows need. */
export interface PreparedRequest {
  readonly candidates: readonly Measured[];
  readonly bar: Measured | null;
  readonly repeats: number;
}

/** Looks up what requests ask for. */
export class Preparer {
  readonly #vcs: Vcs;
  readonly #cas: Cas;
  readonly #seen: Seen;
  readonly #scripts = new Scripts();

  /** `seen`: what is known of linked inputs, which need not be read then. */
  constructor(vcs: Vcs, cas: Cas, seen: Seen = new SeenFiles()) {
    this.#vcs = vcs;
    this.#cas = cas;
    this.#seen = seen;
  }

  /** Throws `not_found` for a name that the repo of record does not have. */
  async prepare(campaign: Campaign, request: EvaluationRequest): Promise<PreparedRequest> {
    check(request);
    const repository = await this.#vcs.open(campaign.path, campaign.config.plugins.vcs);
    const names = request.against === undefined
      ? request.revisions
      : [request.against, ...request.revisions];
    const [versions, links] = await Promise.all([
      lookUp(repository, names),
      storeLinks(this.#cas, campaign.path, campaign.config.link, this.#seen),
    ]);
    const measured = await this.#measure(campaign, repository, versions, links);
    const [first, ...rest] = measured;
    const bar = request.against === undefined ? null : first ?? null;
    return {
      candidates: bar === null ? measured : rest,
      bar,
      repeats: request.repeats ?? (bar === null ? 1 : repeatsOf(campaign.config)),
    };
  }

  /** What measures the checkout's head now. */
  async evaluatorOf(campaign: Pick<Campaign, "path" | "config">): Promise<string> {
    const repository = await this.#vcs.open(campaign.path, campaign.config.plugins.vcs);
    const head = await repository.head();
    const links = await storeLinks(this.#cas, campaign.path, campaign.config.link, this.#seen);
    return await this.#evaluator(campaign, repository, head.revision, links);
  }

  async #measure(
    campaign: Campaign,
    repository: Repository,
    versions: readonly Version[],
    links: Readonly<Record<string, Cid>>,
  ): Promise<Measured[]> {
    const evaluators = new Map<string, string>();
    await each([...new Set(versions.map(({ revision }) => revision))], async (revision) => {
      evaluators.set(revision, await this.#evaluator(campaign, repository, revision, links));
    });
    return versions.map((version) => ({
      version,
      artifact: artifactOf(campaign, version.revision, links),
      evaluator: evaluators.get(version.revision) ?? "",
    }));
  }

  async #evaluator(
    { config }: Pick<Campaign, "config">,
    repository: Repository,
    revision: string,
    links: Readonly<Record<string, Cid>>,
  ): Promise<string> {
    const files = await this.#scripts.of(repository, revision, commandPaths(config.evaluate));
    return evaluatorId({ config, files, links });
  }
}

/** The files that commands name, by revision. A revision never changes, so each is looked up once. */
class Scripts {
  readonly #known = new Map<string, ReadonlyMap<string, string>>();

  async of(
    repository: Repository,
    revision: string,
    paths: readonly string[],
  ): Promise<ReadonlyMap<string, string>> {
    const key = JSON.stringify([revision, paths]);
    const before = this.#known.get(key);
    if (before !== undefined) return before;
    const found = await repository.objects(revision, paths);
    if (this.#known.size >= REMEMBERED) this.#known.clear();
    this.#known.set(key, found);
    return found;
  }
}

function check({ revisions, repeats, against }: EvaluationRequest): void {
  const wrong = (message: string) => new SubletError("invalid_request", message);
  if (revisions.length === 0) throw wrong("revisions: name at least one revision to measure");
  if (revisions.length > MAX_REVISIONS) {
    throw wrong(`revisions: ${revisions.length} are too many; ask for at most ${MAX_REVISIONS}`);
  }
  if (
    repeats !== undefined && !(Number.isInteger(repeats) && repeats >= 1 && repeats <= MAX_REPEATS)
  ) {
    throw wrong(`repeats: ${repeats} is no whole number from 1 to ${MAX_REPEATS}`);
  }
  if (against === "") throw wrong("against: name the revision to measure beside");
}

async function lookUp(repository: Repository, names: readonly string[]): Promise<Version[]> {
  const found = new Map<string, Version>();
  await each([...new Set(names)], async (name) => {
    found.set(name, await repository.version(name));
  });
  return names.flatMap((name) => found.get(name) ?? []);
}

/** What a job of a campaign gets: the files of `revision`, with `links` in them. */
export function artifactOf(
  campaign: Campaign,
  revision: string,
  links: Readonly<Record<string, Cid>>,
): Source {
  return {
    vcs: vcsOf(campaign.config.plugins.vcs),
    repo: campaign.id,
    revision,
    links: { ...links },
    workspace: null,
    history: [],
  };
}

/** Without what a worker takes for granted: one of piloop refuses keys that it does not know. */
function vcsOf({ provider, submodules, lfs }: z.output<typeof gitTable>): Source["vcs"] {
  return {
    provider,
    ...(submodules === "refuse" ? {} : { submodules }),
    ...(lfs === "refuse" ? {} : { lfs }),
  };
}

/** Run `work` on every item, some at once; the first failure is thrown once none runs any more. */
async function each<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = [...items];
  const failures: unknown[] = [];
  await Promise.all(Array.from({ length: LOOKUPS_AT_ONCE }, async () => {
    for (
      let item = left.shift();
      item !== undefined && failures.length === 0;
      item = left.shift()
    ) {
      await work(item).catch((error) => failures.push(error));
    }
  }));
  if (failures.length > 0) throw failures[0];
}
