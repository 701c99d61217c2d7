import type { ResourceRecord } from "../../core/dns/record.ts";
import type { ZoneDifference } from "../../store/dns/transfer-differences.ts";
import { RECORD_FIXED_OCTETS, RRSET } from "../zone-database/layout.ts";
import { ZoneDatabaseReader } from "../zone-database/reader.ts";
import type { ZoneDatabaseWriter } from "../zone-database/writer.ts";
import type { TransferMessage } from "./transfer-message.ts";

/**
 * The messages of a whole zone as it stands now, whatever changes while they are taken (RFC 5936 §2.2): the SOA first
 * and last, all else in between. Only the zone's nodes are kept, not their content a second time.
 * @param zone reference of a published zone
 */
export function* wholeZone(writer: ZoneDatabaseWriter, zone: number, message: TransferMessage): Generator<Uint8Array> {
  const reader = new ZoneDatabaseReader(writer.memory);
  const apex = reader.open(zone);
  message.segment = reader.segment;
  const { nodes, release } = writer.snapshot(zone);
  try {
    yield* nodeRecords(reader, [apex], 0, message);
    yield* nodeRecords(reader, nodes, apex, message);
    const soa = reader.firstRrset(apex);
    while (addRrset(reader, apex, soa, 0, message) !== ALL) yield takeFull(message);
    yield message.take();
  } finally {
    release();
  }
}

/** The messages of an incremental transfer. */
export function* difference(found: Difference, message: TransferMessage): Generator<Uint8Array> {
  for (const record of recordsOf(found)) yield* journalRecord(record, message);
  yield message.take();
}

/** An incremental transfer in one message; undefined when it does not fit. */
export function differenceInOne(found: Difference, message: TransferMessage): Uint8Array | undefined {
  for (const record of recordsOf(found)) if (!message.addRecord(record)) return undefined;
  return message.take();
}

/** The one message that says which version we have. */
export function* soaOnly(soa: ResourceRecord, message: TransferMessage): Generator<Uint8Array> {
  yield* journalRecord(soa, message);
  yield message.take();
}

/** As `soaOnly`, of a published zone as the zone database has it. */
export function* servedSoa(writer: ZoneDatabaseWriter, zone: number, message: TransferMessage): Generator<Uint8Array> {
  const reader = new ZoneDatabaseReader(writer.memory);
  const apex = reader.open(zone);
  message.segment = reader.segment;
  if (addRrset(reader, apex, reader.firstRrset(apex), 0, message) !== ALL) throw doesNotFit();
  yield message.take();
}

/** The serial of a published zone as the zone database has it. */
export function servedSerial(writer: ZoneDatabaseWriter, zone: number): number {
  const reader = new ZoneDatabaseReader(writer.memory);
  const soa = reader.firstRrset(reader.open(zone)) + RRSET.RECORDS * 4;
  const { octets } = reader.segment;
  const end = soa + RECORD_FIXED_OCTETS + ((octets[soa + 10]! << 8) | octets[soa + 11]!);
  // Of five numbers at the end the serial is the first.
  return Buffer.from(octets.buffer, end - 20, 4).readUInt32BE();
}

type Difference = Extract<ZoneDifference, { kind: "difference" }>;

/** RFC 1995 §4: the new SOA; the old one and what goes; the new one and what comes; the new one. */
function* recordsOf({ oldSoa, newSoa, deleted, added }: Difference): Generator<ResourceRecord> {
  yield newSoa;
  yield oldSoa;
  yield* deleted;
  yield newSoa;
  yield* added;
  yield newSoa;
}

/** All records of the nodes but one: of each its RRsets in order, the SOA first at the apex. */
function* nodeRecords(
  reader: ZoneDatabaseReader,
  nodes: Int32Array | readonly number[],
  except: number,
  message: TransferMessage,
): Generator<Uint8Array> {
  for (let index = 0; index < nodes.length; index += 1) {
    const node = nodes[index]!;
    if (node === except) continue;
    let rrset = reader.firstRrset(node);
    for (let left = reader.rrsetCount(node); left > 0; left -= 1) {
      for (let from = addRrset(reader, node, rrset, 0, message); from !== ALL; ) {
        yield takeFull(message);
        from = addRrset(reader, node, rrset, from, message);
      }
      rrset = reader.nextRrset(rrset);
    }
  }
}

/** No record is left. */
const ALL = -1;

/**
 * Adds an RRset's records as far as they fit.
 * @param from octets of the RRset's records to pass over
 * @returns as many as are in the message now, or ALL
 */
function addRrset(
  { segment: { octets, words } }: ZoneDatabaseReader,
  node: number,
  rrset: number,
  from: number,
  message: TransferMessage,
): number {
  const start = rrset + RRSET.RECORDS * 4;
  const end = start + words[(rrset >> 2) + RRSET.LENGTH]!;
  for (let record = start + from; record < end; ) {
    const next = record + RECORD_FIXED_OCTETS + ((octets[record + 10]! << 8) | octets[record + 11]!);
    if (!message.addStored(node, record, next)) return record - start;
    record = next;
  }
  return ALL;
}

function* journalRecord(record: ResourceRecord, message: TransferMessage): Generator<Uint8Array> {
  if (message.addRecord(record)) return;
  yield takeFull(message);
  if (!message.addRecord(record)) throw doesNotFit();
}

function takeFull(message: TransferMessage): Uint8Array {
  if (message.isEmpty) throw doesNotFit();
  return message.take();
}

/** With a signature behind it, a record of nearly 65,535 octets is too long for any message: the transfer must fail. */
function doesNotFit(): Error {
  return new Error("a record does not fit into a message");
}
