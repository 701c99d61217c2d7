import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DomainName, nameFromStoredWire } from "../../services/core/dns/name.ts";
import type { ResourceRecord } from "../../services/core/dns/record.ts";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import { soaRecord } from "../../services/core/dns/soa.ts";
import { formatZoneFile } from "../../services/core/dns/zone-file/writer.ts";
import { start as startDnsServer } from "../../services/dns-server/main.ts";
import type { ZoneSigner } from "../../services/operations/dns/zone-signing.ts";
import type { SigningTarget } from "../../services/operations/dns/zone-signing-state.ts";
import { maintainZone } from "../../services/operations/dns/zone-signing-upkeep.ts";
import type { ParentDs } from "../../services/platform/lookups/ds-lookup.ts";
import { type Db, queryRows } from "../../services/platform/postgres/db.ts";
import { addAcl } from "../../services/store/dns/acls.ts";
import { readAllDerived } from "../../services/store/dns/dnssec-records.ts";
import { findAnyZone, type Zone, zoneName } from "../../services/store/dns/zones.ts";
import { addZoneOwner, dnsServerContext, nameOf, SCOPE, SIGNER } from "../support/dns-server.ts";
import { Secondary, type ZoneSight } from "./transferred-zone.ts";

/** Where sequences run: a database, and a name server on it. */
export interface Ground {
  readonly db: Db;
  readonly server: string;
  readonly folder: string;
  close(): Promise<void>;
}

/** Starts a name server on a database that has nothing in it yet. */
export async function openGround(database: { readonly db: Db; readonly url: string }): Promise<Ground> {
  const { db } = database;
  await addZoneOwner(database);
  const acl = {
    resellerId: SCOPE.resellerId,
    name: "all",
    blocks: ["127.0.0.1/32"],
    tsig: null,
    zones: null,
    notify: [],
  };
  const added = await addAcl(db, SIGNER.keyRing, acl);
  if (!added.ok) throw new Error(JSON.stringify(added.error));
  const service = await startDnsServer(
    dnsServerContext({ ...database, drop: async () => {} }, { env: { PALOMAR_DNS_UDP: "portable" } }),
  );
  const folder = mkdtempSync(join(tmpdir(), "palomar-signing-"));
  return {
    db,
    server: service.addresses.dns!,
    folder,
    close: async () => {
      await service.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const DAY_MS = 86_400_000;
/**
 * dnssec-verify judges signatures by the present alone. So a sequence begins in the past and never gets beyond the present:
 * signatures are made anew 8 days before they end, so that all that hold then hold now as well.
 */
const BEGINS_BEFORE_MS = 7 * DAY_MS - 3_600_000;

/** What the parents above say of DS, where no zone of ours is the parent. */
type ParentWord = "silent" | "follows" | "stands";

/** One zone, a zone of ours below it, and the time they live in. */
export class World {
  readonly ground: Ground;
  readonly zone: DomainName;
  readonly child: DomainName;
  readonly size: number;
  readonly #endMs = Date.now();
  #nowMs = this.#endMs - BEGINS_BEFORE_MS;
  #parentDs: readonly Uint8Array[] = [];
  readonly #secondaries: readonly Secondary[];

  constructor(ground: Ground, size: number) {
    this.ground = ground;
    this.size = size;
    const name = `s${randomBytes(5).toString("hex")}.example.org`;
    this.zone = nameOf(name);
    this.child = nameOf(`Child.${name}`);
    const sight: ZoneSight = { ...ground, nowMs: () => this.#nowMs };
    this.#secondaries = [new Secondary(sight, name), new Secondary(sight, `child.${name}`)];
  }

  get signer(): ZoneSigner {
    return { keyRing: SIGNER.keyRing, clock: { nowMs: () => this.#nowMs } };
  }

  get now(): Date {
    return new Date(this.#nowMs);
  }

  get leftMs(): number {
    return this.#endMs - this.#nowMs;
  }

  target(apex: DomainName): SigningTarget {
    const domain = zoneName(apex);
    return { scope: SCOPE, apex, domain, actor: "test", signer: this.signer };
  }

  find(apex: DomainName): Promise<Zone | undefined> {
    return findAnyZone(this.ground.db, apex);
  }

  /** Lets time pass, and then does what is due. */
  async pass(ms: number, parent: ParentWord): Promise<void> {
    this.#nowMs = Math.min(this.#endMs, this.#nowMs + ms);
    await this.keepUp(parent);
  }

  /** Does what is due by now for the world's zones. */
  async keepUp(parent: ParentWord): Promise<void> {
    const { db } = this.ground;
    if (parent === "follows") this.#parentDs = await this.#cds(this.zone);
    const lookUpDs = async (): Promise<ParentDs | undefined> =>
      parent === "silent" ? undefined : { records: this.#parentDs, ttlSeconds: 3_600, authenticated: true };
    const due = await queryRows<{ apex: Buffer }>(
      db,
      `select z.apex from zone_signing s join zones z on z.id = s.zone_id
        where s.due_at <= $1 and z.name = any($2::text[]) order by s.due_at`,
      [this.now, [zoneName(this.zone), zoneName(this.child)]],
    );
    for (const { apex } of due) {
      await maintainZone(db, nameFromStoredWire(apex), { signer: this.signer, lookUpDs });
    }
  }

  /** The parent has no DS any more. */
  forgetDs(): void {
    this.#parentDs = [];
  }

  /** @returns what the secondaries, and those whom they ask, have against the zones */
  async judge(): Promise<string[]> {
    const all: string[] = [];
    for (const secondary of this.#secondaries) all.push(...(await secondary.judge()));
    return all;
  }

  /** The master file of these records, with the zone's SOA or another minimum and TTL. */
  fileOf(
    apex: DomainName,
    records: readonly ResourceRecord[],
    soa: { minimum: number; ttl: number; serial?: number },
  ): string {
    const { minimum, ttl, serial = 1 } = soa;
    const names = { mname: nameOf("ns1.example.net"), rname: nameOf("hostmaster.example.net") };
    const data = { ...names, serial, refresh: 7_200, retry: 900, expire: 1_209_600, minimum };
    return formatZoneFile({ apex, soa: soaRecord(apex, data, ttl), records, ttl });
  }

  async #cds(apex: DomainName): Promise<Uint8Array[]> {
    const zone = await this.find(apex);
    if (!zone?.signed) return [];
    const derived = await readAllDerived(this.ground.db, zone.id);
    const isDelete = (rdata: Uint8Array) => rdata[2] === 0;
    return derived.filter(({ type, rdata }) => type === TYPE.CDS && !isDelete(rdata)).map(({ rdata }) => rdata);
  }
}
