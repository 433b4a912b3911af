/**
 * @module The server's side of `send`: what a worker lacks goes into the CAS. A worker that has nothing gets the first
 * transfer, the whole history, which is built once for all of them and remembered.
 */

import type { Cas, Cid } from "../cas/mod.ts";
import { type Clock, isError, type Log, messageOf, SubletError } from "../home/mod.ts";
import type { Repository, Sent } from "./contract.ts";
import { SentCache } from "./sent_cache.ts";

/** A first transfer as it is remembered. */
export interface FirstTransfer extends Sent {
  /** The commit whose whole history it holds. */
  readonly revision: string;
}

/** Where first transfers are remembered, by repo (the campaign's id). */
export interface FirstTransferStore {
  recall(repo: number): Promise<FirstTransfer | null>;
  remember(repo: number, transfer: FirstTransfer): Promise<void>;
}

/** What {@linkcode Transfers} work with. */
export interface TransfersPorts {
  readonly cas: Cas;
  readonly clock: Clock;
  readonly log: Log;
  readonly store: FirstTransferStore;
  /** The repo of record, or `not_found`. */
  open(repo: number): Promise<Repository>;
}

/** When what is newer is this share of the first transfer, it is built anew: each new worker fetches both. */
const STALE_SHARE = 0.25;

/** A store of first transfers that forgets them with its process. */
export function memoryTransfers(): FirstTransferStore {
  const transfers = new Map<number, FirstTransfer>();
  return {
    recall: (repo) => Promise.resolve(transfers.get(repo) ?? null),
    remember: (repo, transfer) => Promise.resolve(void transfers.set(repo, transfer)),
  };
}

/** Puts what workers ask for into the CAS. */
export class Transfers {
  readonly #ports: TransfersPorts;
  readonly #sent: SentCache;
  /** First transfers that are being built. */
  readonly #building = new Map<number, Promise<FirstTransfer>>();
  /** Why the last build failed, until somebody was told. */
  readonly #failed = new Map<number, unknown>();

  constructor(ports: TransfersPorts) {
    this.#ports = ports;
    this.#sent = new SentCache(ports.cas);
  }

  /**
   * Put what `revisions` of `repo` have beyond `have` into the CAS: the blobs to take, in order. Null: the first
   * transfer was still being built after `waitMs` (or when `signal` aborted), so ask again. Rejects with `not_sent` and
   * the cause when it cannot.
   */
  async send(
    repo: number,
    revisions: readonly string[],
    have: readonly string[],
    waitMs: number,
    signal?: AbortSignal,
  ): Promise<Cid[] | null> {
    try {
      if (revisions.length === 0) return [];
      const repository = await this.#ports.open(repo);
      const known = await repository.has([...revisions, ...have]);
      const wanted = revisions.filter((revision) => known.has(revision));
      if (wanted.length === 0) {
        throw new SubletError(
          "not_found",
          `the repository at ${repository.path} does not hold commit ${
            revisions[0]
          }. Push it there first`,
        );
      }
      const held = have.filter((revision) => known.has(revision));
      if (held.length > 0) return blobs(await this.#beyond(repo, repository, wanted, held));
      const first = await this.#first(repo, repository, wanted, waitMs, signal);
      return first === null ? null : await this.#withNewer(repo, repository, first, wanted);
    } catch (error) {
      throw notSent(repo, error);
    }
  }

  #beyond(
    repo: number,
    repository: Repository,
    revisions: readonly string[],
    have: readonly string[],
  ): Promise<Sent | null> {
    return this.#sent.of(
      repo,
      revisions,
      have,
      () => repository.send(this.#ports.cas, revisions, have),
    );
  }

  /** The first transfer and what `revisions` have beyond it. When that is much, a new one is begun for who comes next. */
  async #withNewer(
    repo: number,
    repository: Repository,
    first: FirstTransfer,
    revisions: readonly string[],
  ): Promise<Cid[]> {
    const newer = await this.#beyond(repo, repository, revisions, [first.revision]);
    if (newer === null) return [first.blob];
    if (newer.bytes > first.bytes * STALE_SHARE && !this.#building.has(repo)) {
      const tip = await newest(repository, revisions);
      if (tip !== first.revision) this.#renew(repo, repository, tip);
    }
    return [first.blob, newer.blob];
  }

  /** Build the first transfer again, for who comes next. The one before still serves, so a failure harms nobody. */
  #renew(repo: number, repository: Repository, tip: string): void {
    this.#build(repo, repository, () => Promise.resolve(tip)).catch((error) =>
      this.#ports.log.event("vcs.first_transfer_failed", { repo, error: messageOf(error) })
    );
  }

  /** The first transfer, built when it is not there; null when it is not ready in time. */
  async #first(
    repo: number,
    repository: Repository,
    revisions: readonly string[],
    waitMs: number,
    signal?: AbortSignal,
  ): Promise<FirstTransfer | null> {
    const failure = this.#failed.get(repo);
    if (this.#failed.delete(repo)) throw failure;
    const running = this.#building.get(repo);
    const remembered = await this.#recall(repo, repository);
    if (remembered !== null) return remembered;
    const building = running ?? this.#building.get(repo) ??
      this.#build(repo, repository, () => newest(repository, revisions));
    const waiting = new AbortController();
    const stop = () => waiting.abort();
    signal?.addEventListener("abort", stop, { once: true });
    if (signal?.aborted) stop();
    try {
      const outcome = await Promise.race([
        building.then((built) => ({ built }), (error) => ({ error })),
        this.#ports.clock.sleep(waitMs, waiting.signal).then(() => null),
      ]);
      if (outcome === null) {
        // This caller comes again: a failure until then is for whoever asks next.
        building.catch((error) => this.#failed.set(repo, error));
        return null;
      }
      if ("error" in outcome) {
        this.#failed.delete(repo);
        throw outcome.error;
      }
      return outcome.built;
    } finally {
      stop();
      signal?.removeEventListener("abort", stop);
    }
  }

  /** The remembered first transfer, when the CAS and the repository still hold it. */
  async #recall(repo: number, repository: Repository): Promise<FirstTransfer | null> {
    const remembered = await this.#ports.store.recall(repo);
    if (remembered === null || !await this.#ports.cas.has(remembered.blob)) return null;
    return (await repository.has([remembered.revision])).size === 1 ? remembered : null;
  }

  /** Build the first transfer of `repo` up to `tip`, and remember it. */
  #build(
    repo: number,
    repository: Repository,
    tip: () => Promise<string>,
  ): Promise<FirstTransfer> {
    const build = async () => {
      const { cas, clock, log, store } = this.#ports;
      const since = clock.monotonic();
      const upTo = await tip();
      const sent = await repository.send(cas, [upTo], []);
      if (sent === null) {
        throw new SubletError("not_found", `commit ${upTo} is gone from ${repository.path}`);
      }
      const first = { ...sent, revision: upTo };
      await store.remember(repo, first);
      log.event("vcs.first_transfer", {
        repo,
        revision: upTo,
        bytes: sent.bytes,
        seconds: (clock.monotonic() - since) / 1000,
      });
      return first;
    };
    const building = build().finally(() => this.#building.delete(repo));
    this.#building.set(repo, building);
    return building;
  }
}

const blobs = (sent: Sent | null): Cid[] => sent === null ? [] : [sent.blob];

/** What to build a first transfer up to: the head, or the last of `revisions` while there is none. */
async function newest(repository: Repository, revisions: readonly string[]): Promise<string> {
  try {
    return (await repository.head()).revision;
  } catch (error) {
    const last = revisions.at(-1);
    if (last === undefined) throw error;
    return last;
  }
}

function notSent(repo: number, cause: unknown): SubletError {
  if (isError(cause, "not_sent", "invalid_request")) return cause;
  return new SubletError("not_sent", `cannot send commits of repo ${repo}: ${messageOf(cause)}`, {
    cause,
  });
}
