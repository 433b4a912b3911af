/**
 * @module A macro assembler for WebAssembly (https://webassembly.github.io/spec/core/binary/): just the instructions
 * that the BLAKE3 kernel needs. An expression is the bytes that leave its value on the stack.
 */

/** Bytes of instructions. */
export type Code = readonly number[];

/** Type of a value. */
export type Type = "i32" | "v128";

const TYPES: Readonly<Record<Type, number>> = { i32: 0x7f, v128: 0x7b };

/** `value` as unsigned LEB128. */
function unsigned(value: number): number[] {
  const bytes: number[] = [];
  do {
    const low = value % 128;
    value = Math.floor(value / 128);
    bytes.push(value === 0 ? low : low | 0x80);
  } while (value !== 0);
  return bytes;
}

/** `value` (32 bits) as signed LEB128. */
function signed(value: number): number[] {
  const bytes: number[] = [];
  value |= 0;
  while (true) {
    const low = value & 0x7f;
    value >>= 7;
    if ((value === 0 && (low & 0x40) === 0) || (value === -1 && (low & 0x40) !== 0)) {
      bytes.push(low);
      return bytes;
    }
    bytes.push(low | 0x80);
  }
}

const vector = (items: readonly Code[]): Code => [...unsigned(items.length), ...items.flat()];
const name = (text: string): Code => vector([...new TextEncoder().encode(text)].map((b) => [b]));
const section = (id: number, body: Code): Code => [id, ...unsigned(body.length), ...body];
const simd = (opcode: number): Code => [0xfd, ...unsigned(opcode)];
const memarg = (align: number, offset: number): Code => [align, ...unsigned(offset)];

/** A parameter or local variable of a function. */
export interface Local {
  readonly index: number;
  readonly type: Type;
  readonly get: Code;
}

/** Give `local` the value of `value`. */
export const set = (local: Local, value: Code): Code => [
  ...value,
  0x21,
  ...unsigned(local.index),
];

/** Instructions on 32-bit integers. */
export const i32 = {
  const: (value: number): Code => [0x41, ...signed(value)],
  load: (address: Code, offset = 0): Code => [...address, 0x28, ...memarg(2, offset)],
  store: (address: Code, value: Code, offset = 0): Code => [
    ...address,
    ...value,
    0x36,
    ...memarg(2, offset),
  ],
  add: (a: Code, b: Code): Code => [...a, ...b, 0x6a],
  sub: (a: Code, b: Code): Code => [...a, ...b, 0x6b],
  mul: (a: Code, b: Code): Code => [...a, ...b, 0x6c],
  or: (a: Code, b: Code): Code => [...a, ...b, 0x72],
  xor: (a: Code, b: Code): Code => [...a, ...b, 0x73],
  shl: (a: Code, b: Code): Code => [...a, ...b, 0x74],
  rotr: (a: Code, b: Code): Code => [...a, ...b, 0x78],
  eqz: (a: Code): Code => [...a, 0x45],
  eq: (a: Code, b: Code): Code => [...a, ...b, 0x46],
  lessThan: (a: Code, b: Code): Code => [...a, ...b, 0x49],
  atMost: (a: Code, b: Code): Code => [...a, ...b, 0x4d],
  /** `a` when `condition` is not zero, else `b`. */
  select: (condition: Code, a: Code, b: Code): Code => [...a, ...b, ...condition, 0x1b],
};

/** Instructions on vectors of four 32-bit integers. */
export const v128 = {
  const: (lanes: readonly number[]): Code => [
    ...simd(0x0c),
    ...new Uint8Array(Uint32Array.from(lanes).buffer),
  ],
  load: (address: Code, offset = 0): Code => [...address, ...simd(0x00), ...memarg(4, offset)],
  store: (address: Code, value: Code, offset = 0): Code => [
    ...address,
    ...value,
    ...simd(0x0b),
    ...memarg(4, offset),
  ],
  splat: (a: Code): Code => [...a, ...simd(0x11)],
  add: (a: Code, b: Code): Code => [...a, ...b, ...simd(0xae)],
  or: (a: Code, b: Code): Code => [...a, ...b, ...simd(0x50)],
  xor: (a: Code, b: Code): Code => [...a, ...b, ...simd(0x51)],
  shl: (a: Code, bits: number): Code => [...a, ...i32.const(bits), ...simd(0xab)],
  shr: (a: Code, bits: number): Code => [...a, ...i32.const(bits), ...simd(0xad)],
  /** The bytes of `a` (0…15) and `b` (16…31) that `bytes` names. */
  shuffleBytes: (a: Code, b: Code, bytes: readonly number[]): Code => [
    ...a,
    ...b,
    ...simd(0x0d),
    ...bytes,
  ],
  /** The lanes of `a` (0…3) and `b` (4…7) that `lanes` names. */
  shuffle: (a: Code, b: Code, lanes: readonly number[]): Code =>
    v128.shuffleBytes(a, b, lanes.flatMap((lane) => [0, 1, 2, 3].map((byte) => 4 * lane + byte))),
};

/** Repeat `body` while `condition` holds. */
export const loop = (condition: Code, body: Code): Code => [
  ...[0x02, 0x40], // block
  ...[0x03, 0x40], // loop
  ...i32.eqz(condition),
  ...[0x0d, 1], // leave the block
  ...body,
  ...[0x0c, 0], // back to the loop
  0x0b,
  0x0b,
];

/** An exported function: it takes 32-bit integers and returns nothing. */
export class Func {
  readonly #locals: Type[] = [];
  readonly #code: number[] = [];
  #scratch: Local[] | undefined;

  constructor(readonly name: string, readonly params: number) {}

  /** Parameter number `index`. */
  param(index: number): Local {
    return { index, type: "i32", get: [0x20, ...unsigned(index)] };
  }

  /** A new local variable, zero at first. */
  local(type: Type): Local {
    const index = this.params + this.#locals.push(type) - 1;
    return { index, type, get: [0x20, ...unsigned(index)] };
  }

  /** `count` new local variables. */
  locals(type: Type, count: number): Local[] {
    return Array.from({ length: count }, () => this.local(type));
  }

  /** The same four vectors at each call, for values that nobody needs afterwards. */
  get scratch(): readonly Local[] {
    return this.#scratch ??= this.locals("v128", 4);
  }

  /** Append instructions. */
  emit(...code: Code[]): void {
    for (const part of code) for (const byte of part) this.#code.push(byte);
  }

  /** The function's type. */
  get signature(): Code {
    return [0x60, ...vector(Array.from({ length: this.params }, () => [TYPES.i32])), 0x00];
  }

  /** The function's body, with its size in front. */
  get body(): Code {
    const declared = vector(this.#locals.map((type) => [1, TYPES[type]]));
    const body = [...declared, ...this.#code, 0x0b];
    return [...unsigned(body.length), ...body];
  }
}

/** A module that exports `functions` and a memory (`memory`) of `pages` pages of 64 KiB. */
export function assemble(functions: readonly Func[], pages: number): Uint8Array<ArrayBuffer> {
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...section(1, vector(functions.map((f) => f.signature))),
    ...section(3, vector(functions.map((_, i) => unsigned(i)))),
    ...section(5, vector([[0x01, ...unsigned(pages), ...unsigned(pages)]])),
    ...section(
      7,
      vector([
        [...name("memory"), 0x02, 0x00],
        ...functions.map((f, i) => [...name(f.name), 0x00, ...unsigned(i)]),
      ]),
    ),
    ...section(10, vector(functions.map((f) => f.body))),
  ]);
}
