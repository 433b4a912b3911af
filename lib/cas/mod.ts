/** @module The door of `lib/cas`: addresses of blobs, the contract of a store, and its providers. */

export type {
  BlobBody,
  Cas,
  Cid,
  Collectable,
  Collected,
  Evictable,
  Flushed,
  Held,
  Integrity,
  Leftovers,
  Limits,
  Ranged,
  Sized,
  Tiered,
  Upkeep,
  Usage,
} from "./contract.ts";
export {
  cidBytes,
  cidOf,
  cidOfDigest,
  digestOf,
  drislCid,
  isCid,
  isDrisl,
  nameToCid,
  objectName,
  parseCid,
  rawCid,
  sameBlob,
} from "./cid.ts";
export { blake3, createHasher, type Hasher } from "./blake3.ts";
export { type CachedOptions, type CachedStore, openCached } from "./cached.ts";
export type { Remote } from "./cached_tiers.ts";
export { casRules, checkCas, type RuleOutcome } from "./check.ts";
export { damagedObject } from "./check_damage.ts";
export type { CheckOptions, Damage } from "./check_kit.ts";
export { type DiskOptions, type DiskStore, openDisk } from "./disk.ts";
export { type HttpCasOptions, openHttpCas } from "./http_cas.ts";
export { type Fault, inspect, type InspectOptions, isInspectable } from "./inspect.ts";
export type { Reach as BucketReach } from "./objects_reach.ts";
export { bucketReach, type CasContext, type CasTable, casTable, openCas, whereIs } from "./open.ts";
export type { Reach } from "./objects_reach.ts";
export { CasService, casService, type CasServiceOptions } from "./http_service.ts";
export { collectGarbage, type GarbageOptions, type GarbageReport, isCollectable } from "./gc.ts";
export { type Finder, LiveBlobs } from "./gc_live.ts";
export type { ServiceLimits } from "./http_limits.ts";
export type { Serving } from "./serving.ts";
export { Uploads, type UploadsOptions } from "./uploads.ts";
export { cidSchema } from "./http_wire.ts";
export { openSqliteCas, type SqliteCasOptions, type SqliteStore } from "./sqlite.ts";
export { openMemory } from "./memory.ts";
export {
  decodeManifest,
  encodeManifest,
  type Entry,
  type FileEntry,
  isLink,
  type LinkEntry,
  type Manifest,
  putManifest,
  readManifest,
} from "./manifest.ts";
export { materialise, type MaterialiseOptions, type NewLink } from "./materialise.ts";
export { type ChangedPath, type Placed, type State } from "./placed.ts";
export { putEntries, readEntries } from "./manifest_stream.ts";
export { Manifests, type ManifestsOptions, type Summary, type Tree } from "./manifests.ts";
export { type Shared, SharedInputs } from "./shared_inputs.ts";
export { placeTree, type PlaceTreeOptions } from "./place_tree.ts";
export { type Seen, SeenAnywhere, type SeenFile, SeenFiles } from "./seen.ts";
export { StatIndex } from "./stat_index.ts";
export { type StoredTree, storeTree, type StoreTreeOptions } from "./store_tree.ts";
export { tend } from "./tend.ts";
export { each } from "./each.ts";
