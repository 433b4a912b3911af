/** @module A line that is typed on the terminal and not shown. */

import { SubletError } from "../home/mod.ts";

const ENTER = new Set([10, 13, 4]);
const ERASE = new Set([8, 127]);
const CANCEL = 3;

/** Ask for a line on the terminal's stderr, without echo. Throws `cancelled` on Ctrl-C. */
export async function hiddenLine(question: string): Promise<string> {
  const write = (text: string) => Deno.stderr.writeSync(new TextEncoder().encode(text));
  write(question);
  Deno.stdin.setRaw(true);
  const typed: number[] = [];
  const buffer = new Uint8Array(4096);
  try {
    while (true) {
      const count = await Deno.stdin.read(buffer);
      if (count === null) break;
      for (const byte of buffer.subarray(0, count)) {
        if (ENTER.has(byte)) return new TextDecoder().decode(Uint8Array.from(typed));
        if (byte === CANCEL) throw new SubletError("cancelled", "nothing was set");
        if (ERASE.has(byte)) eraseCharacter(typed);
        else typed.push(byte);
      }
    }
    return new TextDecoder().decode(Uint8Array.from(typed));
  } finally {
    Deno.stdin.setRaw(false);
    write("\n");
  }
}

/** Take the last character of UTF-8 text away. */
function eraseCharacter(bytes: number[]): void {
  let last = bytes.pop();
  while (last !== undefined && (last & 0xc0) === 0x80) last = bytes.pop();
}
