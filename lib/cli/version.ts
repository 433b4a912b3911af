/** @module The version of this build. */

/** Semantic version. The same as in deno.json, which a test holds. */
export const VERSION = "0.1.0";
