/** What has to be done elsewhere, as files to paste: a Domain Connect template, and a piece of a master file. */
import type { SetupItem } from "./domain-setup.ts";

/** What a template says of itself. */
interface TemplateOrigin {
  /** The provider's domain. */
  readonly providerId: string;
  readonly domain: string;
}

const TTL_SECONDS = 3600;
const SPF_NAME = "v=spf1";

/**
 * The records that are missing as a template of Domain Connect, with values in the place of variables. A text that takes
 * the place of another one of its kind says so.
 */
export function domainConnectTemplate(
  { providerId, domain }: TemplateOrigin,
  items: readonly SetupItem[],
): Record<string, unknown> {
  return {
    providerId,
    providerName: "Palomar",
    serviceId: "sender-domain",
    serviceName: `Mail from ${domain}`,
    version: 1,
    syncBlock: true,
    records: wanted(items, domain).map((item) => templateRecord(item, domain)),
  };
}

function templateRecord({ name, type, after = "" }: SetupItem, domain: string): object {
  const host = name === domain ? "@" : name.slice(0, -domain.length - 1);
  if (type === "CNAME") return { type, host, pointsTo: after, ttl: TTL_SECONDS };
  if (type === "MX") {
    const [priority, pointsTo] = after.split(" ");
    return { type, host, pointsTo, priority: Number(priority), ttl: TTL_SECONDS };
  }
  const prefix = /^v=[A-Za-z0-9]+/i.exec(after)?.[0] ?? "";
  const conflicts =
    prefix.toLowerCase() === SPF_NAME || /^v=(DMARC1|STSv1|TLSRPTv1)/i.test(prefix)
      ? { txtConflictMatchingMode: "Prefix", txtConflictMatchingPrefix: prefix }
      : {};
  return { type, host, data: after, ttl: TTL_SECONDS, ...conflicts };
}

/**
 * The same for a master file (RFC 1035 §5.1). What goes stands in comments, and so does what nobody can tell to be missing:
 * a second SPF policy, for one, would make the first count no more.
 */
export function zoneFileSnippet(items: readonly SetupItem[]): string {
  const lines = items.flatMap((item) => {
    const isGone = (item.action === "modify" || item.action === "remove") && item.before !== undefined;
    const gone = isGone ? [`; remove: ${zoneFileLine(item, item.before!)}`] : [];
    const isNew = (item.action === "add" || item.action === "modify") && item.after !== undefined;
    const isUnknown = item.fault?.kind === "unanswered" && item.after !== undefined;
    const unknown = isUnknown ? [`; not looked up: ${zoneFileLine(item, item.after!)}`] : [];
    return [...gone, ...unknown, ...(isNew ? [zoneFileLine(item, item.after!)] : [])];
  });
  return lines.map((line) => `${line}\n`).join("");
}

function zoneFileLine({ name, type }: Pick<SetupItem, "name" | "type">, value: string): string {
  const rdata = type === "TXT" ? quoteText(value) : `${value.replace(/\.$/, "")}.`;
  return `${name}. IN ${type} ${rdata}`;
}

/** One string holds 255 octets at most (RFC 1035 §3.3). */
function quoteText(text: string): string {
  const octets = Buffer.from(text, "latin1");
  const strings: string[] = [];
  for (let at = 0; at < octets.length; at += 255) strings.push(octets.subarray(at, at + 255).toString("latin1"));
  return (strings.length === 0 ? [""] : strings)
    .map((part) => `"${part.replace(/[^ -~]|["\\]/g, escapeOctet)}"`)
    .join(" ");
}

function escapeOctet(character: string): string {
  if (character === '"' || character === "\\") return `\\${character}`;
  return `\\${character.charCodeAt(0).toString().padStart(3, "0")}`;
}

/** What is to be made in the domain itself: the deployment's own records are somebody else's. */
function wanted(items: readonly SetupItem[], domain: string): SetupItem[] {
  return items.filter(
    ({ action, name, after }) =>
      (action === "add" || action === "modify") &&
      after !== undefined &&
      (name === domain || name.endsWith(`.${domain}`)),
  );
}
