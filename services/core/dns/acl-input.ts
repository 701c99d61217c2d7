import { randomBytes } from "node:crypto";
import { invalidField, type Refusal } from "../refusal.ts";
import { ok, type Result, refuse } from "../result.ts";
import { type Sentence, sentence } from "../sentences.ts";
import { readBlockText } from "./address-block.ts";
import { isForMany, parseIpAddress } from "./ip-address.ts";
import { formatDomainName, parseDomainName } from "./name.ts";
import { MAC_OCTETS, type TsigAlgorithm } from "./tsig.ts";

/** An ACL as somebody writes it down. */
export interface AclInput {
  readonly name: string;
  readonly blocks: readonly string[];
  /** Names of zones; empty: all of the reseller's. */
  readonly zones: readonly string[];
  /** `host` or `host:port`. */
  readonly notify: readonly string[];
}

/** An ACL as it is stored: everything in one spelling, nothing twice. */
export interface AclParts {
  readonly name: string;
  readonly blocks: readonly string[];
  readonly zones: readonly string[] | null;
  readonly notify: readonly string[];
}

/** A key as it is stored. */
export interface TsigKeyParts {
  readonly name: string;
  readonly algorithm: TsigAlgorithm;
  readonly secret: Buffer;
}

/** Octets of a new key: as many as the algorithm's output has (RFC 2104 §3). */
const SECRET_OCTETS: { readonly [algorithm in TsigAlgorithm]: number } = MAC_OCTETS;

/** What one ACL may name of each kind. */
const MOST_ENTRIES = { blocks: 1_000, zones: 1_000, notify: 20 } as const;
/**
 * And all ACLs of a reseller together: each name server has them all in memory, reads them anew when one of them changes, and
 * sends a message for each change to each server that is to be told.
 */
export const MOST_ENTRIES_OF_RESELLER = { blocks: 10_000, zones: 10_000, notify: 100 } as const;
export type AclEntries = keyof typeof MOST_ENTRIES;

const DEFAULT_ALGORITHM: TsigAlgorithm = "hmac-sha256";
const DNS_PORT = 53;

/**
 * Refuses names with control characters, what is no block or has host bits set, what is no name or server, servers at addresses
 * that no single host has, and too much of anything.
 */
export function readAcl({ name, blocks, zones, notify }: AclInput): Result<AclParts, Refusal> {
  if (!/^[^\p{Cc}]{1,128}$/u.test(name)) {
    return refuse(invalidField("name", "acl-name-form"));
  }
  const readBlocks = readEach("blocks", blocks, readBlockText);
  if (!readBlocks.ok) return readBlocks;
  const readZones = readEach("zones", zones, orElse(canonicalName, "no-domain-name"));
  if (!readZones.ok) return readZones;
  const readServers = readEach("notify", notify, orElse(canonicalServer, "host-or-host-port"));
  if (!readServers.ok) return readServers;
  const named = readZones.value.length > 0 ? readZones.value : null;
  return ok({ name, blocks: readBlocks.value, zones: named, notify: readServers.value });
}

/**
 * A key; without a secret a new one is made. A short one of a peer is taken: see {@link tsigKeyWarning}.
 * @param given.algorithm `hmac-sha256` unless given
 * @param given.secret base64, its padding optional, white space in it as BIND's files may have it
 */
export function readTsigKey(given: {
  readonly name: string;
  readonly algorithm?: string | undefined;
  readonly secret?: string | undefined;
}): Result<TsigKeyParts, Refusal> {
  const name = parseDomainName(given.name);
  if (!name.ok) return refuse(invalidField("tsig", "for-name", { name: given.name, reason: name.error }));
  if (name.value.labelCount === 0) return refuse(invalidField("tsig", "root-as-key-name"));
  const algorithm = (given.algorithm ?? DEFAULT_ALGORITHM).toLowerCase();
  if (!isAlgorithm(algorithm)) {
    return refuse(invalidField("tsig", "none-of", { text: algorithm, choices: Object.keys(SECRET_OCTETS).join(", ") }));
  }
  const secret = given.secret === undefined ? randomBytes(SECRET_OCTETS[algorithm]) : decodeBase64(given.secret);
  if (!secret?.length) return refuse(invalidField("tsig", "no-base64-secret"));
  return ok({ name: lowerCase(name.value), algorithm, secret });
}

/** What is doubtful about an imported key: a secret shorter than the digest weakens it (RFC 2104 §3, RFC 8945 §8). */
export function tsigKeyWarning({ name, algorithm, secret }: TsigKeyParts): string | undefined {
  const octets = SECRET_OCTETS[algorithm];
  if (secret.length >= octets) return undefined;
  return `the secret of ${name} should have at least ${octets} octets for ${algorithm}, not ${secret.length}`;
}

function readEach(
  field: AclEntries,
  texts: readonly string[],
  read: (text: string) => Result<string, Sentence>,
): Result<string[], Refusal> {
  const most = MOST_ENTRIES[field];
  if (texts.length > most) return refuse(invalidField(field, "too-many-entries", { most }));
  const values: string[] = [];
  for (const text of texts) {
    const value = read(text);
    if (!value.ok) return refuse(invalidField(field, value.error));
    values.push(value.value);
  }
  return ok([...new Set(values)]);
}

function orElse(read: (text: string) => string | undefined, code: "no-domain-name" | "host-or-host-port") {
  return (text: string): Result<string, Sentence> => {
    const value = read(text);
    return value === undefined ? refuse(sentence(code, { text })) : ok(value);
  };
}

/** Zones have names: the root is none. */
function canonicalName(text: string): string | undefined {
  const name = parseDomainName(text);
  return name.ok && name.value.labelCount > 0 ? lowerCase(name.value) : undefined;
}

/** `host:port`, IPv6 addresses in brackets; the port is 53 unless given. */
function canonicalServer(text: string): string | undefined {
  if (isWholeAddress(text)) {
    if (isForMany(text)) return undefined;
    return text.includes(":") ? `[${text}]:${DNS_PORT}` : `${text}:${DNS_PORT}`;
  }
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d{1,5}))?$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3] ?? DNS_PORT);
  if (host === undefined || port < 1 || port > 65_535 || isForMany(host)) return undefined;
  if (match?.[1] !== undefined) return isWholeAddress(host) && host.includes(":") ? `[${host}]:${port}` : undefined;
  return isWholeAddress(host) || isServerName(host) ? `${host}:${port}` : undefined;
}

function isWholeAddress(text: string): boolean {
  return parseIpAddress(text) !== undefined;
}

/** RFC 1123 §2.1: no host name ends in a number, so that addresses can be told from names. */
function isServerName(host: string): boolean {
  return parseDomainName(host).ok && !/(?:^|\.)\d+\.?$/.test(host);
}

/** As zones and keys are named: lower case, without the final dot. */
function lowerCase(name: Parameters<typeof formatDomainName>[0]): string {
  return formatDomainName(name).toLowerCase().slice(0, -1);
}

function isAlgorithm(text: string): text is TsigAlgorithm {
  return Object.hasOwn(SECRET_OCTETS, text);
}

/** Node passes over what is not base64, so what it read is compared with what was there. */
function decodeBase64(text: string): Buffer | undefined {
  const given = text.replace(/\s+/g, "");
  const octets = Buffer.from(given, "base64");
  const padded = octets.toString("base64");
  const isWhole = octets.length > 0 && (given === padded || given === padded.replace(/=+$/, ""));
  return isWhole ? octets : undefined;
}
