/** @module Names of pools. */

/** Names of pools: they appear in URLs, tables and variables. */
export const POOL_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
