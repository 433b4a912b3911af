/**
 * @module The BLAKE3 compression function (https://github.com/BLAKE3-team/BLAKE3-specs, section 2) over whole chunks
 * and tree nodes, four at a time: each lane of a vector belongs to another chunk.
 *
 * Memory: from {@linkcode INPUT} on, the bytes to hash; from {@linkcode VALUES} on, chaining values of 32 bytes each.
 * The tree above a piece is the caller's. Functions:
 * - `chunks(count, low, high)`: the chaining values of `count` whole chunks, a multiple of 4; the first has the number
 *   `high:low`, whose low word must not overflow within the call.
 * - `chunk(index, length, low, high, flags)`: chaining value `index` of the one chunk of `length` bytes (0…1024) at
 *   that place of the input, with `flags` on its last block. The bytes after it, up to a whole block, must be zero.
 * - `parents(count)`: values 2i and 2i + 1 become value i, for i below `count`, a multiple of 4.
 * - `parent(index, flags)`: values 2 `index` and 2 `index` + 1 become value `index`.
 */

import { assemble, type Code, Func, i32, type Local, loop, set, v128 } from "./wasm.ts";

/** Bytes of a chunk. */
export const CHUNK = 1024;
/** Bytes of a piece, the most that the input holds. */
export const PIECE = 64 * CHUNK;
/** Address of the input. */
export const INPUT = 0;
/** Address of the chaining values. */
export const VALUES = INPUT + PIECE;

const CHUNK_START = 1;
const CHUNK_END = 2;
const PARENT = 4;
/** Flag of the last compression of all. */
export const ROOT = 8;

const IV = [
  ...[0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a],
  ...[0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19],
];

/** Where each word of a message goes for the next round. */
const PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];

/** The words of the state that one quarter round mixes: columns, then diagonals. */
const QUARTERS = [
  ...[[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]],
  ...[[0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]],
] as const;

/** Arithmetic of one word (`i32`), or of the same word of four chunks at once (`v128`). */
interface Arithmetic {
  readonly type: "i32" | "v128";
  add(a: Code, b: Code): Code;
  xor(a: Code, b: Code): Code;
  rotateRight(a: Local, bits: number): Code;
  /** The 32-bit `value`, in every lane. */
  spread(value: Code): Code;
}

const ONE: Arithmetic = {
  type: "i32",
  add: i32.add,
  xor: i32.xor,
  rotateRight: (a, bits) => i32.rotr(a.get, i32.const(bits)),
  spread: (value) => value,
};

/** Byte order within each lane after a rotation to the right by `bytes` bytes. */
const rotatedBytes = (bytes: number) =>
  Array.from({ length: 16 }, (_, i) => (i & ~3) | ((i + bytes) & 3));

const FOUR: Arithmetic = {
  type: "v128",
  add: v128.add,
  xor: v128.xor,
  // A rotation by whole bytes is one shuffle; others are two shifts.
  rotateRight: (a, bits) =>
    bits % 8 === 0
      ? v128.shuffleBytes(a.get, a.get, rotatedBytes(bits / 8))
      : v128.or(v128.shr(a.get, bits), v128.shl(a.get, 32 - bits)),
  spread: v128.splat,
};

/** What one compression reads besides its message. */
interface Inputs {
  readonly low: Code;
  readonly high: Code;
  readonly length: Code;
  readonly flags: Code;
}

/** The compression function: `value` (8 words) becomes the next chaining value, given `message` (16 words). */
function compress(
  math: Arithmetic,
  value: readonly Local[],
  message: readonly Local[],
  state: readonly Local[],
  inputs: Inputs,
): Code {
  const at = (words: readonly Local[], i: number) => words[i] as Local;
  const code: Code[] = [];
  for (let i = 0; i < 8; i++) code.push(set(at(state, i), at(value, i).get));
  for (let i = 0; i < 4; i++) {
    code.push(set(at(state, 8 + i), math.spread(i32.const(IV[i] as number))));
  }
  code.push(
    set(at(state, 12), inputs.low),
    set(at(state, 13), inputs.high),
    set(at(state, 14), math.spread(inputs.length)),
    set(at(state, 15), math.spread(inputs.flags)),
  );
  let order = message;
  for (let round = 0; round < 7; round++) {
    QUARTERS.forEach(([a, b, c, d], i) => {
      code.push(
        quarter(math, at(state, a), at(state, b), at(state, c), at(state, d), [
          at(order, 2 * i),
          at(order, 2 * i + 1),
        ]),
      );
    });
    order = PERMUTATION.map((from) => at(order, from));
  }
  for (let i = 0; i < 8; i++) {
    code.push(set(at(value, i), math.xor(at(state, i).get, at(state, 8 + i).get)));
  }
  return code.flat();
}

/** The quarter round, called G in the paper. */
function quarter(
  math: Arithmetic,
  a: Local,
  b: Local,
  c: Local,
  d: Local,
  words: readonly [Local, Local],
): Code {
  const half = (word: Local, turnD: number, turnB: number): Code => [
    ...set(a, math.add(math.add(a.get, b.get), word.get)),
    ...set(d, math.xor(d.get, a.get)),
    ...set(d, math.rotateRight(d, turnD)),
    ...set(c, math.add(c.get, d.get)),
    ...set(b, math.xor(b.get, c.get)),
    ...set(b, math.rotateRight(b, turnB)),
  ];
  return [...half(words[0], 16, 12), ...half(words[1], 8, 7)];
}

/** Rows `rows` (four vectors) become the columns `columns`. */
function transpose(f: Func, rows: readonly Code[], columns: readonly Local[]): Code {
  const [a, b, c, d] = rows as [Code, Code, Code, Code];
  const [r0, r1, r2, r3] = f.scratch as [Local, Local, Local, Local];
  const [x, y, z, w] = columns as [Local, Local, Local, Local];
  return [
    ...[set(r0, a), set(r1, b), set(r2, c), set(r3, d)],
    set(x, v128.shuffle(r0.get, r1.get, [0, 4, 1, 5])),
    set(y, v128.shuffle(r0.get, r1.get, [2, 6, 3, 7])),
    set(z, v128.shuffle(r2.get, r3.get, [0, 4, 1, 5])),
    set(w, v128.shuffle(r2.get, r3.get, [2, 6, 3, 7])),
    set(r0, v128.shuffle(x.get, z.get, [0, 1, 4, 5])),
    set(r1, v128.shuffle(x.get, z.get, [2, 3, 6, 7])),
    set(r2, v128.shuffle(y.get, w.get, [0, 1, 4, 5])),
    set(r3, v128.shuffle(y.get, w.get, [2, 3, 6, 7])),
    ...[set(x, r0.get), set(y, r1.get), set(z, r2.get), set(w, r3.get)],
  ].flat();
}

/** The 16 words of the block at `address` of each of four messages that are `stride` bytes apart. */
function loadFour(f: Func, address: Code, stride: number, message: readonly Local[]): Code {
  return [0, 1, 2, 3].flatMap((i) =>
    transpose(
      f,
      [0, 1, 2, 3].map((row) => v128.load(address, row * stride + 16 * i)),
      message.slice(4 * i, 4 * i + 4),
    )
  );
}

/** Write the four chaining values of `value` one after another to `address`. */
function storeFour(f: Func, address: Code, value: readonly Local[]): Code {
  return [0, 1].flatMap((half) => {
    const words = value.slice(4 * half, 4 * half + 4);
    return [
      ...transpose(f, words.map((word) => word.get), words),
      ...words.flatMap((word, row) => v128.store(address, word.get, 32 * row + 16 * half)),
    ];
  });
}

/** Locals of a function that compresses. */
function workspace(f: Func, math: Arithmetic) {
  const value = f.locals(math.type, 8);
  const message = f.locals(math.type, 16);
  const state = f.locals(math.type, 16);
  const restart = value.flatMap((word, i) => set(word, math.spread(i32.const(IV[i] as number))));
  return { value, message, state, restart };
}

function chunks(): Func {
  const f = new Func("chunks", 3);
  const [count, low, high] = [0, 1, 2].map((i) => f.param(i)) as [Local, Local, Local];
  const { value, message, state, restart } = workspace(f, FOUR);
  const [from, to, block, flags] = f.locals("i32", 4) as [Local, Local, Local, Local];
  const [lows, highs] = f.locals("v128", 2) as [Local, Local];
  const oneBlock = [
    loadFour(f, i32.add(from.get, block.get), CHUNK, message),
    set(
      flags,
      i32.add(
        i32.eqz(block.get),
        i32.shl(i32.eq(block.get, i32.const(CHUNK - 64)), i32.const(1)),
      ),
    ),
    compress(FOUR, value, message, state, {
      low: lows.get,
      high: highs.get,
      length: i32.const(64),
      flags: flags.get,
    }),
    set(block, i32.add(block.get, i32.const(64))),
  ].flat();
  f.emit(
    set(from, i32.const(INPUT)),
    set(to, i32.const(VALUES)),
    set(lows, v128.add(v128.splat(low.get), v128.const([0, 1, 2, 3]))),
    set(highs, v128.splat(high.get)),
    loop(
      count.get,
      [
        restart,
        set(block, i32.const(0)),
        loop(i32.lessThan(block.get, i32.const(CHUNK)), oneBlock),
        storeFour(f, to.get, value),
        set(from, i32.add(from.get, i32.const(4 * CHUNK))),
        set(to, i32.add(to.get, i32.const(4 * 32))),
        set(lows, v128.add(lows.get, v128.splat(i32.const(4)))),
        set(count, i32.sub(count.get, i32.const(4))),
      ].flat(),
    ),
  );
  return f;
}

function parents(): Func {
  const f = new Func("parents", 1);
  const count = f.param(0);
  const { value, message, state, restart } = workspace(f, FOUR);
  const [from, to] = f.locals("i32", 2) as [Local, Local];
  const zero = v128.const([0, 0, 0, 0]);
  f.emit(
    set(from, i32.const(VALUES)),
    set(to, i32.const(VALUES)),
    loop(
      count.get,
      [
        restart,
        loadFour(f, from.get, 64, message),
        compress(FOUR, value, message, state, {
          low: zero,
          high: zero,
          length: i32.const(64),
          flags: i32.const(PARENT),
        }),
        storeFour(f, to.get, value),
        set(from, i32.add(from.get, i32.const(4 * 64))),
        set(to, i32.add(to.get, i32.const(4 * 32))),
        set(count, i32.sub(count.get, i32.const(4))),
      ].flat(),
    ),
  );
  return f;
}

function loadOne(address: Code, message: readonly Local[]): Code {
  return message.flatMap((word, i) => set(word, i32.load(address, 4 * i)));
}

function storeOne(address: Code, value: readonly Local[]): Code {
  return value.flatMap((word, i) => i32.store(address, word.get, 4 * i));
}

/** The address of place `index` in an array at `base` of items of 2 to the power of `bits` bytes. */
function place(base: number, index: Code, bits: number): Code {
  return i32.add(i32.shl(index, i32.const(bits)), i32.const(base));
}

function chunk(): Func {
  const f = new Func("chunk", 5);
  const [index, left, low, high, extra] = [0, 1, 2, 3, 4].map((i) => f.param(i)) as [
    ...[Local, Local, Local, Local, Local],
  ];
  const { value, message, state, restart } = workspace(f, ONE);
  const [from, more, flags, length] = f.locals("i32", 4) as [Local, Local, Local, Local];
  f.emit(
    restart,
    set(from, place(INPUT, index.get, 10)),
    set(more, i32.const(1)),
    set(flags, i32.const(CHUNK_START)),
    loop(
      more.get,
      [
        set(more, i32.lessThan(i32.const(64), left.get)),
        set(length, i32.select(more.get, i32.const(64), left.get)),
        set(
          flags,
          i32.or(
            flags.get,
            i32.select(more.get, i32.const(0), i32.or(extra.get, i32.const(CHUNK_END))),
          ),
        ),
        loadOne(from.get, message),
        compress(ONE, value, message, state, {
          low: low.get,
          high: high.get,
          length: length.get,
          flags: flags.get,
        }),
        set(flags, i32.const(0)),
        set(from, i32.add(from.get, i32.const(64))),
        set(left, i32.sub(left.get, length.get)),
      ].flat(),
    ),
    storeOne(place(VALUES, index.get, 5), value),
  );
  return f;
}

function parent(): Func {
  const f = new Func("parent", 2);
  const [index, extra] = [f.param(0), f.param(1)];
  const { value, message, state, restart } = workspace(f, ONE);
  f.emit(
    restart,
    loadOne(place(VALUES, index.get, 6), message),
    compress(ONE, value, message, state, {
      low: i32.const(0),
      high: i32.const(0),
      length: i32.const(64),
      flags: i32.or(extra.get, i32.const(PARENT)),
    }),
    storeOne(place(VALUES, index.get, 5), value),
  );
  return f;
}

/** The kernel's module: 64 KiB of input and a page of chaining values. */
export function kernel(): Uint8Array<ArrayBuffer> {
  return assemble([chunks(), parents(), chunk(), parent()], 2);
}
