/** Records of tags and values: DMARC (RFC 7489 §6.3) and TLS-RPT (RFC 8460 §3). Merged so that nothing of them is lost. */

/** A tag as it stands in a record, in its place. */
export interface Tag {
  readonly name: string;
  readonly value: string;
}

export function parseTags(record: string): Tag[] {
  return record.split(";").flatMap((part) => {
    const at = part.indexOf("=");
    return at < 0 ? [] : [{ name: part.slice(0, at).trim().toLowerCase(), value: part.slice(at + 1).trim() }];
  });
}

export function formatTags(tags: readonly Tag[]): string {
  return tags.map(({ name, value }) => `${name}=${value}`).join("; ");
}

export function tagValue(tags: readonly Tag[], name: string): string | undefined {
  return tags.find((tag) => tag.name === name)?.value;
}

/** Whether reports go to an address already; a size limit behind it (`!10m`) is none of the address. */
function reportsTo(tags: readonly Tag[], address: string): boolean {
  const uris = (tagValue(tags, "rua") ?? "").split(",").map((uri) => uri.trim().replace(/!.*$/, ""));
  return uris.some((uri) => uri.toLowerCase() === `mailto:${address}`.toLowerCase());
}

/** The tags with an address more that reports go to; the others stay as they are. */
export function withReportsTo(tags: readonly Tag[], address: string): Tag[] {
  if (reportsTo(tags, address)) return [...tags];
  const known = tagValue(tags, "rua");
  const rua = { name: "rua", value: known ? `${known},mailto:${address}` : `mailto:${address}` };
  return known === undefined ? [...tags, rua] : tags.map((tag) => (tag.name === "rua" ? rua : tag));
}
