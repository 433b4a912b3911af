/**
 * @module What an agent says in its session, as text for people: its own words, and which tools it used. Formats are the
 * session files of Claude Code 2.1, Codex 0.153 and pi 0.99: one JSON object a line.
 */

import { isTable } from "./report_checks.ts";

/** Characters of a tool's arguments that are shown. */
const MAX_ARGUMENTS = 160;

type Table = Record<string, unknown>;

/** The lines that one line of a session file comes to; none for what is not the agent's own. */
export function sessionLines(format: string | null, line: string): string[] {
  if (format === null) return [line];
  let record: unknown;
  try {
    record = JSON.parse(line);
  } catch {
    return [];
  }
  if (!isTable(record)) return [];
  const said = READERS[format]?.(record) ?? [];
  return said.flatMap((text) => text.split("\n")).map((text) => text.trimEnd())
    .filter((text) => text !== "");
}

const READERS: Readonly<Record<string, (record: Table) => string[]>> = {
  claude: (record) => {
    if (record["type"] !== "assistant") return [];
    return blocks(record["message"]).flatMap((block) =>
      block["type"] === "tool_use"
        ? [tool(block["name"], block["input"])]
        : block["type"] === "text"
        ? [text(block["text"])]
        : []
    );
  },
  codex: (record) => {
    const payload = record["payload"];
    if (record["type"] !== "response_item" || !isTable(payload)) return [];
    const { type, name } = payload;
    if (type === "function_call") return [tool(name, payload["arguments"])];
    if (type === "custom_tool_call") return [tool(name, payload["input"])];
    if (type === "local_shell_call") return [tool("shell", payload["action"])];
    if (payload["role"] !== "assistant") return [];
    return blocks(payload).flatMap((block) =>
      block["type"] === "output_text" ? [text(block["text"])] : []
    );
  },
  pi: (record) => {
    const message = record["message"];
    if (record["type"] !== "message" || !isTable(message) || message["role"] !== "assistant") {
      return [];
    }
    return blocks(message).flatMap((block) =>
      block["type"] === "toolCall"
        ? [tool(block["name"], block["arguments"])]
        : block["type"] === "text"
        ? [text(block["text"])]
        : []
    );
  },
};

function blocks(message: unknown): Table[] {
  const content = isTable(message) ? message["content"] : undefined;
  if (typeof content === "string") return [{ type: "text", text: content }];
  return Array.isArray(content) ? content.filter(isTable) : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function tool(name: unknown, input: unknown): string {
  const shown = typeof input === "string" ? input : JSON.stringify(input) ?? "";
  const plain = shown.replaceAll(/\s+/g, " ");
  const cut = plain.length <= MAX_ARGUMENTS ? plain : `${plain.slice(0, MAX_ARGUMENTS)}…`;
  return `[${text(name) || "tool"}] ${cut}`.trimEnd();
}
