/** @module The clones of a worker: one for each campaign, shared by its jobs. */

import { join } from "node:path";
import { SubletError } from "../home/mod.ts";
import type { Repository, Supply, Vcs } from "../vcs/mod.ts";
import type { Site } from "./runner.ts";
import type { Source } from "./shapes.ts";

/** Version control providers by name, such as `git`. */
export type VcsByName = Readonly<Record<string, Vcs>>;

/**
 * The clones beneath `<home>/clones`. A provider is one object in a process, and opens each clone once: jobs of one
 * repository take turns in filling it.
 */
export class Clones {
  readonly #site: Site;
  readonly #vcs: VcsByName;

  constructor(site: Site, vcs: VcsByName) {
    this.#site = site;
    this.#vcs = vcs;
  }

  /** The clone that `source` is in; it is made on its first checkout. Throws `failed` for a provider not had here. */
  async of({ vcs, repo }: Source): Promise<Repository> {
    const provider = Object.hasOwn(this.#vcs, vcs.provider) ? this.#vcs[vcs.provider] : undefined;
    if (provider === undefined) {
      throw new SubletError(
        "failed",
        `this worker has no version control provider ${JSON.stringify(vcs.provider)}, only: ` +
          Object.keys(this.#vcs).join(", "),
      );
    }
    return await provider.replica(join(this.#site.home, "clones", String(repo)), vcs);
  }

  /** Where a clone gets what it lacks: from the repo of record, through the CAS. */
  supply(source: Source, signal: AbortSignal): Supply {
    const { cas } = this.#site;
    return {
      cas,
      ask: (revisions, have) => this.#site.send(source.repo, revisions, have, signal),
    };
  }
}
