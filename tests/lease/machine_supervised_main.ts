/**
 * @module A program for tests: a supervised worker whose options are the first argument, as JSON. Its last line says how
 * it ended, and what its main thread may still do.
 */

import { messageOf, SubletError } from "../../lib/home/mod.ts";
import {
  runSupervisedWorker,
  type SupervisedWorkerOptions,
} from "../../lib/lease/machine/supervisor.ts";

/** Whether `attempt` works, or the name of what it threw. */
async function may(attempt: () => unknown): Promise<string> {
  try {
    await attempt();
    return "yes";
  } catch (error) {
    // A module that may not be loaded fails as a module.
    if (/Requires import access/.test(messageOf(error))) return "NotCapable";
    return error instanceof Error ? error.name : String(error);
  }
}

if (import.meta.main) {
  const { entry, ...options } = JSON.parse(Deno.args[0] ?? "{}") as
    & Omit<SupervisedWorkerOptions, "entry">
    & { entry?: string };
  let end: Record<string, unknown>;
  let code: number;
  try {
    const url = entry === undefined ? {} : { entry: new URL(`./${entry}`, import.meta.url) };
    code = await runSupervisedWorker({ ...options, ...url });
    end = { code };
  } catch (error) {
    code = error instanceof SubletError ? error.exit : 99;
    end = {
      code,
      error: error instanceof SubletError ? error.code : "?",
      message: messageOf(error),
    };
  }
  const main = {
    read: await may(() => Deno.readTextFileSync("/etc/passwd")),
    write: await may(() => Deno.writeTextFileSync(`${options.home}/main`, "")),
    net: await may(() => Deno.connect({ hostname: "127.0.0.1", port: 9 })),
    ffi: await may(() => Deno.dlopen("libc.so.6", {})),
    import: await may(() => import(`https://127.0.0.1:9/${options.pool}.js`)),
    run: await may(() => new Deno.Command("true").output()),
  };
  console.log(JSON.stringify({ end, main }));
  Deno.exit(code);
}
