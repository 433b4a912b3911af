/** @module Secrets: kept sealed, handed to jobs, and hidden in what jobs write. */

export type { Owner, SecretInfo, Secrets } from "./contract.ts";
export { LocalSecrets } from "./local.ts";
export { checkName, checkSecret } from "./names.ts";
export { openSecrets } from "./open.ts";
export { MASK, redaction, Redactor } from "./redactor.ts";
export { SealingKey } from "./seal.ts";
