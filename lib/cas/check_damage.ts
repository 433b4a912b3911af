/** @module The rules of a store's contract about objects that were damaged behind its back. */

import { type Damage, fails, inPieces, type Rule, same } from "./check_kit.ts";
import { collect } from "./streams.ts";

const WAYS: Damage[] = ["truncated", "empty", "flipped", "garbage", "followed by other bytes"];

/** Blobs of each kind of object: raw and small, raw and large, compressed and small, compressed and large. */
const KINDS = [[500, true], [400_000, true], [30_000, false], [400_000, false]] as const;

function rules(how: Damage): Rule[] {
  const each = (work: (length: number, dense: boolean) => Promise<boolean>) => async () => {
    for (const [length, dense] of KINDS) if (!await work(length, dense)) return false;
    return true;
  };
  return [
    [`no get delivers an object that is ${how}: it fails with integrity`, (bench) => {
      const { cas, damage, scratch } = bench;
      return each(async (length, dense) => {
        const cid = await cas.put(bench.bytes(`get ${how}`, length, dense));
        await damage?.(cid, how);
        const stream = async () => {
          const body = await cas.getStream(cid);
          if (body !== null) await collect(body.stream);
        };
        // Twice: what is remembered of the first read must not help the second.
        for (let i = 0; i < 2; i++) {
          if (!await fails(cas.get(cid), "integrity")) return false;
          if (!await fails(stream(), "integrity")) return false;
        }
        return await fails(cas.getFile(cid, `${scratch}/damaged`), "integrity") &&
          await Deno.stat(`${scratch}/damaged`).then(() => false, () => true);
      })();
    }],
    [`a put repairs an object that is ${how}`, (bench) => {
      const { cas, damage } = bench;
      return each(async (length, dense) => {
        const data = bench.bytes(`repair ${how}`, length, dense);
        const cid = await cas.put(data);
        const puts = [
          () => cas.put(data),
          () => cas.putStream(inPieces(data, 50_000)),
          () => cas.putStream(inPieces(data, 50_000), { expectedCid: cid }),
        ];
        for (const put of puts) {
          await damage?.(cid, how);
          if (await put() !== cid || !same(await cas.get(cid), data)) return false;
        }
        return true;
      })();
    }],
  ];
}

/** All of them. */
export const DAMAGE_RULES: readonly Rule[] = WAYS.flatMap(rules);
