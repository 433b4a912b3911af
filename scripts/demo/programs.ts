/** @module The processes of the demo, and the directory that they live in. Nothing outlives it. */

import { fileURLToPath } from "node:url";

/** Starts this program's commands, each with a home beneath one temporary directory. */
export class Programs implements AsyncDisposable {
  readonly #running = new Map<string, Deno.ChildProcess>();
  readonly #errors = new Map<string, Promise<string>>();
  readonly #argv: readonly string[];
  readonly #keep: boolean;

  private constructor(readonly root: string, argv: readonly string[], keep: boolean) {
    this.#argv = argv;
    this.#keep = keep;
  }

  /** With `binary`, a compiled file; without one, this checkout. */
  static async make(options: { binary: string | null; keep: boolean }): Promise<Programs> {
    const root = await Deno.realPath(await Deno.makeTempDir({ prefix: "sublet-demo-" }));
    const path = (name: string) => fileURLToPath(new URL(`../../${name}`, import.meta.url));
    const argv = options.binary === null
      ? [Deno.execPath(), "run", "-A", "--no-check", "--config", path("deno.json"), path("main.ts")]
      : [await Deno.realPath(options.binary)];
    return new Programs(root, argv, options.keep);
  }

  /** Write a file beneath the root. */
  async write(name: string, text: string): Promise<void> {
    const path = `${this.root}/${name}`;
    await Deno.mkdir(path.slice(0, path.lastIndexOf("/")), { recursive: true });
    await Deno.writeTextFile(path, text);
  }

  /** Run one command of sublet in the home `home`; what it printed. */
  async sublet(
    home: string,
    args: readonly string[],
    options: { mayFail?: boolean } = {},
  ): Promise<string> {
    const { code, stdout, stderr } = await this.finish(home, args);
    if (code !== 0 && options.mayFail !== true) {
      throw new Error(`sublet ${args.join(" ")}: ${stderr}`);
    }
    return stdout;
  }

  /** Run one command to its end, whatever it comes to. */
  async finish(
    home: string,
    args: readonly string[],
    env: Record<string, string> = {},
  ): Promise<{ code: number; stdout: string; stderr: string }> {
    const { code, stdout, stderr } = await this.command(home, args, env).output();
    const text = new TextDecoder();
    return { code, stdout: text.decode(stdout), stderr: text.decode(stderr) };
  }

  /** Start a command that stays, and wait for the line that says it is ready; what `ready` captured. */
  async background(
    name: string,
    home: string,
    args: readonly string[],
    ready: RegExp,
    env: Record<string, string> = {},
  ): Promise<string> {
    const child = this.command(home, args, env).spawn();
    this.#running.set(name, child);
    const errors = readAll(child.stderr);
    this.#errors.set(name, errors);
    let text = "";
    const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
    while (true) {
      const found = ready.exec(text);
      if (found !== null) {
        reader.releaseLock();
        return found[1] ?? "";
      }
      const { done, value } = await reader.read();
      if (done) throw new Error(`sublet ${args.join(" ")} ended: ${text}${await errors}`);
      text += value;
    }
  }

  /** End a background command with SIGKILL. */
  kill(name: string): void {
    this.#running.get(name)?.kill("SIGKILL");
  }

  /** The process id of a background command. */
  pid(name: string): number {
    const child = this.#running.get(name);
    if (child === undefined) throw new Error(`${name} was not started`);
    return child.pid;
  }

  /** Resolve once a background command ended; its exit code. */
  async ended(name: string): Promise<number> {
    return (await this.#running.get(name)?.status)?.code ?? -1;
  }

  /** How a background command that is over ended, and the last that it said on stderr. */
  async lastWords(name: string): Promise<string> {
    const text = await this.#errors.get(name) ?? "";
    return `${name} ended with ${await this.ended(name)}: ${text.slice(-2000)}`;
  }

  /** Run git in `cwd`, with an identity of its own and no configuration of this machine. */
  async git(cwd: string, ...args: string[]): Promise<string> {
    const identity = { NAME: "Demo", EMAIL: "demo@example.com" };
    const env: Record<string, string> = {
      GIT_CONFIG_GLOBAL: "/dev/null",
      GIT_CONFIG_NOSYSTEM: "1",
    };
    for (const [key, value] of Object.entries(identity)) {
      env[`GIT_AUTHOR_${key}`] = value;
      env[`GIT_COMMITTER_${key}`] = value;
    }
    const { success, stdout, stderr } = await new Deno.Command("git", { args, cwd, env }).output();
    if (!success) throw new Error(`git ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
    return new TextDecoder().decode(stdout);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Workers first: each says goodbye to a server that still answers.
    for (const name of [...this.#running.keys()].reverse()) {
      await this.#end(this.#running.get(name));
    }
    if (this.#keep) console.log(`kept ${this.root}`);
    else await Deno.remove(this.root, { recursive: true });
  }

  async #end(child: Deno.ChildProcess | undefined): Promise<void> {
    if (child === undefined) return;
    try {
      child.kill("SIGTERM");
    } catch {
      // It ended already: killed by the demo itself.
    }
    const timer = setTimeout(() => child.kill("SIGKILL"), 10_000);
    await child.status;
    clearTimeout(timer);
  }

  /** A command of sublet in the home `home`, its output piped. */
  command(
    home: string,
    args: readonly string[],
    env: Record<string, string> = {},
  ): Deno.Command {
    const [program = "", ...first] = this.#argv;
    const inherited = Deno.env.toObject();
    for (const key of Object.keys(inherited)) if (key.startsWith("SUBLET_")) delete inherited[key];
    return new Deno.Command(program, {
      args: [...first, ...args],
      cwd: this.root,
      clearEnv: true,
      env: { ...inherited, SUBLET_HOME: `${this.root}/${home}`, ...env },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    });
  }
}

async function readAll(stream: ReadableStream<Uint8Array>): Promise<string> {
  let text = "";
  for await (const chunk of stream.pipeThrough(new TextDecoderStream())) {
    text = (text + chunk).slice(-4000);
  }
  return text;
}
