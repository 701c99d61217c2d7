import { X509Certificate } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { parseDomainName } from "../../core/dns/name.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import type { KeyRing } from "../../core/key-ring.ts";
import type { SetupItem } from "../../core/mail/domain-setup/domain-setup.ts";
import { setupValue } from "../../core/mail/domain-setup/record-values.ts";
import { makeAccountKey, orderCertificate } from "../../platform/acme.ts";
import type { Config } from "../../platform/config/config.ts";
import { upkeepPolicy } from "../../platform/config/domain-upkeep-policy.ts";
import { withTime } from "../../platform/deadline.ts";
import type { OpenPublicLook } from "../../platform/lookups/authoritative-lookup.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { readRecordsAt } from "../../store/dns/records.ts";
import type { Zone } from "../../store/dns/zones.ts";
import { type DomainUpkeep, findDomainUpkeep } from "../../store/mail/instances/domain-upkeep.ts";
import {
  dropCertificates,
  findAcmeAccount,
  type HostCertificate,
  keepAcmeAccount,
  noteChallenge,
  noteNoCertificate,
  readCertificateState,
  storeCertificate,
  takeDueCertificate,
  wantCertificate,
} from "../../store/mail/instances/host-certificates.ts";
import { mayChangeZone } from "../../store/mail/instances/instance-companies.ts";
import { inTransaction } from "../../store/transactions.ts";
import { answersForDomain, hostingZone, type WriteZone } from "./domain-hosting.ts";

interface CertificateSurroundings {
  readonly db: Db;
  readonly keyRing: KeyRing;
  readonly config: Pick<Config, "acmeDirectory">;
  readonly openLook: OpenPublicLook;
  readonly write: WriteZone;
  /** Ends an order: the process is to end. */
  readonly signal: AbortSignal;
}

/**
 * Has a certificate obtained for the policy host of a domain whose policy is served here, once its name leads here, and none
 * any more where it is not. @returns the checks: a host without a certificate that lasts is somebody's to look at
 */
export async function checkCertificate(
  { db, config }: Pick<CertificateSurroundings, "db" | "config">,
  { instanceId, domain }: DomainUpkeep,
  { checks, now }: { readonly checks: readonly SetupItem[]; readonly now: Date },
): Promise<readonly SetupItem[]> {
  if (config.acmeDirectory === null) return checks;
  const host = checks.find(({ part }) => part === "mta-sts-host");
  if (host === undefined) await dropCertificates(db, { instanceId, domain });
  if (host?.action !== "keep") return checks;
  const of = { instanceId, domain, host: host.name };
  await wantCertificate(db, of);
  const state = await readCertificateState(db, of);
  const soon = now.getTime() + upkeepPolicy.certificates.warnDays * 86_400_000;
  const lasts = state?.notAfter && state.notAfter.getTime() > soon;
  if (state === undefined || state.failure === "" || lasts) return checks;
  const fault = { kind: "no-certificate", at: state.failure } as const;
  return checks.map((item) => (item === host ? { ...item, action: "ask" as const, fault } : item));
}

/** Less than what passes until it is tried again. */
const LONGEST_ORDER_MS = 600_000;

/** What came of an order. */
interface CertificateOrdered {
  readonly instanceId: number;
  readonly host: string;
  /** Undefined: it was obtained. */
  readonly failure: string | undefined;
}

/**
 * Obtains, or renews, one certificate that is due, by the DNS of a zone that is hosted here and whose records follow.
 * Whatever of it was done by whom it ended too soon for is done away with, and begun again later.
 * @returns undefined where none is due
 */
export async function obtainDueCertificate(
  surroundings: CertificateSurroundings,
  directory: string,
): Promise<CertificateOrdered | undefined> {
  const { db } = surroundings;
  const due = await inTransaction(db, (transaction) => takeDueCertificate(transaction, upkeepPolicy.certificates));
  if (due === undefined) return undefined;
  const { instanceId, host } = due;
  const failure = await obtain(surroundings, due, directory).catch((error: Error) => error.message);
  // It is begun again when it is due the next time.
  if (failure !== undefined && surroundings.signal.aborted) return undefined;
  if (failure !== undefined) await noteNoCertificate(db, due, failure.slice(0, 500));
  return { instanceId, host, failure };
}

/** @returns why it was not obtained, as far as that is ours to say */
async function obtain(
  surroundings: CertificateSurroundings,
  due: HostCertificate,
  directory: string,
): Promise<string | undefined> {
  const { db, keyRing } = surroundings;
  const challenge = `_acme-challenge.${due.host}`;
  const zone = await followedZone(db, due, challenge);
  if (zone === undefined) return "the zone is not hosted here, or nobody agreed that its records follow";
  // An authority may ask for no new proof, which would be noted over this one.
  if (due.challenge !== null) {
    await withdraw(surroundings, { zone, name: challenge, value: due.challenge });
    await noteChallenge(db, due, null);
  }
  const known = await findAcmeAccount(db, keyRing, directory);
  const account = known ?? { keyPem: await makeAccountKey(), url: undefined };
  let proof: string | undefined;
  try {
    const issued = await withTime({ limitMs: LONGEST_ORDER_MS, stop: surroundings.signal }, (signal) =>
      orderCertificate({
        ...{ directory, account, host: due.host, signal },
        prove: async (value) => {
          proof = value;
          await noteChallenge(db, due, value);
          await publish({ ...surroundings, signal }, { zone, name: challenge, value });
        },
      }),
    );
    if (known === undefined) {
      await keepAcmeAccount(db, keyRing, directory, { keyPem: account.keyPem, url: issued.accountUrl });
    }
    await storeCertificate(db, keyRing, due, { ...issued, ...lifeOf(issued.chain) });
  } finally {
    if (proof !== undefined) {
      await withdraw(surroundings, { zone, name: challenge, value: proof });
      await noteChallenge(db, due, null);
    }
  }
  return undefined;
}

/** It is renewed when a third of its life is left. */
function lifeOf(chain: string): { readonly notAfter: Date; readonly renewAt: Date } {
  const { validFrom, validTo } = new X509Certificate(chain);
  const [begin, end] = [Date.parse(validFrom), Date.parse(validTo)];
  return { notAfter: new Date(end), renewAt: new Date(end - (end - begin) / 3) };
}

/** The zone that somebody agreed to have followed, as long as whoever did may still change it. */
async function followedZone(db: Db, of: HostCertificate, name: string): Promise<Zone | undefined> {
  const upkeep = await findDomainUpkeep(db, of);
  const zone = await hostingZone({ db }, name);
  if (upkeep === undefined || zone === undefined || zone.id !== upkeep.zoneId) return undefined;
  if (!(await answersForDomain({ db }, of.domain, zone))) return undefined;
  return upkeep.byOperator || (await mayChangeZone(db, of.instanceId, zone.id)) ? zone : undefined;
}

interface Proof {
  readonly zone: Zone;
  readonly name: string;
  readonly value: string;
}

/** Resolves when every name server has it. */
async function publish(
  { openLook, write, signal }: CertificateSurroundings,
  { zone, name, value }: Proof,
): Promise<void> {
  signal.throwIfAborted();
  const written = await write(zone, { creations: [{ name, type: "TXT", value }], deletionIds: [], serial: undefined });
  if (!written.ok) throw new Error(`${name} cannot be written: ${written.error.kind}`);
  const { seenSeconds, lookSeconds } = upkeepPolicy.certificates;
  for (let waited = 0; waited < seenSeconds; waited += lookSeconds) {
    const { servers } = await openLook().ask(name, TYPE.TXT);
    const has = (records: readonly Uint8Array[]) => records.some((rdata) => setupValue(TYPE.TXT, rdata) === value);
    if (servers.length > 0 && servers.every(({ answered, records }) => answered && has(records))) return;
    await sleep(lookSeconds * 1_000, undefined, { signal });
  }
  throw new Error(`not all name servers have ${name}`);
}

async function withdraw({ db, write }: CertificateSurroundings, { zone, name, value }: Proof): Promise<void> {
  const owner = parseDomainName(`${name}.`);
  if (!owner.ok) return;
  const records = await readRecordsAt(db, zone.id, [owner.value], [TYPE.TXT]);
  const deletionIds = records.filter(({ rdata }) => setupValue(TYPE.TXT, rdata) === value).map(({ id }) => id);
  if (deletionIds.length === 0) return;
  const written = await write(zone, { creations: [], deletionIds, serial: undefined });
  if (!written.ok) throw new Error(`${name} cannot be taken away: ${written.error.kind}`);
}
