/**
 * @module In the place of the worker's own Web Worker: tries everything that it must not be able to do, and writes what
 * came of it to `probe.json` in the home.
 */

import { isError, messageOf } from "../../lib/home/mod.ts";
import { MAKE_LINKS } from "../../lib/job/mod.ts";
import { GIT_ENV, LEADING } from "../../lib/vcs/mod.ts";
import { type FromWorker, SupervisorClient, type ToWorker } from "../../lib/lease/machine/rpc.ts";

const scope = globalThis as unknown as {
  onmessage: (event: MessageEvent<ToWorker>) => void;
  postMessage(message: FromWorker): void;
};
const supervisor = new SupervisorClient((message) => scope.postMessage(message));

async function attempt(what: () => unknown): Promise<string> {
  try {
    await what();
    return "yes";
  } catch (error) {
    if (isError(error)) return error.code;
    // A module that may not be loaded fails as a module.
    if (/Requires import access/.test(messageOf(error))) return "NotCapable";
    return error instanceof Error ? error.name : messageOf(error);
  }
}

async function local(home: string, port: number): Promise<Record<string, string>> {
  const connect = (each: number) => async () => {
    (await Deno.connect({ hostname: "127.0.0.1", port: each })).close();
  };
  return {
    "read the home": await attempt(() => Deno.readTextFile(`${home}/given`)),
    "write the home": await attempt(() => Deno.writeTextFile(`${home}/made`, "")),
    "dial the server": await attempt(connect(port)),
    "read elsewhere": await attempt(() => Deno.readTextFile("/etc/passwd")),
    "read above the home": await attempt(() => Deno.readTextFile(`${home}/../secret`)),
    "write elsewhere": await attempt(() => Deno.writeTextFile(`${home}/../made`, "")),
    "link to elsewhere": await attempt(() => Deno.symlink("/etc", `${home}/etc`)),
    "dial elsewhere": await attempt(connect(port === 9 ? 10 : 9)),
    "fetch elsewhere": await attempt(() => fetch("http://127.0.0.1:4/")),
    "run a program": await attempt(() => new Deno.Command("true").output()),
    "signal a process": await attempt(() => Deno.kill(1, "SIGCONT")),
    "read a variable": await attempt(() => Deno.env.get("SUBLET_HTTPS_TOKEN")),
    "read all variables": await attempt(() => Deno.env.toObject()),
    "ask the system": await attempt(() => Deno.hostname()),
    "open a library": await attempt(() => Deno.dlopen("libc.so.6", {})),
    "import from the net": await attempt(() => import(`https://127.0.0.1:9/x-${port}.js`)),
    "read the kernel's files": await attempt(() => Deno.readTextFile("/proc/self/environ")),
    "get more": await attempt(async () => {
      const { state } = await Deno.permissions.request({ name: "run" });
      if (state !== "granted") throw new Error(state);
    }),
    "start a worker with more": await attempt(async () => {
      const code = `self.postMessage(1)`;
      const more = new Worker(`data:text/javascript,${encodeURIComponent(code)}`, {
        type: "module",
        deno: { permissions: { run: true } },
      });
      await new Promise((resolve, reject) => {
        more.onmessage = resolve;
        more.onerror = (event) => {
          event.preventDefault();
          reject(new Error(event.message));
        };
      }).finally(() => more.terminate());
    }),
  };
}

async function asked(home: string): Promise<Record<string, string>> {
  const job = {
    argv: ["true"],
    cwd: home,
    env: {},
    stdout: `${home}/o`,
    stderr: `${home}/e`,
    tag: "probe",
  };
  const none = `${home}/none`;
  return {
    "start in the home": await attempt(() => supervisor.start(job)),
    "start where output is": await attempt(() => supervisor.start(job)),
    "start elsewhere": await attempt(() => supervisor.start({ ...job, cwd: "/", stdout: none })),
    "start above": await attempt(() =>
      supervisor.start({ ...job, cwd: `${home}/..`, stdout: none })
    ),
    "output elsewhere": await attempt(() => supervisor.start({ ...job, stdout: "/tmp/x" })),
    "output through a link": await attempt(() =>
      supervisor.start({ ...job, stdout: `${home}/out/x` })
    ),
    "a credential": await attempt(() =>
      supervisor.start({
        ...job,
        stdout: none,
        stderr: `${none}2`,
        env: { SUBLET_HTTPS_TOKEN: "" },
      })
    ),
    "git": await attempt(() =>
      supervisor.exec({ argv: [...LEADING, "version"], env: GIT_ENV, cwd: home })
    ),
    "git elsewhere": await attempt(() =>
      supervisor.exec({ argv: [...LEADING, "version"], env: GIT_ENV, cwd: "/" })
    ),
    "git of another kind": await attempt(() =>
      supervisor.exec({ argv: ["git", "version"], cwd: home, env: GIT_ENV })
    ),
    "git with a program of its own": await attempt(() =>
      supervisor.exec({
        argv: [...LEADING, "-c", "alias.x=!true", "x"],
        cwd: home,
        env: GIT_ENV,
      })
    ),
    "git of a directory elsewhere": await attempt(() =>
      supervisor.exec({ argv: [...LEADING, "--git-dir=/tmp", "version"], cwd: home, env: GIT_ENV })
    ),
    "another script": await attempt(() =>
      supervisor.exec({ argv: ["/bin/sh", "-c", "true"], cwd: home })
    ),
    "a link elsewhere": await attempt(() =>
      supervisor.exec({
        argv: ["/bin/sh", "-c", MAKE_LINKS, "sh", "x", `${home}/out/x`],
        cwd: home,
      })
    ),
    "another helper": await attempt(() => supervisor.exec({ argv: ["cat"], cwd: home })),
    "input elsewhere": await attempt(() =>
      supervisor.exec({
        argv: [...LEADING, "version"],
        env: GIT_ENV,
        cwd: home,
        stdin: { path: "/etc/passwd" },
      })
    ),
    "write through a link": await attempt(() =>
      supervisor.exec({
        argv: [...LEADING, "version"],
        env: GIT_ENV,
        cwd: home,
        stdoutPath: `${home}/link`,
      })
    ),
    "stop a stranger": await attempt(() => supervisor.stop({ pid: 1, startTime: null }, null, 0)),
    "a malformed call": await attempt(() =>
      supervisor.wait({ pid: "1", startTime: null } as unknown as { pid: number; startTime: null })
    ),
    "the host's sample": await attempt(() => supervisor.sample()),
  };
}

scope.onmessage = async ({ data }) => {
  if (data.type === "answer" || data.type === "refusal") return supervisor.take(data);
  if (data.type !== "boot") return;
  const { home, server } = data.boot;
  const probe = {
    local: await local(home, Number(new URL(server).port)),
    asked: await asked(home),
  };
  await Deno.writeTextFile(`${home}/probe.json`, JSON.stringify(probe));
  scope.postMessage({ type: "ended", how: "stopped" });
};
scope.postMessage({ type: "up" });
