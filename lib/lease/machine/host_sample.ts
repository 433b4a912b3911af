/** @module What a worker's host has now, within the limits of the container that it may be. */

import { statfs } from "node:fs/promises";
import type { HostSample } from "../wire.ts";
import { kernelFile } from "./kernel_file.ts";

/** A memory limit above the process, and the file that tells how much of it is used. */
interface MemoryLimit {
  readonly bytes: number;
  readonly used: string;
}

/** Tells what the host of `home` has. */
export async function hostSampler(home: string): Promise<() => Promise<HostSample>> {
  const limits = await memoryLimits();
  return async () => {
    const disk = await statfs(home);
    return {
      at: new Date().toISOString(),
      cpus: navigator.hardwareConcurrency,
      load1: Deno.build.os === "windows" ? 0 : Deno.loadavg()[0] ?? 0,
      memory_available: Math.floor(await available(limits)),
      disk_free: disk.bavail * disk.bsize,
    };
  };
}

/** Bytes that a job could take: what the machine has left, or less where a control group limits us. */
async function available(limits: readonly MemoryLimit[]): Promise<number> {
  let least = Deno.systemMemoryInfo().available;
  for (const { bytes, used } of limits) {
    const current = Number(await kernelFile(used));
    if (Number.isFinite(current)) least = Math.min(least, Math.max(0, bytes - current));
  }
  return least;
}

/** Every memory limit of the control groups that this process is in (version 2). */
async function memoryLimits(): Promise<MemoryLimit[]> {
  if (Deno.build.os !== "linux") return [];
  const group = /^0::(\/.*)$/m.exec(await kernelFile("/proc/self/cgroup") ?? "")?.[1];
  if (group === undefined || group.includes("..")) return [];
  const limits: MemoryLimit[] = [];
  const parts = group.split("/").filter((part) => part !== "");
  for (let depth = parts.length; depth >= 0; depth--) {
    const dir = ["/sys/fs/cgroup", ...parts.slice(0, depth)].join("/");
    const text = await kernelFile(`${dir}/memory.max`);
    const bytes = Number(text ?? "max");
    if (Number.isFinite(bytes)) limits.push({ bytes, used: `${dir}/memory.current` });
  }
  return limits;
}
