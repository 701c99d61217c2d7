import { createHash } from "node:crypto";
import type { TsigAlgorithm } from "./tsig.ts";

/** Programs that can be secondaries. */
export const SECONDARIES = ["bind", "nsd", "knot", "pdns", "unbound"] as const;
export type Secondary = (typeof SECONDARIES)[number];

/** Programs that can apply a response policy zone. */
export const POLICY_CONSUMERS = ["bind", "unbound", "recursor"] as const;
export type PolicyConsumer = (typeof POLICY_CONSUMERS)[number];

/** The key of an ACL, secret included. */
export interface StanzaKey {
  readonly name: string;
  readonly algorithm: TsigAlgorithm;
  readonly secret: Uint8Array;
}

/** What the other side needs to know. */
export interface StanzaFacts {
  /** Whose ACL it is. */
  readonly resellerId: string;
  /** Name of the ACL. */
  readonly aclName: string;
  readonly key: StanzaKey | null;
  readonly primary: ServerAddress;
  readonly zones: readonly { readonly name: string; readonly isCatalog: boolean }[];
}

/** Where a server listens; IPv6 addresses without brackets. */
export interface ServerAddress {
  readonly host: string;
  readonly port: number;
}

/** What to paste into a secondary's configuration, or for PowerDNS the commands to run. */
export function secondaryStanza(program: Secondary, facts: StanzaFacts): string {
  return [...secondaryStanzaLines(program, facts)].join("\n");
}

/** The lines of a secondary's stanza, each made when it is asked for: of 100,000 zones there are a million. */
export function secondaryStanzaLines(program: Secondary, facts: StanzaFacts): Iterable<string> {
  const catalogs = facts.zones.filter(({ isCatalog }) => isCatalog);
  // Beside its catalog a zone of its own would stay, and be answered, after it left the catalog (RFC 9432 §5.1).
  const zones = KNOW_CATALOGS.has(program) && catalogs.length > 0 ? catalogs : facts.zones;
  return SECONDARY_STANZAS[program]({ ...facts, zones });
}

/**
 * What to paste into a resolver's configuration, for the policy zones that it is to apply.
 * @param feeds in the order in which they are applied
 */
export function policyStanza(program: PolicyConsumer, facts: StanzaFacts, feeds: readonly string[]): string {
  return POLICY_STANZAS[program](facts, feeds).join("\n");
}

/** NSD does from 4.9 on; its stanza has both, the catalog's words behind a `#`. */
const KNOW_CATALOGS: ReadonlySet<Secondary> = new Set(["bind", "knot", "pdns"]);

type Stanza = (facts: StanzaFacts) => Iterable<string>;

const SECONDARY_STANZAS: { readonly [program in Secondary]: Stanza } = {
  bind: bindSecondary,
  nsd: nsdSecondary,
  knot: knotSecondary,
  pdns: powerDnsSecondary,
  unbound: unboundSecondary,
};

type PolicyStanza = (facts: StanzaFacts, feeds: readonly string[]) => string[];

const POLICY_STANZAS: { readonly [program in PolicyConsumer]: PolicyStanza } = {
  bind: bindPolicy,
  unbound: unboundPolicy,
  recursor: recursorPolicy,
};

function* bindSecondary(facts: StanzaFacts): Iterable<string> {
  const id = identifier(facts);
  yield* bindPrimaries(facts);
  for (const { name } of facts.zones) yield* bindZone(id, name);
  const catalogs = facts.zones.filter(({ isCatalog }) => isCatalog);
  const settings = `default-primaries { ${bindPrimary(facts)} } min-update-interval 1`;
  yield* inBindOptions("catalog-zones", settings, catalogs);
}

function bindPolicy(facts: StanzaFacts, feeds: readonly string[]): string[] {
  return [
    // By default BIND lets a policy rest for a minute between changes.
    ...inBindOptions(
      "response-policy",
      "min-update-interval 1",
      feeds.map((name) => ({ name })),
    ),
    "// Where the file has another stanza of this ACL, leave the key and the primaries out here.",
    ...bindPrimaries(facts),
    ...feeds.flatMap((feed) => bindZone(identifier(facts), feed, "  allow-query { localhost; };")),
  ];
}

/** There is one options block in a configuration, so it cannot be part of what is pasted; nor has it a statement twice. */
function inBindOptions(statement: string, settings: string, zones: readonly { readonly name: string }[]): string[] {
  if (zones.length === 0) return [];
  const settled = zones.map(({ name }) => `zone "${name}" ${settings};`);
  return [
    `// in options: ${statement} { ${settled.join(" ")} };`,
    `// Where options has a ${statement} already, put what is in the braces into its own.`,
  ];
}

function bindPrimaries(facts: StanzaFacts): string[] {
  const { key } = facts;
  return [
    ...(key ? [`key "${key.name}" {`, `  algorithm ${key.algorithm};`, `  secret "${base64(key)}";`, "};"] : []),
    `primaries "${identifier(facts)}" { ${bindPrimary(facts)} };`,
  ];
}

function bindPrimary({ primary, key }: StanzaFacts): string {
  return `${primary.host} port ${primary.port}${key ? ` key "${key.name}"` : ""};`;
}

function bindZone(id: string, name: string, ...more: readonly string[]): string[] {
  return [
    `zone "${name}" {`,
    "  type secondary;",
    `  primaries { "${id}"; };`,
    `  file "${fileName(name)}";`,
    ...more,
    "};",
  ];
}

function* nsdSecondary(facts: StanzaFacts): Iterable<string> {
  const { key, primary, zones } = facts;
  const id = identifier(facts);
  const keyName = key?.name ?? "NOKEY";
  if (key) yield* ["key:", `  name: "${key.name}"`, `  algorithm: ${key.algorithm}`, `  secret: "${base64(key)}"`];
  yield* ["pattern:", `  name: "${id}"`];
  yield `  allow-notify: ${primary.host} ${keyName}`;
  yield `  request-xfr: ${primary.host}@${primary.port} ${keyName}`;
  for (const { name, isCatalog } of zones) {
    yield* ["zone:", `  name: "${name}"`, `  include-pattern: "${id}"`];
    // Earlier versions do not know the words.
    if (isCatalog) yield* ["  # from NSD 4.9 on:", "  # catalog: consumer", `  # catalog-member-pattern: "${id}"`];
  }
}

function* knotSecondary(facts: StanzaFacts): Iterable<string> {
  const { key, primary, zones } = facts;
  const id = identifier(facts);
  const keyLine = key ? [`    key: ${key.name}`] : [];
  const roles = [`    master: ${id}`, `    acl: ${id}-notify`];
  const hasCatalog = zones.some(({ isCatalog }) => isCatalog);
  if (key) yield* ["key:", `  - id: ${key.name}`, `    algorithm: ${key.algorithm}`, `    secret: ${base64(key)}`];
  yield* ["remote:", `  - id: ${id}`, `    address: ${primary.host}@${primary.port}`, ...keyLine];
  yield* ["acl:", `  - id: ${id}-notify`, `    address: ${primary.host}`, ...keyLine, "    action: notify"];
  if (hasCatalog) yield* ["template:", `  - id: ${id}-members`, ...roles];
  if (zones.length > 0) yield "zone:";
  for (const { name, isCatalog } of zones) {
    yield* [`  - domain: "${name}"`, ...roles];
    if (isCatalog) yield* ["    catalog-role: interpret", `    catalog-template: ${id}-members`];
  }
}

function* powerDnsSecondary({ key, primary, zones }: StanzaFacts): Iterable<string> {
  if (key) yield `pdnsutil import-tsig-key '${key.name}' ${key.algorithm} '${base64(key)}'`;
  for (const { name, isCatalog } of zones) {
    yield `pdnsutil create-secondary-zone '${name}' '${bracketed(primary)}'`;
    if (key) yield `pdnsutil activate-tsig-key '${name}' '${key.name}' secondary`;
    // A consumer that asks for IXFR fails with its second transfer (4.7: "not configured as slave").
    yield isCatalog ? `pdnsutil set-kind '${name}' consumer` : `pdnsutil set-meta '${name}' IXFR 1`;
    if (!isCatalog || !key) continue;
    // PowerDNS gives members the primary of their catalog, and no AXFR-MASTER-TSIG.
    yield "# The catalog's members ask without the key: add the address of this server to the ACL (--block), or for each member:";
    yield `# pdnsutil activate-tsig-key MEMBER '${key.name}' secondary`;
  }
}

function* unboundSecondary(facts: StanzaFacts): Iterable<string> {
  const { primary, zones } = facts;
  yield* noKeyInUnbound(facts);
  for (const { name } of zones) {
    if (unboundAnswersItself(name)) yield* ["server:", `  local-zone: "${name}" transparent`];
    yield* ["auth-zone:", `  name: "${name}"`, `  primary: ${primary.host}@${primary.port}`];
    yield* ["  fallback-enabled: yes", "  for-downstream: yes", "  for-upstream: yes"];
  }
}

/** What a number from first to last makes, each in turn. */
const counted = (first: number, last: number, write: (number: number) => string) =>
  Array.from({ length: last - first + 1 }, (_, index) => write(first + index));

/** What Unbound answers by itself unless it is told not to (unbound.conf(5), `local-zone`). */
const UNBOUND_LOCAL_ZONES: ReadonlySet<string> = new Set([
  ...["localhost", "test", "invalid", "onion", "home.arpa", "resolver.arpa", "service.arpa"],
  ...["0", "10", "127", "254.169", "168.192", "2.0.192", "100.51.198", "113.0.203", "255.255.255.255"]
    .concat(counted(16, 31, (number) => `${number}.172`))
    .concat(counted(64, 127, (number) => `${number}.100`))
    .map((block) => `${block}.in-addr.arpa`),
  ...["d.f", "8.e.f", "9.e.f", "a.e.f", "b.e.f", "8.b.d.0.1.0.0.2", `${"0.".repeat(31)}0`, `1.${"0.".repeat(30)}0`].map(
    (block) => `${block}.ip6.arpa`,
  ),
]);

/** Whether a zone is one of those, or lies below one: `transparent` has it answered from elsewhere in both cases. */
function unboundAnswersItself(zone: string): boolean {
  const labels = zone.split(".");
  return labels.some((_, index) => UNBOUND_LOCAL_ZONES.has(labels.slice(index).join(".")));
}

function unboundPolicy(facts: StanzaFacts, feeds: readonly string[]): string[] {
  const { primary } = facts;
  return [
    ...noKeyInUnbound(facts),
    "server:",
    '  module-config: "respip validator iterator"',
    ...feeds.flatMap((feed) => [
      "rpz:",
      `  name: "${feed}"`,
      `  primary: ${primary.host}@${primary.port}`,
      "  rpz-log: yes",
      `  rpz-log-name: "${identifier(facts)}"`,
    ]),
  ];
}

function noKeyInUnbound({ key }: StanzaFacts): string[] {
  return key ? ["# Unbound has no TSIG: its address must be in one of the ACL's blocks."] : [];
}

/** Seconds between the looks of PowerDNS Recursor, which takes no NOTIFY for policy zones. */
const RECURSOR_REFRESH_SECONDS = 5;

function recursorPolicy({ key, primary }: StanzaFacts, feeds: readonly string[]): string[] {
  const options = [
    ...(key ? [`tsigname="${key.name}"`, `tsigalgo="${key.algorithm}"`, `tsigsecret="${base64(key)}"`] : []),
    `refresh=${RECURSOR_REFRESH_SECONDS}`,
  ];
  return feeds.map((feed) => `rpzPrimary({"${bracketed(primary)}"}, "${feed}", {${options.join(", ")}})`);
}

/**
 * The ACL's name, and a digest that tells it from those of other resellers and of other case, so that the stanzas of several
 * fit one file: to BIND, names that differ in case alone are one.
 */
function identifier({ resellerId, aclName }: StanzaFacts): string {
  const digest = createHash("sha256").update(`${resellerId}\0${aclName}`).digest("hex");
  return `palomar-${aclName.replace(/[^A-Za-z0-9_-]/g, "-")}-${digest.slice(0, 8)}`;
}

function fileName(zone: string): string {
  return `${zone.replace(/[^A-Za-z0-9_.-]/g, (character) => `%${character.charCodeAt(0).toString(16)}`)}.secondary`;
}

function bracketed({ host, port }: ServerAddress): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

function base64(key: StanzaKey): string {
  return Buffer.from(key.secret).toString("base64");
}
