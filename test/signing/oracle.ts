import { createHash } from "node:crypto";
import { isSignedBy } from "../../services/core/dns/dnssec/rrsig.ts";
import type { ResourceRecord } from "../../services/core/dns/record.ts";

/** What the keys of a zone and its settings say of its signing. */
export interface ExpectedSigning {
  readonly denial: "nsec" | "nsec3";
  /** `<algorithm> <key tag>` of the keys that sign the key set, and of those that sign all else. */
  readonly keySetKeys: readonly string[];
  readonly zoneKeys: readonly string[];
  /** RDATA of the keys in the DNSKEY RRset and of those that sign unpublished, by the same. */
  readonly dnskeys: ReadonlyMap<string, Uint8Array>;
  readonly publishedKeys: number;
  readonly hasCds: boolean;
  readonly nowSeconds: number;
}

/** A name of the zone: its labels in lower case, the root's last and left out, as text of one octet a character. */
interface OracleName {
  readonly labels: readonly string[];
  readonly sets: Map<number, ResourceRecord[]>;
}

const T = {
  NS: 2,
  SOA: 6,
  DNAME: 39,
  DS: 43,
  RRSIG: 46,
  NSEC: 47,
  DNSKEY: 48,
  NSEC3: 50,
  PARAM: 51,
  CDS: 59,
  CDNSKEY: 60,
};

/**
 * Finds out by itself, from a zone's data alone, what its chain of denial and its signatures have to be (RFC 4034, RFC
 * 4035 §2, RFC 5155 §7.1, RFC 6672 §5.3, RFC 9077), and compares. It shares no code with what signs but for the check of
 * one signature.
 * @param records the zone as it was transferred, its SOA once
 * @param verified signatures that are known to be good; grows
 * @returns what is wrong; empty when nothing is
 */
export function complaintsOfOracle(
  records: readonly ResourceRecord[],
  expected: ExpectedSigning | undefined,
  verified: Set<string>,
): string[] {
  const zone = new OracleZone(records);
  if (!expected) {
    const made = records.find(({ type }) => MADE_BY_SIGNING.has(type));
    return made ? [`the zone is not signed, and has ${describe(made)}`] : [];
  }
  return [
    ...zone.compareApex(expected),
    ...zone.compareChain(expected.denial),
    ...zone.compareSignatures(expected, verified),
  ];
}

const MADE_BY_SIGNING = new Set([T.RRSIG, T.NSEC, T.DNSKEY, T.NSEC3, T.PARAM, T.CDS, T.CDNSKEY]);
const KEY_SET = new Set([T.DNSKEY, T.CDS, T.CDNSKEY]);

class OracleZone {
  readonly #names = new Map<string, OracleName>();
  readonly #denial: ResourceRecord[] = [];
  readonly #signatures: ResourceRecord[] = [];
  readonly #apex: OracleName;
  readonly #negativeTtl: number;

  constructor(records: readonly ResourceRecord[]) {
    const soa = records.find(({ type }) => type === T.SOA)!;
    for (const record of records) {
      if (record.type === T.RRSIG) this.#signatures.push(record);
      else if (record.type === T.NSEC || record.type === T.NSEC3) this.#denial.push(record);
      else this.#add(record);
    }
    this.#apex = this.#names.get(soa.owner.key)!;
    this.#negativeTtl = Math.min(soa.ttl, Buffer.from(soa.rdata).readUInt32BE(soa.rdata.length - 4));
  }

  compareApex({ denial, publishedKeys, hasCds }: ExpectedSigning): string[] {
    const { sets } = this.#apex;
    const counts = [T.DNSKEY, T.PARAM, T.CDS, T.CDNSKEY].map((type) => sets.get(type)?.length ?? 0);
    const [keys, params, cds, cdnskey] = counts as [number, number, number, number];
    const isRight =
      keys === publishedKeys && params === Number(denial === "nsec3") && cds === cdnskey && cds > 0 === hasCds;
    const elsewhere = [...this.#names.values()].filter(
      (name) => name !== this.#apex && [...name.sets.keys()].some((type) => MADE_BY_SIGNING.has(type)),
    );
    return [
      ...(isRight ? [] : [`DNSKEY, NSEC3PARAM, CDS and CDNSKEY at the apex: ${counts.join(", ")}`]),
      ...elsewhere.map(({ labels }) => `${labels.join(".")} has what belongs to the apex`),
    ];
  }

  compareChain(kind: "nsec" | "nsec3"): string[] {
    const wanted = new Set(kind === "nsec" ? this.#nsecChain() : this.#nsec3Chain());
    const there = this.#denial.map((record) => `${record.type} ${record.owner.key} ${record.ttl} ${hex(record.rdata)}`);
    return differences("chain", wanted, there);
  }

  compareSignatures(expected: ExpectedSigning, verified: Set<string>): string[] {
    const signed = new Map<string, readonly ResourceRecord[]>();
    for (const name of this.#names.values()) {
      for (const [type, set] of name.sets)
        if (this.#isSigned(name, type)) signed.set(`${set[0]!.owner.key} ${type}`, set);
    }
    for (const record of this.#denial) signed.set(`${record.owner.key} ${record.type}`, [record]);
    const wanted = new Set<string>();
    for (const [place, set] of signed) {
      const { type, ttl } = set[0]!;
      const labels = labelsOfKey(set[0]!.owner.key);
      const count = labels.length - (labels[0] === "*" ? 1 : 0);
      for (const key of KEY_SET.has(type) ? expected.keySetKeys : expected.zoneKeys) {
        wanted.add(`${place} ${key} labels ${count} ttl ${ttl} ${ttl} by ${keyOfLabels(this.#apex.labels)}`);
      }
    }
    const there = this.#signatures.map((record) => describeSignature(record));
    const bad = this.#signatures.flatMap((record) => this.#judge(record, signed, expected, verified) ?? []);
    return [...differences("signatures", wanted, there), ...bad];
  }

  #judge(
    record: ResourceRecord,
    signed: ReadonlyMap<string, readonly ResourceRecord[]>,
    { dnskeys, nowSeconds }: ExpectedSigning,
    verified: Set<string>,
  ): string | undefined {
    const rdata = Buffer.from(record.rdata);
    const set = signed.get(`${record.owner.key} ${rdata.readUInt16BE(0)}`);
    const dnskey = dnskeys.get(`${rdata[2]} ${rdata.readUInt16BE(16)}`);
    if (!set || !dnskey) return undefined; // said already
    const [expires, begins] = [rdata.readUInt32BE(8), rdata.readUInt32BE(12)];
    if (begins > nowSeconds || expires < nowSeconds) return `${describe(record)} does not hold now`;
    const digest = createHash("sha256").update(rdata).update(dnskey);
    for (const data of set.map((one) => hex(one.rdata)).sort()) digest.update(data);
    const print = digest.update(`${record.owner.key} ${set[0]!.ttl}`).digest("base64");
    if (verified.has(print)) return undefined;
    if (!isSignedBy(set, record.rdata, dnskey)) return `${describe(record)} is no signature of what is there`;
    verified.add(print);
    return undefined;
  }

  *#nsecChain(): Generator<string> {
    const denied = [...this.#names.values()].filter((name) => this.#isVisible(name)).sort(canonically);
    for (const [index, name] of denied.entries()) {
      const next = denied[(index + 1) % denied.length]!;
      const types = [...this.#typesAt(name), T.RRSIG, T.NSEC];
      yield `${T.NSEC} ${keyOfLabels(name.labels)} ${this.#negativeTtl} ${hex(wireOf(next.labels))}${bitmapOf(types)}`;
    }
  }

  *#nsec3Chain(): Generator<string> {
    const types = new Map<string, number[]>();
    const depth = this.#apex.labels.length;
    for (const name of this.#names.values()) {
      if (!this.#isVisible(name)) continue;
      for (let labels = name.labels; labels.length >= depth; labels = labels.slice(1)) {
        const hash = sha1(wireOf(labels));
        if (!types.has(hash)) types.set(hash, []);
      }
      const own = this.#typesAt(name);
      const hasSignature = own.some((type) => this.#isSigned(name, type));
      types.set(sha1(wireOf(name.labels)), hasSignature ? [...own, T.RRSIG] : own);
    }
    const hashes = [...types.keys()].sort();
    for (const [index, hash] of hashes.entries()) {
      const next = hashes[(index + 1) % hashes.length]!;
      const owner = keyOfLabels([base32Hex(hash), ...this.#apex.labels]);
      yield `${T.NSEC3} ${owner} ${this.#negativeTtl} 0100000000${"14"}${next}${bitmapOf(types.get(hash)!)}`;
    }
  }

  /** What a name's denial record lists of its data: of a cut only what the parent's side has. */
  #typesAt({ sets, labels }: OracleName): number[] {
    const isCut = sets.has(T.NS) && labels.length > this.#apex.labels.length;
    return [...sets.keys()].filter((type) => !isCut || type === T.NS || type === T.DS);
  }

  #isSigned(name: OracleName, type: number): boolean {
    if (!this.#isVisible(name)) return false;
    return type === T.DS || !name.sets.has(T.NS) || name === this.#apex;
  }

  /** Neither below a zone cut nor below a DNAME. */
  #isVisible({ labels }: OracleName): boolean {
    const depth = this.#apex.labels.length;
    for (let above = labels.slice(1); above.length >= depth; above = above.slice(1)) {
      const sets = this.#names.get(keyOfLabels(above))?.sets;
      if (sets?.has(T.DNAME) || (above.length > depth && sets?.has(T.NS))) return false;
    }
    return true;
  }

  #add(record: ResourceRecord): void {
    const { key } = record.owner;
    const name = this.#names.get(key) ?? { labels: labelsOfKey(key), sets: new Map() };
    this.#names.set(key, name);
    const set = name.sets.get(record.type);
    if (set) set.push(record);
    else name.sets.set(record.type, [record]);
  }
}

function differences(what: string, wanted: ReadonlySet<string>, there: readonly string[]): string[] {
  const found = new Set(there);
  return [
    ...[...wanted].filter((text) => !found.has(text)).map((text) => `${what}: missing ${text}`),
    ...[...found].filter((text) => !wanted.has(text)).map((text) => `${what}: too many ${text}`),
    ...(found.size < there.length ? [`${what}: something is there twice`] : []),
  ];
}

function describeSignature({ owner, ttl, rdata: octets }: ResourceRecord): string {
  const rdata = Buffer.from(octets);
  let end = 18;
  while (rdata[end]! > 0) end += rdata[end]! + 1;
  const signer = rdata.toString("latin1", 18, end + 1);
  const key = `${rdata[2]} ${rdata.readUInt16BE(16)}`;
  return `${owner.key} ${rdata.readUInt16BE(0)} ${key} labels ${rdata[3]} ttl ${ttl} ${rdata.readUInt32BE(4)} by ${signer}`;
}

function describe({ owner, type, rdata }: ResourceRecord): string {
  return `${JSON.stringify(owner.key)} ${type} ${hex(rdata).slice(0, 60)}`;
}

/** RFC 4034 §6.1: label by label from the root down, as octets in lower case. */
function canonically(one: OracleName, other: OracleName): number {
  const [a, b] = [[...one.labels].reverse(), [...other.labels].reverse()];
  for (let index = 0; index < Math.min(a.length, b.length); index += 1) {
    if (a[index] !== b[index]) return a[index]! < b[index]! ? -1 : 1;
  }
  return a.length - b.length;
}

/** RFC 4034 §4.1.2. */
function bitmapOf(types: readonly number[]): string {
  const windows = new Map<number, Buffer>();
  for (const type of types) {
    const window = windows.get(type >> 8) ?? Buffer.alloc(32);
    windows.set(type >> 8, window);
    window[(type & 255) >> 3]! |= 0x80 >> (type & 7);
  }
  return [...windows]
    .sort(([a], [b]) => a - b)
    .map(([number, bits]) => {
      const octets = bits.subarray(0, bits.findLastIndex((octet) => octet > 0) + 1);
      return hex(Buffer.from([number, octets.length, ...octets]));
    })
    .join("");
}

function labelsOfKey(key: string): string[] {
  const labels: string[] = [];
  for (let at = 0; key.charCodeAt(at) > 0; at += key.charCodeAt(at) + 1) {
    labels.push(key.slice(at + 1, at + 1 + key.charCodeAt(at)));
  }
  return labels;
}

function keyOfLabels(labels: readonly string[]): string {
  return `${labels.map((label) => String.fromCharCode(label.length) + label).join("")}\0`;
}

function wireOf(labels: readonly string[]): Buffer {
  return Buffer.from(keyOfLabels(labels), "latin1");
}

function sha1(octets: Buffer): string {
  return createHash("sha1").update(octets).digest("hex");
}

/** RFC 4648 §7, in lower case. */
function base32Hex(hash: string): string {
  const bits = [...Buffer.from(hash, "hex")].map((octet) => octet.toString(2).padStart(8, "0")).join("");
  return (bits.match(/.{5}/g) ?? []).map((five) => Number.parseInt(five, 2).toString(32)).join("");
}

function hex(octets: Uint8Array): string {
  return Buffer.from(octets).toString("hex");
}
