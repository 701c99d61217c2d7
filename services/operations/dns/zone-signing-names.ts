import type { DenialScheme } from "../../core/dns/dnssec/denial.ts";
import { hidesBelow, type NameToSign, roleOf } from "../../core/dns/dnssec/name-role.ts";
import { NameTree, parentKey } from "../../core/dns/dnssec/name-tree.ts";
import type { SigningView } from "../../core/dns/dnssec/signature-plan.ts";
import { type DomainName, isSubdomain, nameSortKey, sameName } from "../../core/dns/name.ts";
import type { ResourceRecord } from "../../core/dns/record.ts";
import type { StoredRecord, ZoneChange } from "../../core/dns/zone-edit.ts";
import { addToGroup } from "../../core/groups.ts";
import type { Steps } from "../../core/steps.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { runInTurns } from "../../platform/turns.ts";
import { readDerivedAround } from "../../store/dns/dnssec-records.ts";
import { findNamesWithBelow, readRecordsAt, readRecordsBelow } from "../../store/dns/records.ts";
import type { Zone } from "../../store/dns/zones.ts";

/** Below new or former zone cuts and DNAMEs, from so many records on the whole zone is gone through. */
const MOST_RECORDS_BELOW = 5_000;

/** With more names than these, those above deep ones included, as well. */
const MOST_NAMES = 50_000;

/** So many names one statement asks for, and one turn describes. */
const NAMES_A_STATEMENT = 2_000;
const NAMES_AT_A_TIME = 50;

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
  { denial, apexOwn }: { readonly denial: DenialScheme; readonly apexOwn: readonly ResourceRecord[] },
): Promise<Omit<SigningView<StoredRecord>, "changed"> | undefined> {
  const { apex } = zone;
  const changedRecords = [...difference.deleted, ...difference.added];
  const touched = distinct([apex, ...changedRecords.map(({ owner }) => owner)]);
  const around = new TouchedZone(zone, rows);
  if (!(await around.read(db, touched))) return undefined;
  const below = await readNamesBelow(db, zone, around, touched);
  if (!below) return undefined;

  const all = around.tree.topDown();
  if (denial.kind === "nsec3") await around.findBelow(db, all);
  const affected = new Set((denial.kind === "nsec3" ? all : [...touched, ...below]).map(({ key }) => key));
  const names = await runInTurns(describe(all, { apex, apexOwn, affected, around }));
  return { range: "names", names, existing: await readExisting(db, zone.id, names, denial) };
}

/**
 * Reads what lies below the zone cuts and DNAMEs that came or went.
 * @returns the names there; undefined when they are too many
 */
async function readNamesBelow(
  db: Db,
  { id, apex }: Zone,
  around: TouchedZone,
  touched: readonly DomainName[],
): Promise<DomainName[] | undefined> {
  const hides = (name: DomainName, records: readonly ResourceRecord[]) => hidesBelow(records, sameName(name, apex));
  const switching = touched.filter((name) => hides(name, around.before(name)) !== hides(name, around.after(name)));
  const names: DomainName[] = [];
  let left = MOST_RECORDS_BELOW;
  let covering: DomainName | undefined;
  for (const name of inCanonicalOrder(switching)) {
    // In this order it comes right after what it lies below, all of which has been read.
    if (covering && isSubdomain(name, covering)) continue;
    covering = name;
    const below = await readRecordsBelow(db, id, name, left);
    if (below.length === left) return undefined;
    left -= below.length;
    const owners = distinct(below.map(({ owner }) => owner));
    if (!(await around.read(db, owners))) return undefined;
    names.push(...owners);
  }
  return names;
}

/** What is to be signed of the affected names. @param all names, each after its ancestors */
function* describe(
  all: readonly DomainName[],
  {
    apex,
    apexOwn,
    affected,
    around,
  }: {
    readonly apex: DomainName;
    readonly apexOwn: readonly ResourceRecord[];
    readonly affected: ReadonlySet<string>;
    readonly around: TouchedZone;
  },
): Steps<NameToSign[]> {
  const names: NameToSign[] = [];
  /** The names below which all is hidden. */
  const hiding = new Set<string>();
  for (const [index, name] of all.entries()) {
    const own = around.after(name);
    const isApex = sameName(name, apex);
    const isHidden = !isApex && hiding.has(parentKey(name));
    if (isHidden || hidesBelow(own, isApex)) hiding.add(name.key);
    if (affected.has(name.key)) {
      const role = roleOf(own, { isHidden, isApex, hasBelow: around.hasBelow(name) });
      names.push({ owner: own[0]?.owner ?? name, role, records: isApex ? [...apexOwn, ...own] : own });
    }
    if (index % NAMES_AT_A_TIME === 0) yield;
  }
  return names;
}

/** The derived records at names, at the owners of their denial records, and at the closest before each. */
async function readExisting(
  db: Db,
  zoneId: number,
  names: readonly NameToSign[],
  denial: DenialScheme,
): Promise<StoredRecord[]> {
  const existing = new Map<number, StoredRecord>();
  for (const some of inParts(names)) {
    const places = some.map(({ owner }) => nameSortKey(denial.ownerAt(denial.positionOf(owner)).wire));
    const owners = [...some.map(({ owner }) => nameSortKey(owner.wire)), ...places];
    for (const record of await readDerivedAround(db, zoneId, owners, places)) existing.set(record.id, record);
  }
  return [...existing.values()];
}

/** Some names of a zone, before and after a change. */
class TouchedZone {
  /** All names that have been read. */
  readonly tree: NameTree;
  readonly #zoneId: number;
  /** Rows that are not as they were, or gone. */
  readonly #moved: ReadonlySet<number>;
  readonly #arrived: readonly ResourceRecord[];
  readonly #before = new Map<string, StoredRecord[]>();
  readonly #after = new Map<string, ResourceRecord[]>();
  readonly #withBelow = new Set<string>();

  constructor({ id, apex }: Zone, rows: Rows) {
    this.tree = new NameTree(apex);
    this.#zoneId = id;
    this.#moved = new Set([...rows.deletedIds, ...rows.updated.map(({ id: rowId }) => rowId)]);
    this.#arrived = [...rows.updated, ...rows.created];
    for (const record of this.#arrived) this.#addAfter(record);
  }

  before(name: DomainName): readonly StoredRecord[] {
    return this.#before.get(name.key) ?? [];
  }

  after(name: DomainName): readonly ResourceRecord[] {
    return this.#after.get(name.key) ?? [];
  }

  /** Whether any name strictly below has records after the change; of names without some that were looked for. */
  hasBelow(name: DomainName): boolean {
    return this.#withBelow.has(name.key);
  }

  /** Reads the records at names and at all above them. @returns false, and has not, when the names are too many */
  async read(db: Db, names: readonly DomainName[]): Promise<boolean> {
    const unread = await runInTurns(this.tree.add(names, MOST_NAMES));
    if (this.tree.size > MOST_NAMES) return false;
    for (const some of inParts(unread)) {
      for (const record of await readRecordsAt(db, this.#zoneId, some)) {
        addToGroup(this.#before, record.owner.key, record);
        if (!this.#moved.has(record.id)) this.#addAfter(record);
      }
    }
    return true;
  }

  /** Finds out which of the names that have no records themselves have some below. */
  async findBelow(db: Db, names: readonly DomainName[]): Promise<void> {
    for (const { owner } of this.#arrived) {
      let key = parentKey(owner);
      while (key.length > 0 && !this.#withBelow.has(key)) {
        this.#withBelow.add(key);
        key = key.slice(1 + key.charCodeAt(0));
      }
    }
    const empty = names.filter((name) => this.after(name).length === 0 && !this.hasBelow(name));
    for (const some of inParts(empty)) {
      const found = await findNamesWithBelow(db, this.#zoneId, some, [...this.#moved]);
      for (const place of found) this.#withBelow.add(some[place]!.key);
    }
  }

  #addAfter(record: ResourceRecord): void {
    addToGroup(this.#after, record.owner.key, record);
  }
}

function inCanonicalOrder(names: readonly DomainName[]): DomainName[] {
  return names
    .map((name) => ({ name, sortKey: nameSortKey(name.wire) }))
    .sort((a, b) => Buffer.compare(a.sortKey, b.sortKey))
    .map(({ name }) => name);
}

function* inParts<T>(items: readonly T[]): Generator<readonly T[]> {
  for (let start = 0; start < items.length; start += NAMES_A_STATEMENT) {
    yield items.slice(start, start + NAMES_A_STATEMENT);
  }
}

function distinct(names: readonly DomainName[]): DomainName[] {
  return [...new Map(names.map((name) => [name.key, name])).values()];
}
