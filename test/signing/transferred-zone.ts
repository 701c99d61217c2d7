import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { dnskeyOf } from "../../services/core/dns/dnssec/apex-records.ts";
import { keysForParent } from "../../services/core/dns/dnssec/rollover.ts";
import { encodeRecords, type ResourceRecord } from "../../services/core/dns/record.ts";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import { soaRecord } from "../../services/core/dns/soa.ts";
import { formatZoneFile } from "../../services/core/dns/zone-file/writer.ts";
import { isWellSigned } from "../../services/operations/dns/zone-signing.ts";
import type { Db } from "../../services/platform/postgres/db.ts";
import { readSigning, type SigningState } from "../../services/store/dns/dnssec-keys.ts";
import { readAllDerived } from "../../services/store/dns/dnssec-records.ts";
import { readAllRecords } from "../../services/store/dns/records.ts";
import { notifyZones } from "../../services/store/dns/zone-notices.ts";
import { findAnyZone, type Zone } from "../../services/store/dns/zones.ts";
import { nameOf, SIGNER } from "../support/dns-server.ts";
import { isInstalled } from "../support/peers-processes.ts";
import { askOverTcp, serialOf } from "../support/transfer-client.ts";
import { complaintsOfOracle, type ExpectedSigning } from "./oracle.ts";

/** What a zone is watched with. */
export interface ZoneSight {
  readonly db: Db;
  /** `host:port` of a name server on the same database, from which this machine may transfer. */
  readonly server: string;
  readonly nowMs: () => number;
  /** A folder for files of this process alone. */
  readonly folder: string;
}

/** The checkers that are here. */
const FOREIGNERS = new Set(["dnssec-verify", "ldns-verify-zone"].filter(isInstalled));

const PUBLICATION_DEADLINE_MS = 20_000;

/**
 * A secondary of one zone. It takes the zone whole after each step, and once more by difference from what it had, and says
 * what three judges have against it: dnssec-verify, ldns-verify-zone, and the oracle.
 */
export class Secondary {
  readonly #sight: ZoneSight;
  readonly #name: string;
  readonly #verified = new Set<string>();
  /** The zone as the differences have it, and its serial; undefined before the first transfer. */
  #copy: { readonly serial: number; readonly records: readonly string[] } | undefined;

  constructor(sight: ZoneSight, name: string) {
    this.#sight = sight;
    this.#name = name;
  }

  /** @returns what is wrong with the zone; empty when nothing is */
  async judge(): Promise<string[]> {
    const { db, nowMs } = this.#sight;
    const zone = await findAnyZone(db, nameOf(this.#name));
    if (!zone) {
      this.#copy = undefined;
      return [];
    }
    const state = zone.signed ? await readSigning(db, zone.id) : undefined;
    const soa = soaRecord(zone.apex, zone.soa, zone.ttl);
    const stored = [soa, ...(await readAllRecords(db, zone.id)), ...(await readAllDerived(db, zone.id))];
    const { suspended } = zone;
    const records = suspended ? stored : await this.#transfer(zone, texts(stored));
    const expected = state && expectedOf(state, Math.floor(nowMs() / 1000));
    const complaints = complaintsOfOracle(records, expected, this.#verified);
    if (!suspended) {
      if (!sameTexts(texts(records), texts(stored))) complaints.push("what is transferred is not what is stored");
      complaints.push(...(await this.#follow(zone, texts(records))));
    }
    if (!state) return complaints;
    const isLeftAlone = await isWellSigned(db, zone, { keyRing: SIGNER.keyRing, clock: { nowMs } });
    if (!isLeftAlone) complaints.push("upkeep would repair the zone");
    return [...complaints, ...(await this.#askForeigners(zone, records))];
  }

  /**
   * The zone as the server transfers it, the SOA once: as soon as it is what is stored, else as it is after a while.
   * By its serial alone a zone that was deleted and made anew could be taken for the one before.
   */
  async #transfer(zone: Zone, stored: readonly string[]): Promise<readonly ResourceRecord[]> {
    const deadline = performance.now() + PUBLICATION_DEADLINE_MS;
    await notifyZones(this.#sight.db, [zone.id]);
    for (let waitMs = 2; ; waitMs = Math.min(2 * waitMs, 100)) {
      const { records, rcode } = await askOverTcp(this.#sight.server, { name: this.#name, type: "AXFR" });
      const isOver = performance.now() > deadline;
      const isNow = records.length > 1 && serialOf(records[0]) === zone.soa.serial;
      if (isNow && (isOver || sameTexts(texts(records.slice(0, -1)), stored))) return records.slice(0, -1);
      if (isOver) throw new Error(`${this.#name} is not published: ${rcode}`);
      await sleep(waitMs);
    }
  }

  /** By differences the zone must become the same. */
  async #follow(zone: Zone, whole: readonly string[]): Promise<string[]> {
    const before = this.#copy;
    const { serial } = zone.soa;
    this.#copy = { serial, records: whole };
    if (!before || before.serial === serial) return [];
    const { records } = await askOverTcp(this.#sight.server, { name: this.#name, type: "IXFR", serial: before.serial });
    const isDifference = records[1]?.type === TYPE.SOA && records.length > 2;
    try {
      const after = isDifference ? afterDifference(before.records, records) : texts(records.slice(0, -1));
      return sameTexts(after, whole) ? [] : [`by difference from ${before.serial} the zone becomes another`];
    } catch (error) {
      return [`from ${before.serial}: ${(error as Error).message}`];
    }
  }

  async #askForeigners({ apex, soa, ttl }: Zone, records: readonly ResourceRecord[]): Promise<string[]> {
    const file = join(this.#sight.folder, "zone");
    const data = records.filter(({ type }) => type !== TYPE.SOA);
    writeFileSync(file, formatZoneFile({ apex, soa: soaRecord(apex, soa, ttl), records: data, ttl }));
    const at = new Date(this.#sight.nowMs()).toISOString().replace(/\D/g, "").slice(0, 14);
    const programs = [
      ["dnssec-verify", "-q", "-z", "-o", this.#name, file],
      ["ldns-verify-zone", "-t", at, file],
    ] as const;
    const said = await Promise.all(
      programs.filter(([program]) => FOREIGNERS.has(program)).map((command) => run(command)),
    );
    return said.flat();
  }
}

/** What a program says against the zone: each of these says nothing, or that all is well, and exits with 0. */
function run([program, ...args]: readonly [string, ...string[]]): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
    child.on("error", reject);
    child.on("close", (status) => {
      const isContent = status === 0 && !/\b(?:bad|error|missing|extra|mismatch|invalid|fail)/i.test(said);
      resolve(isContent ? [] : [`${program} (status ${status}): ${said.trim()}`]);
    });
  });
}

function expectedOf(state: SigningState, nowSeconds: number): ExpectedSigning {
  const { keys, denial, dsWanted } = state;
  const name = (key: (typeof keys)[number]) => `${key.algorithm} ${key.keyTag}`;
  return {
    denial,
    keySetKeys: keys.filter(({ signsKeySet }) => signsKeySet).map(name),
    zoneKeys: keys.filter(({ signsZone }) => signsZone).map(name),
    dnskeys: new Map(keys.map((key) => [name(key), dnskeyOf(key)])),
    publishedKeys: keys.filter(({ isPublished }) => isPublished).length,
    hasCds: !dsWanted || keysForParent(keys).length > 0,
    nowSeconds,
  };
}

/** Records as texts that compare: the case of owners is no difference. */
function texts(records: readonly ResourceRecord[]): string[] {
  return records.map(
    (record) => record.owner.key + Buffer.from(encodeRecords([record])).toString("latin1", record.owner.wire.length),
  );
}

/** RFC 1995 §4: deletions and additions in turn, each after a SOA. */
function afterDifference(before: readonly string[], records: readonly ResourceRecord[]): string[] {
  const zone = new Set(before);
  let isAdding = true;
  for (const record of records.slice(1, -1)) {
    if (record.type === TYPE.SOA) isAdding = !isAdding;
    const [text] = texts([record]) as [string];
    if (isAdding) zone.add(text);
    else if (!zone.delete(text)) throw new Error("the difference deletes what is not there");
  }
  return [...zone];
}

function sameTexts(one: readonly string[], other: readonly string[]): boolean {
  const there = new Set(one);
  return one.length === other.length && there.size === one.length && other.every((text) => there.has(text));
}
