/**
 * @module Lint rules of our own: `core-ports` keeps the machine out of the core, `one-way` keeps dependencies pointing
 * one way and through the door of a folder, or of a folder in it.
 */

/** Folders of `lib/`, lowest first: a file imports from its own folder or from one to the left. */
export const ORDER = [
  "home",
  "store",
  "net",
  "secret",
  "cas",
  "vcs",
  "job",
  "lease",
  "provision",
  "scimesh",
  "web",
  "cli",
];

/** Names that reach the machine. A parameter or import of the same name is not meant: the core has none. */
const MACHINE = new Set([
  "Deno",
  "Date",
  "performance",
  "setTimeout",
  "setInterval",
  "setImmediate",
  "crypto",
  "fetch",
  "Worker",
  "process",
]);

/** Whether `path` (`lib/…`) is of the core, which gets ports for everything of the machine. */
export function isCore(path: string): boolean {
  if (path.startsWith("lib/lease/")) return !path.startsWith("lib/lease/machine/");
  return path.startsWith("lib/provision/scaler");
}

/** The `lib/…` part of an absolute file name, or null for a file elsewhere. */
export function libPath(filename: string): string | null {
  const path = filename.replaceAll("\\", "/");
  const at = path.lastIndexOf("/lib/");
  return at < 0 ? null : path.slice(at + 1);
}

/** What is wrong with `path` importing `specifier`, or null. */
export function importFault(path: string, specifier: string): string | null {
  if (isCore(path) && specifier.startsWith("node:")) {
    return `the core touches no machine: it may not import ${specifier}; take a port`;
  }
  if (!specifier.startsWith(".")) return null;
  const resolved = new URL(specifier, `file:///${path}`).pathname.slice(1);
  const [root, to = "", ...rest] = resolved.split("/");
  const from = path.split("/")[1] ?? "";
  if (root !== "lib") return `lib/ imports nothing of ${root}/`;
  if (to === from) {
    return isCore(path) && rest[0] === "machine" && !path.endsWith("/mod.ts")
      ? "the core may not import its machine adapters"
      : null;
  }
  if (rest.at(-1) !== "mod.ts") return `import lib/${to}/mod.ts, the folder's door`;
  return ORDER.indexOf(to) < ORDER.indexOf(from)
    ? null
    : `lib/${from} may not depend on lib/${to}: dependencies point one way`;
}

const plugin: Deno.lint.Plugin = {
  name: "sublet",
  rules: {
    "core-ports": {
      create(context) {
        const path = libPath(context.filename);
        if (path === null || !isCore(path)) return {};
        return {
          Identifier(node) {
            if (!MACHINE.has(node.name)) return;
            const parent = node.parent as {
              type: string;
              property?: unknown;
              key?: unknown;
              computed?: boolean;
            };
            if (
              parent.type === "MemberExpression" && parent.property === node && !parent.computed
            ) return;
            if (parent.type.startsWith("TS") || parent.type === "Property" && parent.key === node) {
              return;
            }
            context.report({
              node,
              message: `the core touches no machine: no ${node.name} here; take a port`,
            });
          },
          MemberExpression(node) {
            const { object, property } = node;
            if (object.type !== "Identifier" || property.type !== "Identifier") return;
            const name = `${object.name}.${property.name}`;
            if (name === "Math.random" || object.name === "globalThis") {
              context.report({
                node,
                message: `the core touches no machine: no ${name} here; take a port`,
              });
            }
          },
        };
      },
    },
    "one-way": {
      create(context) {
        const path = libPath(context.filename);
        if (path === null) return {};
        const judge = (node: Deno.lint.Node, specifier: unknown) => {
          const fault = typeof specifier === "string" ? importFault(path, specifier) : null;
          if (fault !== null) context.report({ node, message: fault });
        };
        return {
          ImportDeclaration: (node) => judge(node, node.source.value),
          ExportNamedDeclaration: (node) => node.source && judge(node, node.source.value),
          ExportAllDeclaration: (node) => judge(node, node.source.value),
          ImportExpression: (node) =>
            node.source.type === "Literal" && judge(node, node.source.value),
        };
      },
    },
  },
};

export default plugin;
