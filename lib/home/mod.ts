/** @module The door of `lib/home`: errors, ports and their real adapters, paths, config, and safe relative paths. */

export * from "./errors.ts";
export type * from "./ports.ts";
export * from "./safe_path.ts";
export * from "./paths.ts";
export { systemClock } from "./system_clock.ts";
export { systemIds } from "./system_ids.ts";
export { logLine, nullLog, stderrLog } from "./stderr_log.ts";
