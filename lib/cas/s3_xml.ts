/** @module What the answers of S3 and STS say, as far as it is needed: the text of named elements, which do not nest. */

const ENTITIES: Readonly<Record<string, string>> = {
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&apos;": "'",
  "&amp;": "&",
};

function decode(text: string): string {
  return text.replaceAll(/&(?:[a-z]+|#\d{1,7}|#x[0-9a-fA-F]{1,6});/g, (entity) => {
    if (!entity.startsWith("&#")) return ENTITIES[entity] ?? entity;
    const code = entity[2] === "x" ? parseInt(entity.slice(3), 16) : parseInt(entity.slice(2), 10);
    return code <= 0x10ffff ? String.fromCodePoint(code) : entity;
  });
}

/** The text of the first element `name` in `xml`, or null. */
export function elementOf(xml: string, name: string): string | null {
  const raw = rawElements(xml, name).next().value;
  return raw === undefined ? null : decode(raw);
}

/** What is in each element `name`, as it stands. */
export function* rawElements(xml: string, name: string): Generator<string, void, undefined> {
  const [open, close] = [`<${name}>`, `</${name}>`];
  for (let at = xml.indexOf(open); at >= 0;) {
    const from = at + open.length;
    const to = xml.indexOf(close, from);
    if (to < 0) return;
    yield xml.slice(from, to);
    at = xml.indexOf(open, to + close.length);
  }
}

/** `text` as it may stand in an element. */
export function escapeXml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
