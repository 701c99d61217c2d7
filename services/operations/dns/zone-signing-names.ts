import type { DenialScheme } from "../../core/dns/dnssec/denial.ts";
import { hidesBelow, type NameToSign, roleOf } from "../../core/dns/dnssec/name-role.ts";
import type { SigningView } from "../../core/dns/dnssec/signature-plan.ts";
import { ancestorOf, type DomainName, isSubdomain, nameSortKey, sameName } from "../../core/dns/name.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import type { StoredRecord, ZoneChange } from "../../core/dns/zone-edit.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { readDerivedAround } from "../../store/dns/dnssec-records.ts";
import { findNamesWithBelow, readRecordsAt, readRecordsBelow } from "../../store/dns/records.ts";
import type { Zone } from "../../store/dns/zones.ts";

/** Below a new or former zone cut or DNAME, from so many records on the whole zone is gone through. */
const MOST_RECORDS_BELOW = 5_000;

type Rows = ZoneChange["rows"];

/**
 * What of a zone a change has to do with: the names that it touches, those below a zone cut or a DNAME that came or went,
 * and for NSEC3 the names between them and the apex, which may have come to be or ceased to be empty non-terminals.
 * @param scope.apexOwn the records of the apex that are no customer's
 * @returns undefined when it is so much that the whole zone is the better start
 */
export async function readTouchedNames(
  db: Db,
  zone: Zone,
  { rows, difference }: Pick<ZoneChange, "rows" | "difference">,
  scope: { readonly denial: DenialScheme; readonly apexOwn: readonly ResourceRecord[] },
): Promise<Omit<SigningView<StoredRecord>, "changed"> | undefined> {
  const { apex } = zone;
  const { denial, apexOwn } = scope;
  const changedRecords = [...difference.deleted, ...difference.added];
  const touched = distinct([apex, ...changedRecords.map(({ owner }) => owner)]);
  const between = distinct(touched.flatMap((name) => ancestorsBetween(name, apex)));
  const around = new TouchedZone(zone.id, rows);
  await around.read(db, distinct([...touched, ...between]));

  const affected = new Map(touched.map((name) => [name.key, name]));
  for (const name of touched) {
    const isApex = sameName(name, apex);
    if (hidesBelow(around.before(name), isApex) === hidesBelow(around.after(name), isApex)) continue;
    const below = await readRecordsBelow(db, zone.id, name, MOST_RECORDS_BELOW);
    if (below.length === MOST_RECORDS_BELOW) return undefined;
    const names = distinct(below.map(({ owner }) => owner));
    await around.read(db, distinct(names.flatMap((owner) => [owner, ...ancestorsBetween(owner, apex)])));
    for (const owner of names) affected.set(owner.key, owner);
  }
  if (denial.kind === "nsec3") {
    for (const name of [...affected.values()].flatMap((owner) => ancestorsBetween(owner, apex))) {
      if (!affected.has(name.key)) affected.set(name.key, name);
    }
    await around.findBelow(db, [...affected.values()]);
  }

  const names = [...affected.values()].map((owner): NameToSign => {
    const role = roleOf(owner, apex, {
      recordsAt: (name) => around.after(name),
      hasBelow: (name) => around.hasBelow(name),
    });
    const own = around.after(owner);
    return { owner: own[0]?.owner ?? owner, role, records: sameName(owner, apex) ? [...apexOwn, ...own] : own };
  });
  const places = names.map(({ owner }) => nameSortKey(denial.ownerAt(denial.positionOf(owner)).wire));
  const owners = [...names.map(({ owner }) => nameSortKey(owner.wire)), ...places];
  const existing = await readDerivedAround(db, zone.id, owners, places);
  return { range: "names", names, existing };
}

/** Some names of a zone, before and after a change. */
class TouchedZone {
  readonly #zoneId: number;
  /** Rows that are not as they were, or gone. */
  readonly #moved: ReadonlySet<number>;
  readonly #arrived: readonly ResourceRecord[];
  readonly #before = new Map<string, StoredRecord[]>();
  readonly #after = new Map<string, ResourceRecord[]>();
  readonly #withBelow = new Set<string>();

  constructor(zoneId: number, rows: Rows) {
    this.#zoneId = zoneId;
    this.#moved = new Set([...rows.deletedIds, ...rows.updated.map(({ id }) => id)]);
    this.#arrived = [...rows.updated, ...rows.created];
    for (const record of this.#arrived) this.#addAfter(record);
  }

  before(name: DomainName): readonly StoredRecord[] {
    return this.#before.get(name.key) ?? [];
  }

  after(name: DomainName): readonly ResourceRecord[] {
    return this.#after.get(name.key) ?? [];
  }

  /** Whether any name strictly below has records after the change; of names that were looked for. */
  hasBelow(name: DomainName): boolean {
    return (
      this.#withBelow.has(name.key) ||
      this.#arrived.some(({ owner }) => owner.labelCount > name.labelCount && isSubdomain(owner, name))
    );
  }

  /** Reads the records at names that have not been read yet. */
  async read(db: Db, names: readonly DomainName[]): Promise<void> {
    const unread = names.filter(({ key }) => !this.#before.has(key));
    for (const { key } of unread) this.#before.set(key, []);
    for (const record of await readRecordsAt(db, this.#zoneId, unread)) {
      this.#before.get(record.owner.key)!.push(record);
      if (!this.#moved.has(record.id)) this.#addAfter(record);
    }
  }

  /** Finds out which of the names that have no records themselves have some below. */
  async findBelow(db: Db, names: readonly DomainName[]): Promise<void> {
    const empty = names.filter((name) => this.after(name).length === 0);
    if (empty.length === 0) return;
    const found = await findNamesWithBelow(db, this.#zoneId, empty, [...this.#moved]);
    for (const place of found) this.#withBelow.add(empty[place]!.key);
  }

  #addAfter(record: ResourceRecord): void {
    const siblings = this.#after.get(record.owner.key);
    if (siblings) siblings.push(record);
    else this.#after.set(record.owner.key, [record]);
  }
}

/** The names between the apex and a name, neither of them included. */
function ancestorsBetween(name: DomainName, apex: DomainName): DomainName[] {
  const names: DomainName[] = [];
  for (let labels = apex.labelCount + 1; labels < name.labelCount; labels += 1) names.push(ancestorOf(name, labels));
  return names;
}

function distinct(names: readonly DomainName[]): DomainName[] {
  return [...new Map(names.map((name) => [name.key, name])).values()];
}
