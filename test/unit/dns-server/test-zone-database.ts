import { parseDomainName } from "../../../services/core/dns/name.ts";
import type { ResourceRecord } from "../../../services/core/dns/record.ts";
import { decodeSoaRdata } from "../../../services/core/dns/soa.ts";
import { parseZoneFile } from "../../../services/core/dns/zone-file/zone-file.ts";
import { AnswerCache } from "../../../services/dns-server/answer-cache.ts";
import { Pipeline, type PipelineSettings } from "../../../services/dns-server/pipeline.ts";
import { createRateLimitTable } from "../../../services/dns-server/rate-limit.ts";
import { Statistics } from "../../../services/dns-server/reports/statistics.ts";
import { ZoneDatabaseMemory } from "../../../services/dns-server/zone-database/memory.ts";
import { ZoneDatabaseReader } from "../../../services/dns-server/zone-database/reader.ts";
import { ZoneDatabaseWriter } from "../../../services/dns-server/zone-database/writer.ts";

/** A zone as a master file. */
export interface ZoneText {
  readonly origin: string;
  readonly text: string;
}

/** A zone database of these zones, ready to be asked. Its zones lie in several segments, in turn. */
export function zoneDatabaseOf(...zones: readonly ZoneText[]): ZoneDatabaseWriter {
  const writer = new ZoneDatabaseWriter(ZoneDatabaseMemory.create(2 ** 28, 2 ** 26));
  for (const zone of zones) publishZoneText(writer, zone);
  writer.setReady();
  return writer;
}

/** Puts a zone into a zone database, in the place of the one of that name. */
export function publishZoneText(writer: ZoneDatabaseWriter, text: ZoneText): number {
  const records = recordsOf(text);
  const soa = records[0]!;
  const zone = writer.createZone({
    apex: Buffer.from(soa.owner.key, "latin1"),
    negativeTtlSeconds: Math.min(soa.ttl, decodeSoaRdata(soa.rdata).minimum),
  });
  for (const group of byOwner(records)) writer.setName(zone, group[0]!.owner.wire, group);
  writer.publishZone(zone);
  return zone;
}

/** A zone's records, the SOA first. */
export function recordsOf({ origin, text }: ZoneText): ResourceRecord[] {
  const name = parseDomainName(origin);
  if (!name.ok) throw new Error(name.error.message);
  const file = parseZoneFile(text, { origin: name.value, defaultTtlSeconds: 3600 });
  if (!file.ok) throw new Error(`${origin}:${file.error.line}: ${file.error.message}`);
  const { soa, records } = file.value;
  if (!soa) throw new Error(`${origin}: no SOA`);
  return [soa, ...records];
}

export const NO_RATE_LIMIT = { answersPerSecond: 0, allow: [], limitLoopback: false, seed: 1 };

/** A pipeline on this zone database, with settings of a test's own. */
export function pipelineOn(
  writer: ZoneDatabaseWriter,
  overrides: Partial<PipelineSettings> = {},
  { statistics = new Statistics(1), cacheMebioctets = 0 } = {},
): Pipeline {
  const settings: PipelineSettings = {
    identity: { version: null, id: null },
    edns: { nsid: Buffer.from("test"), cookieSecret: new Uint8Array(16), tcpIdleSeconds: 15 },
    rateLimit: { ...NO_RATE_LIMIT, table: createRateLimitTable() },
    ...overrides,
  };
  const reader = new ZoneDatabaseReader(writer.memory);
  const cache = cacheMebioctets === 0 ? undefined : new AnswerCache(reader, cacheMebioctets);
  return new Pipeline(reader, settings, statistics.row(0), cache);
}

/** Records in groups of one name each. */
export function byOwner(records: readonly ResourceRecord[]): ResourceRecord[][] {
  const groups = new Map<string, ResourceRecord[]>();
  for (const record of records) {
    const group = groups.get(record.owner.key);
    if (group) group.push(record);
    else groups.set(record.owner.key, [record]);
  }
  return [...groups.values()];
}
