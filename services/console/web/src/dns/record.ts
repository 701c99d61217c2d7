import type { Sentence } from "../../../../core/sentences.ts";
/** A record as the DNS API gives and takes it. */
export interface ZoneRecord {
  /** Relative to the zone; `@` is the zone itself. */
  readonly name: string;
  readonly type: string;
  readonly ttl: number;
  /** null where the type has none. */
  readonly rr_prio: string | null;
  readonly value: string;
}

export interface StoredRecord extends ZoneRecord {
  readonly rr_id: number;
  /** Of an alias or a pool: nobody edits it by hand. */
  readonly derived?: true;
}

/** A record to be created; without a TTL it takes the one of the records beside it. */
export interface RecordDraft {
  readonly name: string;
  readonly type: string;
  readonly ttl?: number;
  readonly rr_prio?: string;
  readonly value: string;
}

/** A zone's SOA and standing. */
export interface Soa {
  readonly domain: string;
  readonly crm_id: string;
  readonly mname: string;
  readonly rname: string;
  readonly serial: number;
  readonly serial_type: "numeric" | "calendar";
  readonly refresh: number;
  readonly retry: number;
  readonly expire: number;
  readonly minimum: number;
  readonly ttl: number;
  readonly suspended: boolean;
}

/** What a change takes from a zone, and puts into it. */
export interface ZoneChange {
  readonly deleted: readonly ZoneRecord[];
  readonly added: readonly ZoneRecord[];
  readonly followers?: { readonly deleted: readonly ChangedFollower[]; readonly added: readonly ChangedFollower[] };
}

/** An alias or a pool as it was, or became. */
export interface ChangedFollower {
  readonly name: string;
  readonly kind: "alias" | "pool";
  readonly target?: string;
  readonly members?: readonly { readonly value: string }[];
}

/** What a change would do, before it is made. */
export interface ZonePreview extends ZoneChange {
  readonly warnings: readonly Sentence[];
  /** The serial of the zone that was looked at. */
  readonly at_serial: number;
  /** The zone's serial afterwards. */
  readonly serial: number;
}

/** A record in one line, as in a master file without its class. */
export function formatRecord({ name, type, ttl, rr_prio, value }: ZoneRecord): string {
  return [name, ttl, type, rr_prio, legibleValue(value)].filter((part) => part !== null).join(" ");
}

/**
 * A value to be read by people: in its quoted strings octets that stand as `\DDD` (RFC 1035 §5.1) are the characters that
 * they are in UTF-8. What is no UTF-8, or could not be seen, stays as it is written.
 */
export function legibleValue(value: string): string {
  return value.replace(/"(?:[^"\\]|\\.)*"/g, (quoted) =>
    quoted.replace(/((?:\\(?:12[89]|1[3-9]\d|2\d\d))+)|\\./g, (written, octets?: string) =>
      octets === undefined ? written : (decoded(octets) ?? written),
    ),
  );
}

/** @param escapes `\195\188` */
function decoded(escapes: string): string | undefined {
  try {
    const octets = Uint8Array.from(escapes.slice(1).split("\\"), Number);
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(octets);
    return /^[\p{L}\p{M}\p{N}\p{P}\p{S}]+$/u.test(text) ? text : undefined;
  } catch {
    return undefined;
  }
}
