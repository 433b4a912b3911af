/** @module The path of a request, without parsing the rest of its URL. */

/** The path of an absolute URL with an authority, without its query: `/` at least. */
export function pathOf(url: string): string {
  const from = url.indexOf("/", url.indexOf("://") + "://".length);
  if (from < 0) return "/";
  const query = url.indexOf("?", from);
  return query < 0 ? url.slice(from) : url.slice(from, query);
}
