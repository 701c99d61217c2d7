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
  return SECONDARY_STANZAS[program](facts).join("\n");
}

/** What to paste into a resolver's configuration, for one policy zone. */
export function policyStanza(program: PolicyConsumer, facts: StanzaFacts, feed: string): string {
  return POLICY_STANZAS[program](facts, feed).join("\n");
}

type Stanza = (facts: StanzaFacts) => string[];

const SECONDARY_STANZAS: { readonly [program in Secondary]: Stanza } = {
  bind: bindSecondary,
  nsd: nsdSecondary,
  knot: knotSecondary,
  pdns: powerDnsSecondary,
  unbound: unboundSecondary,
};

const POLICY_STANZAS: { readonly [program in PolicyConsumer]: (facts: StanzaFacts, feed: string) => string[] } = {
  bind: bindPolicy,
  unbound: unboundPolicy,
  recursor: recursorPolicy,
};

function bindSecondary(facts: StanzaFacts): string[] {
  const catalogs = facts.zones.filter(({ isCatalog }) => isCatalog);
  return [
    ...bindPrimaries(facts),
    ...facts.zones.flatMap(({ name }) => bindZone(facts, name)),
    // There is one options block in a configuration, so it cannot be part of what is pasted.
    ...catalogs.map(
      ({ name }) =>
        `// in options: catalog-zones { zone "${name}" default-primaries { ${bindPrimary(facts)} } min-update-interval 1; };`,
    ),
  ];
}

function bindPolicy(facts: StanzaFacts, feed: string): string[] {
  return [
    // There is one options block in a configuration, and by default BIND lets a policy rest for a minute between changes.
    `// in options: response-policy { zone "${feed}" min-update-interval 1; };`,
    ...bindPrimaries(facts),
    ...bindZone(facts, feed, "  allow-query { localhost; };"),
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

function bindZone(facts: StanzaFacts, name: string, ...more: readonly string[]): string[] {
  return [
    `zone "${name}" {`,
    "  type secondary;",
    `  primaries { "${identifier(facts)}"; };`,
    `  file "${fileName(name)}";`,
    ...more,
    "};",
  ];
}

function nsdSecondary(facts: StanzaFacts): string[] {
  const { key, primary, zones } = facts;
  const id = identifier(facts);
  const keyName = key?.name ?? "NOKEY";
  return [
    ...(key ? ["key:", `  name: "${key.name}"`, `  algorithm: ${key.algorithm}`, `  secret: "${base64(key)}"`] : []),
    "pattern:",
    `  name: "${id}"`,
    `  allow-notify: ${primary.host} ${keyName}`,
    `  request-xfr: ${primary.host}@${primary.port} ${keyName}`,
    ...zones.flatMap(({ name, isCatalog }) => [
      "zone:",
      `  name: "${name}"`,
      `  include-pattern: "${id}"`,
      // Earlier versions do not know the words.
      ...(isCatalog ? ["  # from NSD 4.9 on:", "  # catalog: consumer", `  # catalog-member-pattern: "${id}"`] : []),
    ]),
  ];
}

function knotSecondary(facts: StanzaFacts): string[] {
  const { key, primary, zones } = facts;
  const id = identifier(facts);
  const keyLine = key ? [`    key: ${key.name}`] : [];
  const roles = [`    master: ${id}`, `    acl: ${id}-notify`];
  const hasCatalog = zones.some(({ isCatalog }) => isCatalog);
  return [
    ...(key ? ["key:", `  - id: ${key.name}`, `    algorithm: ${key.algorithm}`, `    secret: ${base64(key)}`] : []),
    "remote:",
    ...[`  - id: ${id}`, `    address: ${primary.host}@${primary.port}`, ...keyLine],
    "acl:",
    ...[`  - id: ${id}-notify`, `    address: ${primary.host}`, ...keyLine, "    action: notify"],
    ...(hasCatalog ? ["template:", `  - id: ${id}-members`, ...roles] : []),
    ...(zones.length > 0 ? ["zone:"] : []),
    ...zones.flatMap(({ name, isCatalog }) => [
      `  - domain: "${name}"`,
      ...roles,
      ...(isCatalog ? ["    catalog-role: interpret", `    catalog-template: ${id}-members`] : []),
    ]),
  ];
}

function powerDnsSecondary({ key, primary, zones }: StanzaFacts): string[] {
  return [
    ...(key ? [`pdnsutil import-tsig-key '${key.name}' ${key.algorithm} '${base64(key)}'`] : []),
    ...zones.flatMap(({ name, isCatalog }) => [
      `pdnsutil create-secondary-zone '${name}' '${bracketed(primary)}'`,
      ...(key ? [`pdnsutil activate-tsig-key '${name}' '${key.name}' secondary`] : []),
      `pdnsutil set-meta '${name}' IXFR 1`,
      ...(isCatalog ? [`pdnsutil set-kind '${name}' consumer`] : []),
    ]),
  ];
}

function unboundSecondary(facts: StanzaFacts): string[] {
  const { primary, zones } = facts;
  return [
    ...noKeyInUnbound(facts),
    ...zones.flatMap(({ name }) => [
      "auth-zone:",
      `  name: "${name}"`,
      `  primary: ${primary.host}@${primary.port}`,
      "  fallback-enabled: yes",
      "  for-downstream: yes",
      "  for-upstream: yes",
    ]),
  ];
}

function unboundPolicy(facts: StanzaFacts, feed: string): string[] {
  const { primary } = facts;
  return [
    ...noKeyInUnbound(facts),
    "server:",
    '  module-config: "respip validator iterator"',
    "rpz:",
    `  name: "${feed}"`,
    `  primary: ${primary.host}@${primary.port}`,
    `  rpz-log: yes`,
    `  rpz-log-name: "${identifier(facts)}"`,
  ];
}

function noKeyInUnbound({ key }: StanzaFacts): string[] {
  return key ? ["# Unbound has no TSIG: its address must be in one of the ACL's blocks."] : [];
}

/** Seconds between the looks of PowerDNS Recursor, which takes no NOTIFY for policy zones. */
const RECURSOR_REFRESH_SECONDS = 5;

function recursorPolicy({ key, primary }: StanzaFacts, feed: string): string[] {
  const options = [
    ...(key ? [`tsigname="${key.name}"`, `tsigalgo="${key.algorithm}"`, `tsigsecret="${base64(key)}"`] : []),
    `refresh=${RECURSOR_REFRESH_SECONDS}`,
  ];
  return [`rpzPrimary({"${bracketed(primary)}"}, "${feed}", {${options.join(", ")}})`];
}

/** From the ACL's name, so that the stanzas of several fit one file; with a digest where the name cannot stand as it is. */
function identifier({ aclName }: StanzaFacts): string {
  const plain = aclName.replace(/[^A-Za-z0-9_-]/g, "-");
  if (plain === aclName) return `palomar-${plain}`;
  return `palomar-${plain}-${createHash("sha256").update(aclName).digest("hex").slice(0, 8)}`;
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
