/**
 * @module The door of `lib/home/config`: the configuration of a home. Apart from `lib/home`, since a command that reads
 * none starts sooner without its schema.
 */

export * from "./config.ts";
export { ConfigError, parseTable } from "./config_error.ts";
export * from "./live_keys.ts";
