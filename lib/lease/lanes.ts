/**
 * @module Lanes: jobs of one kind with the same requirements fit the same workers, so they wait in one lane, and a
 * worker looks at the lanes that it fits instead of at every job.
 */

import * as z from "zod";
import { SubletError } from "../home/mod.ts";
import type { Submission } from "./kind.ts";

/** What a lane's text says. */
export interface Lane {
  readonly kind: string;
  readonly pool: string | null;
  readonly runner: string | null;
  readonly labels: readonly string[];
}

const laneParts = z.tuple([
  z.string(),
  z.string().nullable(),
  z.string().nullable(),
  z.array(z.string()),
]);

/** How many labels a job may require, and how long a name in its requirements may be. */
const MAX_LABELS = 64;
const MAX_NAME = 200;

/** The lane of a job, as its canonical text. Throws `invalid_request` for requirements beyond the bounds. */
export function laneOf(kind: string, requires: Submission["requires"]): string {
  const labels = [...new Set(requires.labels ?? [])].sort();
  const names = [kind, requires.pool ?? "", requires.runner ?? "", ...labels];
  if (labels.length > MAX_LABELS || names.some((name) => name.length > MAX_NAME)) {
    throw new SubletError(
      "invalid_request",
      `a job requires at most ${MAX_LABELS} labels, each name at most ${MAX_NAME} characters long`,
    );
  }
  return JSON.stringify([kind, requires.pool ?? null, requires.runner ?? null, labels]);
}

/** What {@linkcode laneOf} made. */
export function parseLane(text: string): Lane {
  const [kind, pool, runner, labels] = laneParts.parse(JSON.parse(text));
  return { kind, pool, runner, labels };
}

/** What a worker offers, as lanes see it. Workers that offer the same share one object. */
export class Profile {
  readonly pool: string;
  readonly runners: ReadonlySet<string>;
  readonly labels: ReadonlySet<string>;

  constructor(pool: string, runners: Iterable<string>, labels: Iterable<string>) {
    this.pool = pool;
    this.runners = new Set(runners);
    this.labels = new Set(labels);
  }

  /** What a worker with this profile lacks for `lane`, or null when it fits. */
  lacks(lane: Lane): string | null {
    if (lane.pool !== null && lane.pool !== this.pool) return `pool ${lane.pool}`;
    if (lane.runner !== null && !this.runners.has(lane.runner)) return `runner ${lane.runner}`;
    const label = lane.labels.find((each) => !this.labels.has(each));
    return label === undefined ? null : `label ${label}`;
  }
}

/** The profiles in use. */
export class Profiles {
  readonly #byText = new Map<string, { profile: Profile; users: number }>();

  /** The profile of a worker, which {@linkcode release} gives back. */
  take(pool: string, runners: readonly string[], labels: readonly string[]): Profile {
    const text = JSON.stringify([pool, [...runners].sort(), [...labels].sort()]);
    let known = this.#byText.get(text);
    if (known === undefined) {
      known = { profile: new Profile(pool, runners, labels), users: 0 };
      this.#byText.set(text, known);
    }
    known.users++;
    return known.profile;
  }

  release(profile: Profile): void {
    for (const [text, known] of this.#byText) {
      if (known.profile !== profile) continue;
      if (--known.users === 0) this.#byText.delete(text);
      return;
    }
  }
}
