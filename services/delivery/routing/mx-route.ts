import type { AppliedSts, TlsSession } from "../../core/mail/reports/tls-session.ts";
import type { SmtpReply } from "../../core/mail/smtp-reply.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { isReachable } from "../../platform/lookups/address-blocks.ts";
import type { Lookup, MxRecord, Resolver } from "../../platform/lookups/resolver.ts";
import type { SmtpPeer } from "../../platform/smtp/client.ts";
import type { Route } from "../session-pool.ts";
import type { FindDane } from "./dane.ts";
import { allowsExchanger } from "./mta-sts.ts";
import type { FindPolicy } from "./sts-policies.ts";
import { tlsSessionOf } from "./tls-counts.ts";

/** What stands for a server's reply where there is no way. */
export type RouteRefusal = SmtpReply & {
  /** What the domain demands of sessions is not there: a session that is counted as failed. */
  readonly unmet?: TlsSession;
};

export interface MxSurroundings {
  readonly resolver: Resolver;
  /** The MTA-STS policy in force. */
  readonly findPolicy: FindPolicy;
  /** What DANE demands; absent without a validating resolver. */
  readonly findDane?: FindDane | undefined;
  /** Private blocks that mail may nevertheless go to. */
  readonly allowedBlocks: readonly string[];
  /** Our own name: a mail exchanger of that name, and those behind it, would be a loop. */
  readonly ownName: string;
  /** Spreads the load over exchangers of equal preference; 0 to below 1. */
  readonly random?: () => number;
  /** 25, but in tests. */
  readonly port?: number;
}

const SMTP_PORT = 25;
/** Servers tried for one message, at most: a zone with a hundred exchangers must not hold a worker for hours. */
const MOST_PEERS = 6;
/** Exchangers looked up for it: each may take its name server's time, and have no address in the end. */
const MOST_EXCHANGERS = 20;

/**
 * The mail exchangers of a domain, in the order in which they are tried. Of more than one attempt tries, the best is always
 * among them, and the others take turns: an attempt goes on where the one before it ended. So do the addresses of an
 * exchanger that has more than there are places for; one place is each exchanger's, and more go first to the better ones.
 * @param domain as A-labels
 * @param attemptsMade for the message
 * @returns refused with the reply that stands for it: 556 5.1.10 (null MX), 550 5.1.2 (no such domain, nowhere to
 * deliver), 550 5.4.6 (a loop), 451 4.4.3 (DNS does not answer), 451 4.7.5 (no exchanger that the policy allows, or
 * whose TLSA records can be validated)
 * @see RFC 5321 §5.1, RFC 7505, RFC 8461 §5, RFC 7672 §2.2
 */
export async function findMxRoute(
  domain: string,
  surroundings: MxSurroundings,
  attemptsMade = 0,
): Promise<Result<Route, RouteRefusal>> {
  const exchangers = await findExchangers(domain, surroundings);
  if (!exchangers.ok) return exchangers;
  const sts = await surroundings.findPolicy(domain);
  const enforced = sts?.mode === "enforce" ? sts : undefined;
  const found: SmtpPeer[][] = [];
  let trouble: RouteRefusal | undefined;
  for (const name of inTurn(exchangers.value, attemptsMade).slice(0, MOST_EXCHANGERS)) {
    const security = await secureExchanger(domain, name, { ...surroundings, enforced });
    const addresses: Result<string[], RouteRefusal> = security.ok ? await findAddresses(name, surroundings) : security;
    if (addresses.ok && security.ok) found.push(addresses.value.map((host) => ({ host, name, ...security.value })));
    // What may pass decides: who is only away for now must not look like nobody.
    else if (!addresses.ok && (trouble === undefined || addresses.error.code < 500)) trouble = addresses.error;
    if (found.length >= MOST_PEERS) break;
  }
  if (found.length > 0) {
    const peers = sharePlaces(found, attemptsMade);
    // A session from before a policy demanded TLS, or proof, is none that may be used after.
    const demands = [...new Set(peers.map(({ tls }) => tls))].sort();
    return ok({ key: `mx ${domain} ${demands.join(" ")}`, peers, demands: { sts } });
  }
  return refuse(trouble ?? reply(550, "5.1.2", `no mail exchanger of ${domain} can be reached`));
}

function inTurn(names: readonly string[], attemptsMade: number): readonly string[] {
  if (names.length <= MOST_PEERS) return names;
  const others = names.slice(1);
  return [...names.slice(0, 1), ...goingOn(others, attemptsMade * (MOST_PEERS - 1))];
}

/** Whom an attempt tries: places go round the exchangers, one at a time. */
function sharePlaces(found: readonly (readonly SmtpPeer[])[], attemptsMade: number): SmtpPeer[] {
  const ofExchangers = found
    .flatMap((peers, exchanger) => peers.map((_, round) => ({ exchanger, round })))
    .sort((a, b) => a.round - b.round)
    .slice(0, MOST_PEERS)
    .map(({ exchanger }) => exchanger);
  return found.flatMap((peers, exchanger) => {
    const places = ofExchangers.filter((each) => each === exchanger).length;
    return goingOn(peers, attemptsMade * places).slice(0, places);
  });
}

/** Begins behind so many that had their turn, and then with the first again. */
function goingOn<T>(all: readonly T[], had: number): T[] {
  const start = had % all.length;
  return [...all.slice(start), ...all.slice(0, start)];
}

const NOT_OPENED = { address: "", source: "", evidence: { kind: "not-offered" } } as const;

/** How an exchanger is spoken to. DANE comes before MTA-STS (RFC 8461 §2). */
async function secureExchanger(
  domain: string,
  name: string,
  { findDane, enforced, port = SMTP_PORT }: MxSurroundings & { readonly enforced: AppliedSts | undefined },
): Promise<Result<Pick<SmtpPeer, "port" | "tls" | "dane">, RouteRefusal>> {
  const demand = (await findDane?.(domain, name, port)) ?? { kind: "none" };
  if (demand.kind === "proof") return ok({ port, tls: "dane", dane: demand.requirement });
  if (demand.kind === "unknown") {
    const unmet = tlsSessionOf(domain, undefined, { name, dane: { records: [], names: [] } }, NOT_OPENED);
    const refused = reply(451, "4.7.5", `what DANE demands of ${name} cannot be validated now`);
    return refuse({ ...refused, unmet: { ...unmet, result: "dnssec-invalid" } });
  }
  if (enforced === undefined) return ok({ port, tls: "opportunistic" });
  if (allowsExchanger(enforced, name)) return ok({ port, tls: "required" });
  const unmet = tlsSessionOf(domain, enforced, { name }, NOT_OPENED);
  return refuse({ ...reply(451, "4.7.5", `no mail exchanger of ${domain} is in its MTA-STS policy`), unmet });
}

/** Names in order of preference, equal ones shuffled. */
async function findExchangers(
  domain: string,
  { resolver, ownName, random = Math.random }: MxSurroundings,
): Promise<Result<string[], SmtpReply>> {
  const found = await resolver.resolveMx(domain);
  switch (found.kind) {
    case "nxdomain":
      return refuse(reply(550, "5.1.2", `the domain ${domain} does not exist`));
    case "nodata":
      return ok([domain]); // RFC 5321 §5.1: the domain itself, only when it has no MX
    case "server-failure":
    case "timeout":
      return refuse(reply(451, "4.4.3", `the mail exchangers of ${domain} cannot be looked up now`));
    case "found":
      return orderExchangers(domain, found.records, { ownName, random });
  }
}

function orderExchangers(
  domain: string,
  records: readonly MxRecord[],
  { ownName, random }: { readonly ownName: string; readonly random: () => number },
): Result<string[], SmtpReply> {
  if (records.every(isNullMx)) {
    return refuse(reply(556, "5.1.10", `the domain ${domain} does not accept mail`)); // RFC 7505 §4
  }
  // RFC 5321 §5.1: whoever is as far away as we are, or farther, would give it back to us.
  const own = Math.min(...records.filter((each) => sameName(each.exchange, ownName)).map((each) => each.preference));
  const usable = records
    .filter((record) => !isNullMx(record) && record.preference < own)
    .map((record) => ({ ...record, draw: random() }))
    .sort((a, b) => a.preference - b.preference || a.draw - b.draw);
  if (usable.length === 0) return refuse(reply(550, "5.4.6", `mail for ${domain} loops back to this host`));
  return ok(usable.map(({ exchange }) => exchange));
}

async function findAddresses(
  host: string,
  { resolver, allowedBlocks }: MxSurroundings,
): Promise<Result<string[], SmtpReply>> {
  const answers = await Promise.all([resolver.resolveA(host), resolver.resolveAaaa(host)]);
  const addresses = answers.flatMap((answer) => (answer.kind === "found" ? answer.records : []));
  const usable = addresses.filter((address) => isReachable(address, allowedBlocks));
  if (usable.length > 0) return ok(usable);
  if (addresses.length > 0) return refuse(reply(550, "5.1.2", `${host} has no public address`));
  if (answers.some(isUncertain)) return refuse(reply(451, "4.4.3", `the addresses of ${host} cannot be looked up now`));
  return refuse(reply(550, "5.1.2", `${host} has no address`));
}

function isNullMx({ exchange }: MxRecord): boolean {
  return exchange === "" || exchange === ".";
}

function isUncertain(answer: Lookup<string>): boolean {
  return answer.kind === "server-failure" || answer.kind === "timeout";
}

function sameName(a: string, b: string): boolean {
  return a.toLowerCase().replace(/\.$/, "") === b.toLowerCase();
}

function reply(code: number, enhancedStatus: SmtpReply["enhancedStatus"], text: string): SmtpReply {
  return { code, enhancedStatus, lines: [text] };
}
