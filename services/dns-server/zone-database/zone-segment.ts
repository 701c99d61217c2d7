import { Arena } from "./arena.ts";
import { type Denial, NO_DENIAL } from "./denial.ts";
import type { Epochs } from "./epochs.ts";
import { DENIAL, NODE, NSEC3_PARAMETERS, ZONE, zoneOctet, zoneWord } from "./layout.ts";
import type { LookupName } from "./lookup-name.ts";
import type { MemorySegment, ZoneDatabaseMemory } from "./memory.ts";
import { ZoneDatabaseReader } from "./reader.ts";
import { allowanceFor, octetsForZones, smallZoneOctets, type Writing } from "./room.ts";
import { ZoneNodes } from "./zone-nodes.ts";

const NSEC_DENIAL: Denial = { kind: "nsec" };

/** The fields of a zone's block that its maker says. */
export interface ZoneFields {
  /** Wire form, lower case. */
  readonly apex: Uint8Array;
  readonly seed: number;
  readonly negativeTtlSeconds: number;
  /** Bits of `EXCEPTION`. */
  readonly exceptions: number;
  /** The number of the reseller whose it is. */
  readonly reseller: number;
}

/** A segment of the zone database's memory as the writer fills it: zones, each whole, and what its names need. */
export class ZoneSegment {
  readonly arena: Arena;
  readonly nodes: ZoneNodes;
  readonly #memory: MemorySegment;
  readonly #hasTableOfOthers: boolean;
  readonly #smallZoneOctets: number;
  readonly #smallZoneAllowance: number;

  constructor(memory: ZoneDatabaseMemory, number: number, epochs: Epochs) {
    this.#memory = memory.segments[number]!;
    this.#hasTableOfOthers = number === 0 && memory.segments.length > 1;
    this.arena = new Arena(this.#memory, epochs);
    const reader = new ZoneDatabaseReader(memory);
    reader.segment = this.#memory;
    this.nodes = new ZoneNodes(reader, this.arena, epochs);
    const octets = octetsForZones(this.arena.totalOctets, this.#hasTableOfOthers);
    this.#smallZoneOctets = smallZoneOctets(octets);
    this.#smallZoneAllowance = allowanceFor(octets, { zoneOctets: 0 });
  }

  /** Octets that could be taken for something: a part of what is free is kept for small zones and changes (room.ts). */
  leftOctets(writing: Writing): number {
    return this.#allowanceFor(writing) - this.arena.usedOctets;
  }

  /** As `leftOctets`, for a small zone that nobody sees yet. */
  get leftForSmallZone(): number {
    return this.#smallZoneAllowance - this.arena.usedOctets;
  }

  /** As `admit`, for such a zone. */
  admitSmallZone(): void {
    this.arena.allowance = this.#smallZoneAllowance;
  }

  /** Says how much memory may be in use while something is written. */
  admit(writing: Writing): void {
    this.arena.allowance = this.#allowanceFor(writing);
  }

  /** As `admit`, for a name of a zone. */
  admitName(zone: number, isNecessary: boolean): void {
    const zoneOctets = this.nodes.octetsOf(zone);
    // Most zones are small, and names many.
    if (zoneOctets <= this.#smallZoneOctets) this.admitSmallZone();
    else this.admit({ zoneOctets, grownBy: this.nodes.grownBy(zone), isNecessary });
  }

  /** What there is may all be used, for a place-holder. */
  admitPlaceHolder(): void {
    this.arena.allowance = this.arena.totalOctets;
  }

  /** Does something for which all may be used but what is kept for place-holders: the zone table of other segments. */
  withTableAllowance(work: () => void): void {
    const { arena } = this;
    const { allowance } = arena;
    if (this.#hasTableOfOthers)
      arena.allowance = Math.max(allowance, allowanceFor(arena.totalOctets, { zoneOctets: 0 }));
    try {
      work();
    } finally {
      arena.allowance = allowance;
    }
  }

  /** @returns the reference of a zone without an apex; the number of its segment is in it */
  createZone({ apex, seed, negativeTtlSeconds, exceptions, reseller }: ZoneFields): number {
    const size = this.arena.blockSize(ZONE.APEX * 4 + apex.length);
    const block = this.arena.allocate(size);
    const { words, octets, number } = this.#memory;
    const word = block >> 2;
    words[word + ZONE.SEED] = seed;
    words[word + ZONE.APEX_NODE] = 0;
    words[word + ZONE.NEGATIVE_TTL] = negativeTtlSeconds;
    words[word + ZONE.APEX_LENGTH] = apex.length;
    words[word + ZONE.FIRST_NODE] = 0;
    words[word + ZONE.SIZE] = size;
    words[word + ZONE.EXCEPTIONS] = exceptions;
    words[word + ZONE.DENIAL] = DENIAL.NONE;
    words[word + ZONE.RESELLER] = reseller;
    words[word + ZONE.OCTETS] = 0;
    words[word + ZONE.PUBLISHED] = 0;
    words[word + ZONE.VERSION_HIGH] = 0;
    words[word + ZONE.VERSION_LOW] = 0;
    octets.set(apex, block + ZONE.APEX * 4);
    return block | number;
  }

  /** Gives the memory of a zone back whose nodes are taken apart. */
  freeZone(zone: number): void {
    const parameters = this.field(zone, ZONE.DENIAL);
    if (parameters > DENIAL.NSEC) {
      this.arena.retire(parameters, this.#memory.words[(parameters >> 2) + NSEC3_PARAMETERS.SIZE]!);
    }
    this.arena.retire(zoneOctet(zone), this.field(zone, ZONE.SIZE));
  }

  /** A word of a zone's block. */
  field(zone: number, field: number): number {
    return this.#memory.words[zoneWord(zone) + field]!;
  }

  /** Writes a word of a zone's block, which readers may be looking at. */
  setField(zone: number, field: number, value: number): void {
    Atomics.store(this.#memory.words, zoneWord(zone) + field, value);
  }

  /** Fills a name with a zone's apex. */
  readApex(zone: number, name: LookupName): void {
    const start = zoneOctet(zone) + ZONE.APEX * 4;
    name.read(this.#memory.octets, start, start + this.field(zone, ZONE.APEX_LENGTH));
  }

  apexOf(zone: number): Uint8Array {
    const start = zoneOctet(zone) + ZONE.APEX * 4;
    return this.#memory.octets.slice(start, start + this.field(zone, ZONE.APEX_LENGTH));
  }

  /** Takes down how a new zone denies, before any name but its apex is there. */
  writeDenial(zone: number, denial: Denial): void {
    const plain = denial.kind === "nsec" ? DENIAL.NSEC : DENIAL.NONE;
    const stored = denial.kind === "nsec3" ? this.#writeParameters(denial) : plain;
    this.setField(zone, ZONE.DENIAL, stored);
  }

  /** How a zone denies existence. */
  denialOf(zone: number): Denial {
    const stored = this.field(zone, ZONE.DENIAL);
    if (stored <= DENIAL.NSEC) return stored === DENIAL.NSEC ? NSEC_DENIAL : NO_DENIAL;
    const { words, octets } = this.#memory;
    const salt = stored + NSEC3_PARAMETERS.SALT * 4;
    const saltOctets = words[(stored >> 2) + NSEC3_PARAMETERS.SALT_OCTETS]!;
    const iterations = words[(stored >> 2) + NSEC3_PARAMETERS.ITERATIONS]!;
    return { kind: "nsec3", iterations, salt: octets.slice(salt, salt + saltOctets) };
  }

  /** The nodes of a zone, in no order. */
  nodesOf(zone: number): Int32Array {
    const { words } = this.#memory;
    const nodes: number[] = [];
    for (let node = this.field(zone, ZONE.FIRST_NODE); node !== 0; node = words[(node >> 2) + NODE.NEXT]!) {
      nodes.push(node);
    }
    return Int32Array.from(nodes);
  }

  #allowanceFor(writing: Writing): number {
    return allowanceFor(octetsForZones(this.arena.totalOctets, this.#hasTableOfOthers), writing);
  }

  #writeParameters({ iterations, salt }: Extract<Denial, { kind: "nsec3" }>): number {
    const size = this.arena.blockSize(NSEC3_PARAMETERS.SALT * 4 + salt.length);
    const parameters = this.arena.allocate(size);
    const { words, octets } = this.#memory;
    words[(parameters >> 2) + NSEC3_PARAMETERS.ITERATIONS] = iterations;
    words[(parameters >> 2) + NSEC3_PARAMETERS.SALT_OCTETS] = salt.length;
    words[(parameters >> 2) + NSEC3_PARAMETERS.SIZE] = size;
    octets.set(salt, parameters + NSEC3_PARAMETERS.SALT * 4);
    return parameters;
  }
}
