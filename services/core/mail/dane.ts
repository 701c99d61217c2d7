import { createHash, X509Certificate } from "node:crypto";

/** A TLSA record (RFC 6698 §2.1). */
export interface TlsaRecord {
  readonly usage: number;
  readonly selector: number;
  readonly matchingType: number;
  readonly association: Uint8Array;
}

const DANE_TA = 2;
const DANE_EE = 3;
const FULL = 0;
const SHA2_256 = 1;
const SHA2_512 = 2;

/** Reads the RDATA of a TLSA record; undefined when it is cut short. */
export function readTlsa(rdata: Uint8Array): TlsaRecord | undefined {
  const [usage, selector, matchingType] = rdata;
  if (usage === undefined || selector === undefined || matchingType === undefined || rdata.length < 4) return undefined;
  return { usage, selector, matchingType, association: rdata.subarray(3) };
}

/**
 * The records that SMTP can go by: usages DANE-TA and DANE-EE, with known selectors and matching types
 * (RFC 7672 §3.1). Where several digests of the same kind are published, the strongest decides (RFC 7671 §9).
 */
export function usableTlsa(records: readonly TlsaRecord[]): TlsaRecord[] {
  const known = records.filter(
    ({ usage, selector, matchingType }) =>
      (usage === DANE_TA || usage === DANE_EE) && selector <= 1 && matchingType <= SHA2_512,
  );
  return known.filter(
    (record) =>
      record.matchingType !== SHA2_256 ||
      !known.some(
        ({ usage, selector, matchingType }) =>
          usage === record.usage && selector === record.selector && matchingType === SHA2_512,
      ),
  );
}

/** What a server has to prove. */
export interface DaneRequirement {
  /** Usable ones; none: it has to encrypt, with whatever certificate (RFC 7672 §2.2). */
  readonly records: readonly TlsaRecord[];
  /** Names that a certificate under a trust anchor may carry: the server's, the destination's (RFC 7672 §3.2.2). */
  readonly names: readonly string[];
}

/**
 * Judges the certificates that a server presented.
 * @param chain its own first
 * @returns undefined when one of the records vouches for it, else what is wrong
 * @see RFC 7672 §3.1.1: with DANE-EE neither names nor dates count; §3.1.2: with DANE-TA both do
 */
export function judgeChain(
  { records, names }: DaneRequirement,
  chain: readonly X509Certificate[],
  now: Date,
): string | undefined {
  if (records.length === 0) return undefined;
  const [own] = chain;
  if (own === undefined) return "no certificate was presented";
  if (records.some((record) => record.usage === DANE_EE && matches(record, own))) return undefined;
  const anchors = records.filter(({ usage }) => usage === DANE_TA);
  if (anchors.length === 0) return "the certificate matches no TLSA record";
  const path = findPath(own, chain.slice(1), anchors);
  if (path === undefined) return "the certificate does not lead to a trust anchor of the TLSA records";
  if (path.some(({ validFrom, validTo }) => now < new Date(validFrom) || now > new Date(validTo))) {
    return "a certificate is not valid now";
  }
  const carried = names.some((name) => own.checkHost(name, { subject: "default", partialWildcards: false }));
  return carried ? undefined : `the certificate is not for ${names[0]}`;
}

function matches({ selector, matchingType, association }: TlsaRecord, certificate: X509Certificate): boolean {
  const selected = selector === 0 ? certificate.raw : certificate.publicKey.export({ type: "spki", format: "der" });
  const algorithm = matchingType === SHA2_256 ? "sha256" : "sha512";
  const shown = matchingType === FULL ? selected : createHash(algorithm).update(selected).digest();
  return shown.equals(association);
}

const LONGEST_PATH = 10;

/** The certificates from the server's own up to an anchor; the anchor may be in the records rather than presented. */
function findPath(
  own: X509Certificate,
  others: readonly X509Certificate[],
  anchors: readonly TlsaRecord[],
): X509Certificate[] | undefined {
  const issuers = [...others, ...anchors.flatMap(certificateIn)];
  const path = [own];
  while (path.length <= LONGEST_PATH) {
    const last = path.at(-1)!;
    if (path.length > 1 && anchors.some((anchor) => matches(anchor, last))) return path;
    const issuer = issuers.find(
      (candidate) =>
        !path.includes(candidate) && candidate.ca && last.checkIssued(candidate) && last.verify(candidate.publicKey),
    );
    if (issuer === undefined) return undefined;
    path.push(issuer);
  }
  return undefined;
}

function certificateIn({ selector, matchingType, association }: TlsaRecord): X509Certificate[] {
  if (selector !== 0 || matchingType !== FULL) return [];
  try {
    return [new X509Certificate(association)];
  } catch {
    return [];
  }
}
