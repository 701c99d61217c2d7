import {
  APEX_TAIL,
  DENIAL,
  FLAG,
  HEADER,
  INDEX,
  NODE,
  NODE_SHARD_BITS,
  NSEC3_PARAMETERS,
  SEGMENT_MASK,
  TABLE,
  TOMBSTONE,
  ZONE,
  ZONE_SHARD_BITS,
  zoneOctet,
} from "../../services/dns-server/zone-database/layout.ts";
import type { MemorySegment } from "../../services/dns-server/zone-database/memory.ts";
import type { ZoneDatabaseWriter } from "../../services/dns-server/zone-database/writer.ts";

const INDEX_BLOCK_OCTETS = (INDEX.ENTRIES + INDEX.ENTRY_WORDS) * 4;

/**
 * Checks the books of a zone database in which nothing is under way and that no reader is in: every block is of exactly one
 * thing or free, every node is found by its table, and the octets in use are those of the blocks that are reached.
 * @returns what is wrong; empty where nothing is
 */
export function findBookErrors(writer: ZoneDatabaseWriter): string[] {
  while (writer.collect());
  const zones = entriesOf(writer.memory.first, HEADER.ZONE_SHARDS, ZONE_SHARD_BITS);
  const books = writer.memory.segments.map((segment) => segmentBooks(writer, segment, zones));
  const errors = books.flatMap((book) => book.errors);
  const reached = books.reduce((sum, book) => sum + book.reached, writer.spareOctets);
  if (writer.waitingOctets !== 0) errors.push(`${writer.waitingOctets} octets still wait`);
  if (reached !== writer.usedOctets) errors.push(`${reached} octets are reached, and ${writer.usedOctets} in use`);
  return errors;
}

interface Entries {
  readonly shards: readonly { readonly table: number; readonly octets: number }[];
  readonly entries: readonly number[];
}

function segmentBooks(writer: ZoneDatabaseWriter, segment: MemorySegment, zones: Entries) {
  const { words, number } = segment;
  const errors: string[] = [];
  const blocks: { readonly from: number; readonly to: number; readonly what: string }[] = [];
  let reached = 0;
  const own = (from: number, octets: number, what: string) => {
    reached += octets;
    blocks.push({ from, to: from + octets, what });
  };
  const at = (reference: number, field: number) => words[(reference >> 2) + field]!;

  const listed = new Set<number>();
  if (number === 0) for (const { table, octets } of zones.shards) own(table, octets, "shard");
  for (const reference of zones.entries.filter((entry) => (entry & SEGMENT_MASK) === number)) {
    const zone = zoneOctet(reference);
    own(zone, at(zone, ZONE.SIZE), "zone");
    const denial = at(zone, ZONE.DENIAL);
    if (denial > DENIAL.NSEC) own(denial, at(denial, NSEC3_PARAMETERS.SIZE), "parameters");
    const apex = at(zone, ZONE.APEX_NODE);
    let octets = 0;
    for (let node = at(zone, ZONE.FIRST_NODE); node !== 0; node = at(node, NODE.NEXT)) {
      own(node, at(node, NODE.SIZE), "node");
      octets += at(node, NODE.SIZE);
      if (node !== apex && (at(node, NODE.FLAGS) & FLAG.NSEC3) === 0) listed.add(node);
    }
    const told = writer.octetsOf(reference);
    if (octets !== told) errors.push(`a zone has ${octets} octets, not ${told}`);
    ownIndex(words[((apex + at(apex, NODE.SIZE)) >> 2) - APEX_TAIL.INDEX]!);
  }
  const nodes = entriesOf(segment, HEADER.NODE_SHARDS, NODE_SHARD_BITS);
  for (const { table, octets } of nodes.shards) own(table, octets, "shard");
  for (const node of nodes.entries) {
    if (!listed.delete(node)) errors.push(`the table has ${node}, which is in no zone's list`);
  }
  if (listed.size > 0) errors.push(`${listed.size} nodes are in no table`);
  for (const { reference, octets } of writer.freeBlocks(number)) {
    blocks.push({ from: reference, to: reference + octets, what: "free block" });
  }
  blocks.sort((a, b) => a.from - b.from);
  for (let index = 1; index < blocks.length; index += 1) {
    const [before, next] = [blocks[index - 1]!, blocks[index]!];
    if (before.to > next.from) errors.push(`a ${before.what} lies across a ${next.what} at ${next.from}`);
  }
  return { errors, reached };

  function ownIndex(block: number): void {
    if (block === 0) return;
    own(block, INDEX_BLOCK_OCTETS, "index block");
    const countAndLevel = at(block, INDEX.COUNT_AND_LEVEL);
    if (countAndLevel >>> 16 === 0) return;
    for (let index = 0; index < (countAndLevel & 0xffff); index += 1)
      ownIndex(at(block, INDEX.ENTRIES + index * 2 + 1));
  }
}

/** The shards of a table, and what is in them. */
function entriesOf({ words }: MemorySegment, firstShard: number, bits: number): Entries {
  const entries: number[] = [];
  const shards: { table: number; octets: number }[] = [];
  for (let shard = 0; shard < 1 << bits; shard += 1) {
    const table = words[firstShard + shard]!;
    shards.push({ table, octets: words[(table >> 2) + TABLE.SIZE]! });
    for (let slot = 0; slot <= words[(table >> 2) + TABLE.MASK]!; slot += 1) {
      const entry = words[(table >> 2) + TABLE.SLOTS + slot * TABLE.SLOT_WORDS]!;
      if (entry > TOMBSTONE) entries.push(entry);
    }
  }
  return { shards, entries };
}
