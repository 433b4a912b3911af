/** @module The contract of a content-addressed store. Contracts of providers are checked by `checkCas`. */

declare const cidBrand: unique symbol;

/**
 * The text of a BLAKE3 CIDv1 (59 characters), the address of a blob: raw (`bafkr4i…`, what puts return) or DRISL
 * (`bafyr4i…`, manifests). A store goes by the digest alone. Made only by `parseCid` and the hashing functions.
 */
export type Cid = string & { readonly [cidBrand]: true };

/** Bounds of a transfer. */
export interface Limits {
  /** More bytes than this are refused with `too_large`. Default: no bound. */
  readonly maxBytes?: number;
  /** Another number of bytes is refused with `invalid_request`. */
  readonly expectedLength?: number;
  /** Another address is refused with `cid_mismatch`, and nothing is stored (puts only). */
  readonly expectedCid?: Cid;
  readonly signal?: AbortSignal;
  /** Told of each piece's bytes as a source is read; reading goes on when what it returns resolves (puts only). */
  readonly progress?: (bytes: number) => Promise<void> | void;
  /**
   * Each piece of a stream that is read is good only until the next one is asked for. For whoever passes pieces on at
   * once: it spares the collection of as much garbage as the blob is large. Default: they stay good.
   */
  readonly transient?: boolean;
  /** Leave the source as it is when a put fails: whoever gave it takes what is left. Default: it is cancelled. */
  readonly preventCancel?: boolean;
}

/** A blob on its way out. */
export interface BlobBody {
  /** Bytes of the whole blob, when the store knows it without reading. */
  readonly length: number | null;
  /** All of the bytes, when they are at hand and checked anyway. The stream has the same. */
  readonly bytes?: Uint8Array<ArrayBuffer>;
  /** The bytes. The stream errors with `integrity` instead of delivering its last bytes when they do not match. */
  readonly stream: ReadableStream<Uint8Array>;
}

/**
 * A store of blobs by address. Absence is null, bytes that do not match are `integrity`, a storage failure is
 * `unavailable`. A blob is found by its digest. What was put is durable when the call returns, and a put of bytes
 * whose stored object is damaged repairs it.
 */
export interface Cas {
  /** Whether the store holds the blob; its bytes are not checked. */
  has(cid: Cid): Promise<boolean>;
  /** Those of `cids` that are lacking, in order, repeats kept. */
  missing(cids: readonly Cid[]): Promise<Cid[]>;
  /** Store `data`, which must not change until the call returns. */
  put(data: Uint8Array, limits?: Limits): Promise<Cid>;
  /** The checked bytes, or null. */
  get(cid: Cid): Promise<Uint8Array | null>;
  /** Store a stream in one pass. On any failure nothing is stored. */
  putStream(source: ReadableStream<Uint8Array>, limits?: Limits): Promise<Cid>;
  /** The blob as a stream that checks itself, or null. */
  getStream(cid: Cid, limits?: Limits): Promise<BlobBody | null>;
  /** Store the file at `path`. */
  putFile(path: string): Promise<Cid>;
  /** Write the blob to a temporary file beside `path`, check it, and rename it there; its length, or null. */
  getFile(cid: Cid, path: string): Promise<number | null>;
}

/** A store that can start in the middle of a blob. */
export interface Ranged {
  /**
   * Bytes `from` up to and without `to` of the blob, counted as by `Array.slice`, or null when it is absent. The whole
   * blob is checked first, unless it was lately: a part cannot be checked by itself. `length` is that of the whole blob.
   */
  getRange(
    cid: Cid,
    from: number,
    to?: number,
    options?: Pick<Limits, "transient">,
  ): Promise<BlobBody | null>;
}

/** A store that can tell lengths. */
export interface Sized {
  /** Bytes of the blob, or null when it is absent. With `check` it is read and hashed, unless it was lately. A damaged blob counts as absent. */
  sizeOf(cid: Cid, options?: { readonly check?: boolean }): Promise<number | null>;
}

/** What a store says of itself, for `cas status`. */
export interface Usage {
  /** Blobs, each counted once, in whichever tier it is. */
  readonly blobs: number;
  /** Stored bytes (compressed) on this machine. */
  readonly bytes: number;
  /** Of a store of tiers: how many blobs have their bytes here, how many the remote is known to hold, and where it is. */
  readonly tiers?: { readonly local: number; readonly remote: number; readonly where: string };
}

/**
 * What a check finds of a blob. `altered`: its bytes are right, but no encoder wrote its object's header so: a bit of it
 * has changed, of those that make no difference to who reads it.
 */
export type Integrity = "ok" | "missing" | "corrupt" | "altered";

/** A store that can count and check what it holds. */
export interface Upkeep {
  usage(): Promise<Usage>;
  /** Every blob held. */
  list(): AsyncIterable<Cid>;
  /** Read and hash the blob. */
  integrity(cid: Cid): Promise<Integrity>;
}

/** What a flush did. */
export interface Flushed {
  /** Blobs that the remote tier lacked and got. */
  readonly uploaded: number;
  /** Local copies that were dropped. */
  readonly evicted: number;
  /** Stored bytes that this freed. */
  readonly freed: number;
  /** Blobs whose only copy is damaged, so that there was nothing to upload. */
  readonly damaged: readonly Cid[];
}

/** A store with a local tier over a remote one. */
export interface Tiered {
  /** Upload what the remote tier lacks; with `evict`, then drop the local copies that the store's policy says to. */
  flush(options?: { readonly evict?: boolean }): Promise<Flushed>;
  /**
   * Bring an undamaged copy to each tier that should have one. `ok`: nothing was to do; `lost`: no tier has one. Throws
   * `unavailable` or `unreachable` when the remote tier does not answer.
   */
  mend(cid: Cid): Promise<"ok" | "mended" | "lost">;
}

/** A blob whose bytes a tier holds. */
export interface Held {
  readonly cid: Cid;
  /** Stored bytes. */
  readonly bytes: number;
  /** When it was stored, in milliseconds since 1970 UTC. */
  readonly storedAt: number;
  /** What a collection goes by: when it was last stored or asked for, in the same measure. Default: `storedAt`. */
  readonly keptAt?: number;
}

/** A store that can be a local tier: it can let go of what another tier holds. */
export interface Evictable {
  /** Every blob whose bytes it holds: one scan. */
  held(): AsyncIterable<Held>;
  /** Drop the bytes of a blob; the stored bytes freed, 0 when it holds none or cannot let go of them now. */
  release(cid: Cid): Promise<number>;
}

/** What a collection dropped. */
export interface Collected {
  readonly cid: Cid;
  /** Stored bytes that this freed. */
  readonly bytes: number;
}

/** What crashes left in a store: temporary files, and what else belongs to no blob. */
export interface Leftovers {
  readonly count: number;
  /** Stored bytes. */
  readonly bytes: number;
}

/** A store from which blobs that nobody needs can be collected. */
export interface Collectable {
  /** Every blob that it holds, in whichever tier. */
  held(): AsyncIterable<Held>;
  /**
   * Telling that a blob is there, by a put or by any question but a read, makes it as young as a new one, so that who
   * was told may refer to it; but only once in so many milliseconds. While others use the store, a collection needs a
   * grace of twice that.
   */
  readonly keepEveryMs: number;
  /** Why no grace is enough while others use the store; null: one is. Default: one is. */
  unsafeBecause?(): Promise<string | null>;
  /**
   * Drop, in every tier, those of `cids` that are older than `graceMs` milliseconds by the store's own clock. What is
   * put or asked for meanwhile is not among them.
   */
  collect(cids: readonly Cid[], graceMs: number): Promise<Collected[]>;
  /** Remove what crashes left, once nobody can be at work on it any more; with `dryRun`, only count it. */
  sweep(options?: { readonly dryRun?: boolean }): Promise<Leftovers>;
}
