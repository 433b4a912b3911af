/** @module The version of this build. */

/** Semantic version. The same as in deno.json, which a test holds. */
export const VERSION = "0.1.0";

/** The worker protocol that this build speaks: that of lib/lease, which a test holds. Here so that it loads at once. */
export const PROTOCOL = 7;
