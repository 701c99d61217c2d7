import type { Steps } from "../../steps.ts";
import type { DomainName } from "../name.ts";
import { encodeRecords, type ResourceRecord, rrsetKey } from "../record.ts";
import { TYPE } from "../rr-types.ts";
import { type DenialScheme, relinkChain } from "./denial.ts";
import type { NameRole, NameToSign } from "./name-role.ts";
import { readRrsig, type SigningKey } from "./rrsig.ts";

/** What the whole zone is signed by. */
export interface ZoneSigning {
  readonly denial: DenialScheme;
  /** The keys that sign, by what they sign: the key set and what the parent reads of it, and all other data. */
  readonly keySetKeys: readonly SigningKey[];
  readonly zoneKeys: readonly SigningKey[];
  /** TTL of the denial records: the smaller of the SOA's TTL and its minimum (RFC 9077 §3). */
  readonly negativeTtl: number;
}

/** What of the zone a plan is made on. */
export interface SigningView<Stored extends ResourceRecord> {
  /** The names whose data, role or signatures may have to change, as they are now. */
  readonly names: Iterable<NameToSign>;
  /**
   * The derived records at these names, at the owners of their denial records, and at the closest denial record before
   * each, as they were.
   */
  readonly existing: readonly Stored[];
  /** The RRsets that are not as they were when they were signed, by `rrsetKey`. */
  readonly changed: ReadonlySet<string>;
}

/** An RRset that needs a signature. */
export interface RrsetToSign {
  readonly rrset: readonly ResourceRecord[];
  readonly key: SigningKey;
}

/** What signing does to the derived records of a zone. */
export interface SignaturePlan<Stored extends ResourceRecord> {
  readonly deleted: readonly Stored[];
  /** New records that are no signatures. */
  readonly added: readonly ResourceRecord[];
  readonly toSign: readonly RrsetToSign[];
}

/** The types that signing makes; a signed zone has none of its customer's. */
export const DERIVED_TYPES: ReadonlySet<number> = new Set([
  TYPE.DNSKEY,
  TYPE.CDNSKEY,
  TYPE.CDS,
  TYPE.RRSIG,
  TYPE.NSEC,
  TYPE.NSEC3,
  TYPE.NSEC3PARAM,
]);

/** RFC 7344 §4.1: these are signed by a key that the parent's DS leads to. */
const KEY_SET_TYPES: ReadonlySet<number> = new Set([TYPE.DNSKEY, TYPE.CDS, TYPE.CDNSKEY]);

/** The keys that sign RRsets of a type. */
export function keysFor(type: number, { keySetKeys, zoneKeys }: Pick<ZoneSigning, "keySetKeys" | "zoneKeys">) {
  return KEY_SET_TYPES.has(type) ? keySetKeys : zoneKeys;
}

/**
 * Plans what a change costs: signatures of the RRsets that changed, denial records of the names that came, went or
 * changed, and of their neighbours. What is already right stays.
 * It yields now and then, for whoever has other work to do between.
 */
export function* planSignatures<Stored extends ResourceRecord>(
  signing: ZoneSigning,
  view: SigningView<Stored>,
): Steps<SignaturePlan<Stored>> {
  const planner = new SignaturePlanner(signing, view);
  let names = 0;
  for (const name of view.names) {
    planner.addName(name);
    names += 1;
    if (names % NAMES_AT_A_TIME === 0) yield;
  }
  return yield* planner.finish();
}

/** After so many names a plan pauses. */
const NAMES_AT_A_TIME = 50;

/** A name that has a denial record now. */
interface Denied {
  readonly owner: DomainName;
  readonly types: readonly number[];
}

class SignaturePlanner<Stored extends ResourceRecord> {
  readonly #signing: ZoneSigning;
  readonly #changed: ReadonlySet<string>;
  /** The derived records that were there, by `rrsetKey`; signatures by that of what they cover. What is right is taken out. */
  readonly #existing = new Map<string, Stored[]>();
  readonly #signatures = new Map<string, Stored[]>();
  /** The types that signatures cover, by the name's key. */
  #signedTypes: Map<string, number[]> | undefined;
  readonly #denied = new Map<string, Denied>();
  readonly #leaving = new Set<string>();
  readonly #deleted: Stored[] = [];
  readonly #added: ResourceRecord[] = [];
  readonly #toSign: RrsetToSign[] = [];

  constructor(signing: ZoneSigning, { existing, changed }: SigningView<Stored>) {
    this.#signing = signing;
    this.#changed = changed;
    for (const record of existing) {
      if (record.type !== TYPE.RRSIG) push(this.#existing, rrsetKey(record.owner, record.type), record);
      else push(this.#signatures, rrsetKey(record.owner, readRrsig(record.rdata).typeCovered), record);
    }
  }

  addName({ owner, role, records }: NameToSign): void {
    const { denial } = this.#signing;
    const rrsets = groupByType(records);
    for (const [type, rrset] of rrsets) {
      const isNew = DERIVED_TYPES.has(type) && this.#replaceDerived(owner, type, rrset);
      if (isSigned(type, role)) this.#sign(rrset, isNew);
      else this.#dropSignatures(owner, type);
    }
    for (const type of SINGLE_OWNER_TYPES) if (!rrsets.has(type)) this.#replaceDerived(owner, type, []);
    this.#dropOthers(owner, rrsets);
    const types = typesInBitmap(rrsets, role, denial);
    if (types) this.#denied.set(denial.positionOf(owner), { owner, types });
    else this.#leaving.add(denial.positionOf(owner));
  }

  *finish(): Steps<SignaturePlan<Stored>> {
    const { denial, negativeTtl } = this.#signing;
    const known = this.#knownChain();
    const joining = [...this.#denied.keys()].filter((position) => !known.has(position));
    const leaving = new Set([...this.#leaving].filter((position) => known.has(position)));
    const links = relinkChain(
      new Map([...known].map(([position, record]) => [position, denial.nextOf(record.rdata)])),
      joining,
      leaving,
    );
    for (const position of leaving) this.#dropDenial(known.get(position)!);
    this.#dropOtherDenial();
    let linked = 0;
    for (const [position, next] of links) {
      linked += 1;
      if (linked % NAMES_AT_A_TIME === 0) yield;
      const denied = this.#denied.get(position);
      const before = known.get(position);
      const rdata = denied ? denial.encode(next, denied.types) : denial.withNext(before!.rdata, next);
      const owner = denial.kind === "nsec" ? (denied?.owner ?? before!.owner) : denial.ownerAt(position);
      const record = { owner, type: denial.type, ttl: negativeTtl, rdata };
      this.#sign([record], this.#replaceDerived(owner, denial.type, [record]));
    }
    return { deleted: this.#deleted, added: this.#added, toSign: this.#toSign };
  }

  /** The denial records that were there, by position. */
  #knownChain(): Map<string, Stored> {
    const { denial } = this.#signing;
    const known = new Map<string, Stored>();
    for (const [record] of this.#existing.values()) {
      if (record?.type === denial.type) known.set(denial.positionOfOwner(record.owner), record);
    }
    return known;
  }

  /** A zone has one kind of denial, in one version as in all others. */
  #dropOtherDenial(): void {
    const other = this.#signing.denial.type === TYPE.NSEC ? TYPE.NSEC3 : TYPE.NSEC;
    for (const [record] of [...this.#existing.values()]) if (record?.type === other) this.#dropDenial(record);
  }

  #dropDenial(record: Stored): void {
    this.#replaceDerived(record.owner, record.type, []);
    this.#dropSignatures(record.owner, record.type);
  }

  /** Puts derived records in the place of those that are there. @returns whether the RRset is another now */
  #replaceDerived(owner: DomainName, type: number, rrset: readonly ResourceRecord[]): boolean {
    const key = rrsetKey(owner, type);
    const before = this.#existing.get(key) ?? [];
    this.#existing.delete(key);
    const wanted = new Map(rrset.map((record) => [contentKey(record), record]));
    const there = new Set(before.map(contentKey));
    const gone = before.filter((record) => !wanted.has(contentKey(record)));
    const appeared = [...wanted].filter(([content]) => !there.has(content)).map(([, record]) => record);
    this.#deleted.push(...gone);
    this.#added.push(...appeared);
    return gone.length + appeared.length > 0;
  }

  /** Sees to it that an RRset has just the signatures it needs. */
  #sign(rrset: readonly ResourceRecord[], isNew: boolean): void {
    const { owner, type } = rrset[0]!;
    const key = rrsetKey(owner, type);
    const keys = keysFor(type, this.#signing);
    const isStale = isNew || this.#changed.has(key);
    const before = this.#signatures.get(key) ?? [];
    this.#signatures.delete(key);
    const right = isStale ? [] : before.filter((record) => keys.some((signer) => isMadeBy(record, signer)));
    for (const record of before) if (!right.includes(record)) this.#deleted.push(record);
    for (const signer of keys) {
      if (!right.some((record) => isMadeBy(record, signer))) this.#toSign.push({ rrset, key: signer });
    }
  }

  #dropSignatures(owner: DomainName, type: number): void {
    const key = rrsetKey(owner, type);
    this.#deleted.push(...(this.#signatures.get(key) ?? []));
    this.#signatures.delete(key);
  }

  /** Drops the signatures of RRsets that the name has no more; that of its NSEC is another matter. */
  #dropOthers(owner: DomainName, rrsets: ReadonlyMap<number, unknown>): void {
    for (const type of this.#typesSigned(owner)) {
      if (!rrsets.has(type) && type !== TYPE.NSEC && type !== TYPE.NSEC3) this.#dropSignatures(owner, type);
    }
  }

  /** The types that signatures at a name cover. */
  #typesSigned(owner: DomainName): number[] {
    this.#signedTypes ??= this.#indexSignedTypes();
    return this.#signedTypes.get(owner.key) ?? [];
  }

  #indexSignedTypes(): Map<string, number[]> {
    const types = new Map<string, number[]>();
    for (const [first] of this.#signatures.values()) {
      if (first) push(types, first.owner.key, readRrsig(first.rdata).typeCovered);
    }
    return types;
  }
}

/** The derived types that stand at the names they are about; denial records are dealt with by the chain. */
const SINGLE_OWNER_TYPES = [TYPE.DNSKEY, TYPE.CDS, TYPE.CDNSKEY, TYPE.NSEC3PARAM] as const;

/** RFC 4035 §2.2: of a zone cut only the DS, of what is hidden nothing. */
function isSigned(type: number, role: NameRole): boolean {
  return role === "authoritative" || (role === "delegation" && type === TYPE.DS);
}

/** The types that the denial record of a name lists; undefined for a name that has none. */
function typesInBitmap(
  rrsets: ReadonlyMap<number, unknown>,
  role: NameRole,
  denial: DenialScheme,
): readonly number[] | undefined {
  if (role === "hidden" || (role === "empty" && denial.kind === "nsec")) return undefined;
  // RFC 4035 §2.3, RFC 5155 §7.1: a zone cut's record lists no data of the other side, such as glue.
  const types = [...rrsets.keys()].filter((type) => role !== "delegation" || type === TYPE.NS || type === TYPE.DS);
  const hasSignature = types.some((type) => isSigned(type, role));
  if (denial.kind === "nsec") return [...types, TYPE.RRSIG, TYPE.NSEC];
  return hasSignature ? [...types, TYPE.RRSIG] : types;
}

function isMadeBy(rrsig: ResourceRecord, key: SigningKey): boolean {
  const facts = readRrsig(rrsig.rdata);
  return facts.keyTag === key.keyTag && facts.algorithm === key.algorithm;
}

/** RRsets have one TTL (RFC 2181 §5.2). */
function groupByType(records: readonly ResourceRecord[]): Map<number, ResourceRecord[]> {
  const rrsets = new Map<number, ResourceRecord[]>();
  for (const record of records) push(rrsets, record.type, record);
  return rrsets;
}

function contentKey(record: ResourceRecord): string {
  return Buffer.from(encodeRecords([record])).toString("latin1");
}

function push<K, V>(groups: Map<K, V[]>, key: K, value: V): void {
  const group = groups.get(key);
  if (group) group.push(value);
  else groups.set(key, [value]);
}
