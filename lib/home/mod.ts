/** @module The door of `lib/home`: errors, ports and their real adapters, paths, and safe relative paths. */

export * from "./errors.ts";
export type * from "./ports.ts";
export * from "./safe_path.ts";
export * from "./paths.ts";
export { systemClock } from "./system_clock.ts";
export { systemIds } from "./system_ids.ts";
export { logLine, nullLog, stderrLog } from "./stderr_log.ts";
export {
  BeneathFile,
  type BeneathOptions,
  lstatBeneath,
  mkdirBeneath,
  openBeneath,
  removeBeneath,
  writeBeneath,
  type WriteOptions,
} from "./beneath.ts";
export { type Address, addressOf, formatAddress, isLoopback, parseAddress } from "./address.ts";
export * from "./listen.ts";
export { POOL_NAME } from "./pool_name.ts";
export { isHostFault } from "./host_fault.ts";
export { nearest } from "./nearest.ts";
