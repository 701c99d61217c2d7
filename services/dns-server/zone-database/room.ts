/**
 * What of a segment of the zone database's memory whom is kept for, as shares of all of it. A zone that grows without end thus leaves room
 * for the changes of its neighbours, and for place-holders (`ZoneDatabaseWriter.withholdZone`) there is always some.
 */
const KEPT = { forPlaceHolders: 1 / 32, forSmallZones: 1 / 32, forSmallChanges: 1 / 32 } as const;
/** A zone is small as long as its names take no more than this share of the memory: 8 MiB of 2 GiB, some 80,000 records. */
const SMALL_ZONE = 1 / 256;
/** A change of a zone that is answered for is small while the zone has grown by no more than this share. */
const SMALL_CHANGE = 1 / 4_096;

/** Of several segments the first has this share of itself for the zone table, which has the zones of all: 20 million of them. */
const KEPT_FOR_ZONE_TABLE = 1 / 8;

/** Octets of a segment that there may be of zones. */
export function octetsForZones(totalOctets: number, hasTableOfOthers: boolean): number {
  return hasTableOfOthers ? totalOctets * (1 - KEPT_FOR_ZONE_TABLE) : totalOctets;
}

/** Octets that the names of a zone may take for it to be small, and all that is done to it with it. */
export function smallZoneOctets(totalOctets: number): number {
  return totalOctets * SMALL_ZONE;
}

/** What is being written, as far as it decides how much memory may be taken for it. */
export interface Writing {
  /** Octets of the zone's names. */
  readonly zoneOctets: number;
  /** Octets that this change has made it grow by; undefined for a zone that nobody sees yet. */
  readonly grownBy?: number | undefined;
  /** Whether it takes records away, or is the apex, without which no change ends. */
  readonly isNecessary?: boolean;
}

/**
 * Octets of the memory that may be in use while something is written.
 * @param totalOctets all that there is for zones
 */
export function allowanceFor(totalOctets: number, { zoneOctets, grownBy, isNecessary = false }: Writing): number {
  const forSmallZones = 1 - KEPT.forPlaceHolders;
  const forSmallChanges = forSmallZones - KEPT.forSmallZones;
  const isChange = grownBy !== undefined;
  if (zoneOctets <= smallZoneOctets(totalOctets) || (isChange && isNecessary)) return totalOctets * forSmallZones;
  if (isChange && grownBy <= totalOctets * SMALL_CHANGE) return totalOctets * forSmallChanges;
  return totalOctets * (forSmallChanges - KEPT.forSmallChanges);
}
