import { addToGroup, groupBy } from "../../groups.ts";
import type { Steps } from "../../steps.ts";
import type { DomainName } from "../name.ts";
import { type ResourceRecord, rrsetKey } from "../record.ts";
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

/**
 * What of the zone a plan is made on: the zone as it will be, as far as the range goes. In the range nothing of what is
 * there is believed: each derived record is wanted by the zone as it will be, or goes.
 */
export interface SigningView<Stored extends ResourceRecord> {
  /**
   * `zone`: all of it, so that `names` are all that it will have. `names`: these names, and their places in the chain of
   * denial; of the chain's other records only what they point to may change.
   */
  readonly range: "zone" | "names";
  /** The names whose data, role or signatures may have to change, as they will be. */
  readonly names: Iterable<NameToSign>;
  /**
   * The derived records as they were: of range `zone` all of them, else those at these names, at the owners of their
   * denial records, and at the closest denial record before each.
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
 * Decides what the chain of denial and the signatures of a zone are, from the zone as it will be: signatures of the RRsets
 * that changed, denial records of the names that came, went or changed, and of their neighbours. What is already right
 * stays; what is in the range and not wanted goes, whatever made it.
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

/** Whether a plan leaves all as it is. */
export function changesNothing({ deleted, added, toSign }: SignaturePlan<ResourceRecord>): boolean {
  return deleted.length + added.length + toSign.length === 0;
}

/** After so many names a plan pauses. */
const NAMES_AT_A_TIME = 50;

/** A name that will have a denial record. */
interface Denied {
  readonly owner: DomainName;
  readonly types: readonly number[];
}

class SignaturePlanner<Stored extends ResourceRecord> {
  readonly #signing: ZoneSigning;
  readonly #range: SigningView<Stored>["range"];
  readonly #changed: ReadonlySet<string>;
  /** What was there and has not been found to be wanted, by `rrsetKey`; signatures by that of what they cover. */
  readonly #existing = new Map<string, Stored[]>();
  readonly #signatures = new Map<string, Stored[]>();
  /** Of range `names`, the denial records that were there, by position. */
  readonly #chain = new Map<string, Stored>();
  /** The names of the view, by key, and their positions in the chain; with what stands there, where they are denied. */
  readonly #names = new Set<string>();
  readonly #denied = new Map<string, Denied>();
  readonly #leaving = new Set<string>();
  readonly #added: ResourceRecord[] = [];
  readonly #toSign: RrsetToSign[] = [];

  constructor(signing: ZoneSigning, { range, existing, changed }: SigningView<Stored>) {
    this.#signing = signing;
    this.#range = range;
    this.#changed = changed;
    const { denial } = signing;
    for (const record of existing) {
      if (record.type !== TYPE.RRSIG) addToGroup(this.#existing, rrsetKey(record.owner, record.type), record);
      else addToGroup(this.#signatures, rrsetKey(record.owner, readRrsig(record.rdata).typeCovered), record);
      if (range === "names" && record.type === denial.type)
        this.#chain.set(denial.positionOfOwner(record.owner), record);
    }
  }

  addName({ owner, role, records }: NameToSign): void {
    const { denial } = this.#signing;
    this.#names.add(owner.key);
    // RFC 2181 §5.2: the records of a type are one RRset, and have one TTL.
    const rrsets = groupBy(records, typeOf);
    for (const [type, rrset] of rrsets) {
      const isNew = DERIVED_TYPES.has(type) && this.#want(rrset);
      if (isSigned(type, role)) this.#sign(rrset, isNew);
    }
    const types = typesInBitmap(rrsets, role, denial);
    if (types) this.#denied.set(denial.positionOf(owner), { owner, types });
    else this.#leaving.add(denial.positionOf(owner));
  }

  *finish(): Steps<SignaturePlan<Stored>> {
    const { denial, negativeTtl } = this.#signing;
    let linked = 0;
    for (const [position, next] of this.#links()) {
      linked += 1;
      if (linked % NAMES_AT_A_TIME === 0) yield;
      const denied = this.#denied.get(position);
      const before = this.#chain.get(position);
      const rdata = denied ? denial.encode(next, denied.types) : denial.withNext(before!.rdata, next);
      const owner = denial.kind === "nsec" ? (denied?.owner ?? before!.owner) : denial.ownerAt(position);
      const record = { owner, type: denial.type, ttl: negativeTtl, rdata };
      this.#sign([record], this.#want([record]));
    }
    return { deleted: this.#unwanted(), added: this.#added, toSign: this.#toSign };
  }

  /** Where each record of the chain in the range points. Of range `zone` nothing of the old chain counts. */
  #links(): Map<string, string> {
    if (this.#range === "zone") return relinkChain(new Map(), this.#denied.keys(), new Set());
    const { denial } = this.#signing;
    const known = new Map([...this.#chain].map(([position, { rdata }]) => [position, denial.nextOf(rdata)]));
    const joining = [...this.#denied.keys()].filter((position) => !known.has(position));
    return relinkChain(known, joining, new Set([...this.#leaving].filter((position) => known.has(position))));
  }

  /** What is there, in the range, and has not been found to be wanted. */
  #unwanted(): Stored[] {
    const left = (rrsets: Map<string, Stored[]>, typeOf: (record: Stored) => number) =>
      [...rrsets.values()].flatMap((records) =>
        records[0] && this.#isInRange(records[0], typeOf(records[0])) ? records : [],
      );
    return [
      ...left(this.#existing, ({ type }) => type),
      ...left(this.#signatures, ({ rdata }) => readRrsig(rdata).typeCovered),
    ];
  }

  /** @param type the record's, of a signature the one that it covers */
  #isInRange({ owner }: Stored, type: number): boolean {
    // All of the chain that is known is linked anew; the owner of an NSEC3 is about another name than its own.
    return this.#range === "zone" || type === this.#signing.denial.type || this.#names.has(owner.key);
  }

  /** Has a derived RRset be there. @returns whether it is another than before */
  #want(rrset: readonly ResourceRecord[]): boolean {
    const key = rrsetKey(rrset[0]!.owner, rrset[0]!.type);
    const before = this.#existing.get(key) ?? [];
    const wanted = new Map(rrset.map((record) => [contentKey(record), record]));
    const there = before.map(contentKey);
    // What is there twice goes and comes anew: to a secondary, the deletion of one copy is that of the record.
    const isRight = (content: string) => wanted.has(content) && there.indexOf(content) === there.lastIndexOf(content);
    const left = before.filter((_, index) => !isRight(there[index]!));
    const appeared = [...wanted].filter(([content]) => !(there.includes(content) && isRight(content)));
    this.#existing.set(key, left);
    this.#added.push(...appeared.map(([, record]) => record));
    return left.length + appeared.length > 0;
  }

  /** Has an RRset have just the signatures it needs: one by each key. */
  #sign(rrset: readonly ResourceRecord[], isNew: boolean): void {
    const { owner, type } = rrset[0]!;
    const key = rrsetKey(owner, type);
    const isStale = isNew || this.#changed.has(key);
    const left = [...(this.#signatures.get(key) ?? [])];
    for (const signer of keysFor(type, this.#signing)) {
      const place = isStale ? -1 : left.findIndex((record) => isMadeBy(record, signer, rrset[0]!.ttl));
      if (place < 0) this.#toSign.push({ rrset, key: signer });
      else left.splice(place, 1);
    }
    this.#signatures.set(key, left);
  }
}

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

/** @param ttl that of the RRset, which the signature's TTL is as well (RFC 4034 §3) */
function isMadeBy({ rdata, ttl: ownTtl }: ResourceRecord, key: SigningKey, ttl: number): boolean {
  const facts = readRrsig(rdata);
  const isOfKey = facts.keyTag === key.keyTag && facts.algorithm === key.algorithm;
  return isOfKey && facts.originalTtl === ttl && ownTtl === ttl;
}

const typeOf = ({ type }: ResourceRecord) => type;

/** What tells records of one RRset apart; the case of their owner does not. */
function contentKey({ ttl, rdata }: ResourceRecord): string {
  return `${ttl} ${Buffer.from(rdata.buffer, rdata.byteOffset, rdata.length).toString("latin1")}`;
}
