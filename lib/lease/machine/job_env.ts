/**
 * @module The environment of what a worker starts: an allow-list of this machine's variables, and what the job adds.
 *
 * | variables | why a job gets them |
 * | --- | --- |
 * | `PATH`, `HOME`, `USER`, `LOGNAME`, `SHELL`, `TMPDIR`, `TERM`, `XDG_*` | programs are found, and find their files |
 * | `LANG`, `LANGUAGE`, `LC_*`, `TZ`, `TZDIR` | text and time; `LANG=C.UTF-8` when the machine sets none |
 * | `LD_LIBRARY_PATH`, `DYLD_LIBRARY_PATH`, `CUDA_*`, `NVIDIA_*`, `ROCR_*`, `HIP_*`, `OMP_NUM_THREADS` | libraries and devices |
 * | `CLAUDE_CONFIG_DIR`, `CODEX_HOME`, `PI_CODING_AGENT_DIR` | a harness finds its login and its sessions |
 * | `SSL_CERT_FILE`, `SSL_CERT_DIR`, `http_proxy` and its kin | how this machine reaches others; a proxy's URL that holds a password is left out |
 *
 * Nothing else of the worker's goes in: no token, no `SUBLET_*` that the job does not set itself.
 */

import { type Env, SubletError } from "../../home/mod.ts";
import { CREDENTIALS } from "../../net/mod.ts";

/** The variable by which every process of a job is found. */
export const TAG = "SUBLET_PROCESS_TAG";

const NAMES = new Set([
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "SHELL",
  "TMPDIR",
  "TERM",
  "LANG",
  "LANGUAGE",
  "TZ",
  "TZDIR",
  "LD_LIBRARY_PATH",
  "DYLD_LIBRARY_PATH",
  "OMP_NUM_THREADS",
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
  "CLAUDE_CONFIG_DIR",
  "CODEX_HOME",
  "PI_CODING_AGENT_DIR",
]);
const PREFIXES = /^(LC|XDG|CUDA|NVIDIA|ROCR|HIP)_/;
const PROXIES = /^(https?|all|no)_proxy$/i;
/** Variables that hold the credential of a worker, of ours and of piloop's. */
const SECRETS: ReadonlySet<string> = new Set([
  ...CREDENTIALS,
  "SUBLET_PROXY_CREDENTIAL",
  "SUBLET_WORKER_CREDENTIAL",
  "PILOOP_HTTPS_TOKEN",
  "PILOOP_PROXY_CREDENTIAL",
  "PILOOP_WORKER_CREDENTIAL",
]);
const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,255}$/;
const TAG_TEXT = /^[A-Za-z0-9._-]{1,100}$/;

/** What of `env`, this machine's environment, everything that a worker starts gets. */
export function baseEnv(env: Env): Record<string, string> {
  const base: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined) continue;
    const proxy = PROXIES.test(name);
    if (!NAMES.has(name) && !PREFIXES.test(name) && !proxy) continue;
    if (proxy && value.includes("@")) continue;
    base[name] = value;
  }
  base["PATH"] ??= "/usr/local/bin:/usr/bin:/bin";
  if (base["LC_ALL"] === undefined) base["LANG"] ??= "C.UTF-8";
  return base;
}

/** Judge the variables that a job or a helper adds. Throws `invalid_request`. */
export function checkEnv(env: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(env)) {
    const reason = !NAME.test(name)
      ? "it is no name of a variable"
      : SECRETS.has(name)
      ? "it holds a worker's credential, which no job gets"
      : name === TAG
      ? "the worker sets it"
      : value.includes("\0")
      ? "its value holds a NUL"
      : null;
    if (reason === null) continue;
    throw new SubletError(
      "invalid_request",
      `the variable ${JSON.stringify(name)} is refused: ${reason}`,
    );
  }
}

/** Judge the tag of a job. Throws `invalid_request`. */
export function checkTag(tag: string): void {
  if (TAG_TEXT.test(tag)) return;
  throw new SubletError(
    "invalid_request",
    `the tag ${JSON.stringify(tag)} is refused: use 1 to 100 letters, digits, dots or dashes`,
  );
}
