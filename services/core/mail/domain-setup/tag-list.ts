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

/** The mailbox of a URI in `rua=`, in lower case: without what stands for a size limit (`!10m`). */
function mailboxIn(uri: string): string {
  return uri
    .trim()
    .toLowerCase()
    .replace(/^mailto:/, "")
    .replace(/!.*$/, "");
}

/** Whether an address of ours is the other one as another secret signed it: `what+claims.signature@domain`. */
function isResigned(one: string, other: string): boolean {
  const unsigned = (address: string) => address.toLowerCase().replace(/\.[^.@]*@/, "@");
  return /\.[^.@]*@/.test(other) && one !== other.toLowerCase() && unsigned(one) === unsigned(other);
}

/** Whether a record has reports sent to an address of ours that another secret signed. */
export function reportsToFormer(record: string, address: string): boolean {
  const uris = (tagValue(parseTags(record), "rua") ?? "").split(",");
  return uris.some((uri) => isResigned(mailboxIn(uri), address));
}

/** The tags with an address more that reports go to, in the place of what it was before; the others stay as they are. */
export function withReportsTo(tags: readonly Tag[], address: string): Tag[] {
  const known = tagValue(tags, "rua");
  const uris = (known ?? "").split(",").filter((uri) => uri !== "");
  const current = uris.filter((uri) => !isResigned(mailboxIn(uri), address));
  const isThere = current.some((uri) => mailboxIn(uri) === address.toLowerCase());
  const value = isThere ? current.join(",") : [...current, `mailto:${address}`].join(",");
  return known === undefined
    ? [...tags, { name: "rua", value }]
    : tags.map((tag) => (tag.name === "rua" ? { ...tag, value } : tag));
}
