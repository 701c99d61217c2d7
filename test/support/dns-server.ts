import { randomBytes, randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DomainName, parseDomainName } from "../../services/core/dns/name.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { addCompany } from "../../services/operations/dns/companies.ts";
import { deleteZone as deleteZoneAs } from "../../services/operations/dns/zone-deletion.ts";
import { importZone } from "../../services/operations/dns/zone-files.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { loadConfig } from "../../services/platform/config/config.ts";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import type { Observe } from "../../services/platform/observability/observation.ts";
import { openListenConnection } from "../../services/platform/postgres/db.ts";
import type { ServiceContext } from "../../services/platform/service.ts";
import { addReseller } from "../../services/store/dns/resellers.ts";
import { notifyZones } from "../../services/store/dns/zone-notices.ts";
import { setZoneSuspended } from "../../services/store/dns/zones.ts";
import { atExit } from "./at-exit.ts";
import type { TestDatabase } from "./database.ts";
import { eventually as eventuallyPleases } from "./stack.ts";

export const SECRET = "a secret that only tests know";
const KEY_RING = KeyRing.ofSecret(SECRET);
/** What signs the changes of signed zones. */
export const SIGNER = { keyRing: KEY_RING, clock: systemClock };
const COMPANY = { resellerId: "reseller", crmId: "company" };
export const SCOPE = { resellerId: COMPANY.resellerId };

/** Adds a reseller and its company: those that the zones of a DNS server's test belong to, unless given. */
export async function addZoneOwner({ db }: Pick<TestDatabase, "db">, owner = COMPANY): Promise<void> {
  const keyHash = Buffer.from(owner.resellerId);
  await addReseller(db, { id: owner.resellerId, name: "R", rpzLicence: false, keyHash });
  await addCompany(db, KEY_RING, { ...owner, name: "C", apikey: "key" });
}

/** What the DNS server is started with, on a database of the test's own and a free port. */
export function dnsServerContext(
  database: TestDatabase,
  options: {
    readonly env?: Readonly<Record<string, string>>;
    readonly openConnection?: ServiceContext["openListenConnection"];
    readonly observe?: Observe;
  } = {},
): ServiceContext {
  const config = loadConfig({
    DATABASE_URL: database.url,
    PALOMAR_SECRET: SECRET,
    PALOMAR_DNS_LISTEN: "127.0.0.1:0",
    PALOMAR_DATA_DIR: makeDataFolder(),
    ...options.env,
  });
  if (!config.ok) throw new Error(config.error.join("\n"));
  return {
    config: config.value,
    keyRing: KEY_RING,
    db: database.db,
    clock: systemClock,
    logger: makeLogger("test", "silent"),
    observe: options.observe ?? (() => {}),
    openListenConnection: options.openConnection ?? (() => openListenConnection(database.url, "test")),
    addressOf: () => Promise.reject(new Error("the DNS server asks for no sibling")),
  };
}

/** A data folder that goes when the tests of a file have run. */
function makeDataFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "palomar-dns-"));
  atExit(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Makes a zone of these records or puts them in place of its own, and tells the readers unless there is a reason not to. */
export async function putZone(
  { db }: TestDatabase,
  name: string,
  records: readonly string[],
  reasonForSilence?: string,
  owner = COMPANY,
): Promise<void> {
  const text = `$TTL 300\n@ SOA ns1 hostmaster 1 7200 3600 1209600 60\n${records.join("\n")}\n`;
  await putZoneFile({ db }, name, text, reasonForSilence, owner);
}

/** As `putZone`, for a whole master file. */
export async function putZoneFile(
  { db }: Pick<TestDatabase, "db">,
  name: string,
  text: string,
  reasonForSilence?: string,
  owner = COMPANY,
): Promise<void> {
  const scope = { resellerId: owner.resellerId };
  const target = { scope, apex: nameOf(name), domain: name, actor: "test", signer: SIGNER };
  const applied = await importZone(db, owner, target, { text, now: new Date() });
  if (!applied.ok) throw new Error(JSON.stringify(applied.error));
  if (reasonForSilence === undefined) await notifyZones(db, [applied.value.zone.id]);
}

/** Suspends or resumes a zone, and tells the readers. */
export async function suspendZone({ db }: TestDatabase, name: string, suspended: boolean): Promise<void> {
  const which = { scope: SCOPE, apex: nameOf(name), domain: name, crmId: COMPANY.crmId };
  const set = await setZoneSuspended(db, which, suspended);
  if (!set.ok) throw new Error(JSON.stringify(set.error));
  await notifyZones(db, [set.value.zone.id]);
}

/** Deletes a zone. @returns what its readers are to be told of */
export async function deleteZone({ db }: TestDatabase, name: string): Promise<readonly number[]> {
  const deleted = await deleteZoneAs(db, { scope: SCOPE, apex: nameOf(name), domain: name, signer: SIGNER });
  if (!deleted.ok) throw new Error(JSON.stringify(deleted.error));
  return [...deleted.value.zoneIds, ...deleted.value.parentIds];
}

export function nameOf(text: string): DomainName {
  const name = parseDomainName(text);
  if (!name.ok) throw new Error(name.error.message);
  return name.value;
}

/** Sends random octets to a DNS server, as datagrams and over connections, and waits until it has had them. */
export async function throwOctetsAt(address: string, datagrams: number, connections: number): Promise<void> {
  const [host, port] = address.split(":") as [string, string];
  const socket = createSocket("udp4");
  for (let index = 0; index < datagrams; index += 1) {
    const octets = randomBytes(randomInt(0, 600));
    // Every other one looks like a query as far as its header goes.
    if (index % 2 === 0 && octets.length >= 12) octets.set([0, 0, 0, 1, 0, 0, 0, 0, 0, 1], 2);
    await new Promise((resolve) => socket.send(octets, Number(port), host, resolve));
  }
  socket.close();
  const ends = Array.from({ length: connections }, () => {
    const stream = connect(Number(port), host);
    stream.on("error", () => {});
    stream.end(randomBytes(randomInt(1, 100_000)));
    stream.resume();
    return new Promise((resolve) => stream.once("close", resolve));
  });
  await Promise.all(ends);
}

/** Asks again until it holds; the deadline is for when the question is put. */
export async function eventually(holds: () => Promise<boolean>, deadlineMs: number): Promise<void> {
  await eventuallyPleases(holds, (isSo) => isSo, deadlineMs);
}
