import { ancestorOf, type DomainName, isSubdomain } from "../name.ts";
import type { ResourceRecord } from "../record.ts";
import { TYPE } from "../rr-types.ts";

/**
 * What a name is to the signer (RFC 4035 §2, RFC 5155 §7.1): its own data is signed; it is a zone cut, of which only the
 * DS is; it has no data but names below it (an empty non-terminal); or it lies below a cut or a DNAME, or is not there.
 */
export type NameRole = "authoritative" | "delegation" | "empty" | "hidden";

/** A name with all records that the zone has at it, the SOA and the key records of the apex included. */
export interface NameToSign {
  readonly owner: DomainName;
  readonly role: NameRole;
  readonly records: readonly ResourceRecord[];
}

/** Whether records hide the names below theirs: a DNAME (RFC 6672 §2.4), or the NS of a zone cut. */
export function hidesBelow(records: readonly ResourceRecord[], isApex: boolean): boolean {
  return records.some(({ type }) => type === TYPE.DNAME || (type === TYPE.NS && !isApex));
}

/**
 * The role of a name.
 * @param records all at the name
 * @param place.isHidden whether a name above hides it
 * @param place.hasBelow whether any name strictly below has records
 */
export function roleOf(
  records: readonly ResourceRecord[],
  { isHidden, isApex, hasBelow }: { readonly isHidden: boolean; readonly isApex: boolean; readonly hasBelow: boolean },
): NameRole {
  if (isHidden) return "hidden";
  if (records.length > 0) return roleByOwnRecords(records, isApex);
  return hasBelow ? "empty" : "hidden";
}

/**
 * All names of a zone with their roles, empty non-terminals included, each after its ancestors.
 * @param records all of them, those of one name next to each other, the names in canonical order, the apex first
 */
export function* namesToSign(apex: DomainName, records: Iterable<ResourceRecord>): Generator<NameToSign> {
  /** The name that hides what is below it, as far as the names still are. */
  let hiding: DomainName | undefined;
  let previous = apex;
  for (const ofName of groupByOwner(records)) {
    const { owner } = ofName[0]!;
    if (hiding && !isSubdomain(owner, hiding)) hiding = undefined;
    if (hiding) {
      yield { owner, role: "hidden", records: ofName };
      continue;
    }
    for (let labels = sharedLabels(previous, owner) + 1; labels < owner.labelCount; labels += 1) {
      yield { owner: ancestorOf(owner, labels), role: "empty", records: [] };
    }
    const isApex = owner.labelCount === apex.labelCount;
    yield { owner, role: roleByOwnRecords(ofName, isApex), records: ofName };
    if (hidesBelow(ofName, isApex)) hiding = owner;
    previous = owner;
  }
}

function roleByOwnRecords(records: readonly ResourceRecord[], isApex: boolean): NameRole {
  return !isApex && records.some(({ type }) => type === TYPE.NS) ? "delegation" : "authoritative";
}

function* groupByOwner(records: Iterable<ResourceRecord>): Generator<ResourceRecord[]> {
  let ofName: ResourceRecord[] = [];
  for (const record of records) {
    const last = ofName[0]?.owner;
    if (last && last !== record.owner && last.key !== record.owner.key) {
      yield ofName;
      ofName = [];
    }
    ofName.push(record);
  }
  if (ofName.length > 0) yield ofName;
}

/** How many labels two names have in common, from the root down. */
function sharedLabels(a: DomainName, b: DomainName): number {
  let labels = Math.min(a.labelCount, b.labelCount);
  while (ancestorOf(a, labels).key !== ancestorOf(b, labels).key) labels -= 1;
  return labels;
}
