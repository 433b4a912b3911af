/** @module What every rule of the contract suite of version control gets, and how it says what must hold. */

import type { Cas } from "../cas/mod.ts";
import { type ErrorCode, isError } from "../home/mod.ts";
import type { Ask, Repository, Supply, Vcs } from "./contract.ts";

/** What the suite needs beside the provider. */
export interface VcsCheckOptions {
  /** A store that everybody shares. */
  readonly cas: Cas;
  /** An empty directory, absolute. */
  readonly scratch: string;
  /** Save `files`, path to text, as the next version of the checkout at `path`, made when it is missing; its revision. */
  save(path: string, files: Readonly<Record<string, string>>): Promise<string>;
}

/** What a rule gets: a repo of record with two versions, and a fresh replica of it. */
export interface Bench extends VcsCheckOptions {
  readonly vcs: Vcs;
  readonly record: Repository;
  readonly replica: Repository;
  readonly first: string;
  readonly second: string;
  readonly supply: Supply & { readonly asked: string[][] };
  /** A path for a checkout. */
  readonly place: string;
}

/** A rule, and whether a provider keeps it. */
export type Rule = readonly [rule: string, keeps: (bench: Bench) => Promise<boolean>];

/** Whether `work` rejects with one of `codes`. */
export const fails = (work: Promise<unknown>, ...codes: ErrorCode[]) =>
  work.then(() => false, (error) => isError(error, ...codes));
/** Whether anything is at `path`. */
export const exists = (path: string) => Deno.lstat(path).then(() => true, () => false);
/** Whether the file at `path` holds `text`. */
export const reads = async (path: string, text: string) => await Deno.readTextFile(path) === text;
/** As long as a revision of the provider's, and no one's. */
export const unknown = (like: string) => "f".repeat(like.length);

/** A fresh bench in the empty directory `scratch`. */
export async function benchOf(vcs: Vcs, options: VcsCheckOptions, scratch: string): Promise<Bench> {
  await Deno.mkdir(scratch);
  const first = await options.save(`${scratch}/record`, { "a.txt": "one\n" });
  const second = await options.save(`${scratch}/record`, { "b.txt": "two\n" });
  const record = await vcs.open(`${scratch}/record`);
  const replica = await vcs.replica(`${scratch}/clones/1`);
  const asked: string[][] = [];
  const ask: Ask = async (revisions, have) => {
    asked.push([...revisions]);
    const sent = await record.send(options.cas, revisions, have);
    return sent === null ? [] : [sent.blob];
  };
  const supply = { cas: options.cas, ask, asked };
  return {
    ...options,
    vcs,
    record,
    replica,
    first,
    second,
    supply,
    scratch,
    place: `${scratch}/w`,
  };
}
