import { sentence } from "../../sentences.ts";
import { TYPE } from "../rr-types.ts";
import { nameField, numberField } from "./basic-fields.ts";
import {
  base32Field,
  base64Field,
  hexField,
  saltField,
  timeField,
  typeBitmapField,
  typeField,
} from "./encoded-fields.ts";
import { type FieldProblem, fieldEnd, MISSING, type RdataShape } from "./field.ts";

/** DNSSEC algorithm mnemonics that a master file may use (RFC 4034 appendix A.1 and the registry after it). */
export const DNSSEC_ALGORITHMS: Readonly<Record<string, number>> = {
  RSAMD5: 1,
  DH: 2,
  DSA: 3,
  RSASHA1: 5,
  "DSA-NSEC3-SHA1": 6,
  "RSASHA1-NSEC3-SHA1": 7,
  RSASHA256: 8,
  RSASHA512: 10,
  "ECC-GOST": 12,
  ECDSAP256SHA256: 13,
  ECDSAP384SHA384: 14,
  ED25519: 15,
  ED448: 16,
  INDIRECT: 252,
  PRIVATEDNS: 253,
  PRIVATEOID: 254,
};

/** Octets of a digest by digest type (RFC 4034, RFC 4509, RFC 6605). */
export const DS_DIGEST_OCTETS: ReadonlyMap<number, number> = new Map([
  [1, 20],
  [2, 32],
  [3, 32],
  [4, 48],
]);
/** Octets of a zone digest by hash algorithm (RFC 8976 §5.3). */
const ZONE_DIGEST_OCTETS = new Map([
  [1, 48],
  [2, 64],
]);

/** Whatever the hash algorithm (RFC 8976 §2.2.4). */
const LEAST_ZONE_DIGEST_OCTETS = 12;

const publicKey: RdataShape = {
  fields: [
    numberField("flags", 16),
    numberField("protocol", 8),
    numberField("algorithm", 8, DNSSEC_ALGORITHMS),
    base64Field("public key"),
  ],
  // RFC 4034 §2.1.2: the protocol field must have the value 3.
  check: (rdata) =>
    rdata[2] === 3 ? undefined : { field: "protocol", ...sentence("dnskey-protocol", { text: rdata[2]! }) },
};

const childDelegationSigner: RdataShape = {
  fields: [
    numberField("key tag", 16),
    numberField("algorithm", 8, DNSSEC_ALGORITHMS),
    numberField("digest type", 8),
    hexField("digest"),
  ],
  check: (rdata) => checkLength("digest", rdata.length - 4, DS_DIGEST_OCTETS.get(rdata[3]!)),
};

/** RFC 4034 Appendix A.1: no algorithm has the number 0. Only CDS and CDNSKEY have it, to ask for no DS (RFC 8078 §4). */
const delegationSigner: RdataShape = {
  ...childDelegationSigner,
  check: (rdata) =>
    rdata[2] === 0 ? { field: "algorithm", ...sentence("ds-algorithm") } : childDelegationSigner.check?.(rdata),
};

/** Keys, signatures and proofs, served as the plain data they are. */
export const DNSSEC_TYPES: ReadonlyMap<number, RdataShape> = new Map<number, RdataShape>([
  [TYPE.DS, delegationSigner],
  [TYPE.CDS, childDelegationSigner],
  [TYPE.DNSKEY, publicKey],
  [TYPE.CDNSKEY, publicKey],
  [
    TYPE.RRSIG,
    {
      fields: [
        typeField("type covered"),
        numberField("algorithm", 8, DNSSEC_ALGORITHMS),
        numberField("labels", 8),
        numberField("original TTL", 32),
        timeField("signature expiration"),
        timeField("signature inception"),
        numberField("key tag", 16),
        nameField("signer's name"),
        base64Field("signature"),
      ],
    },
  ],
  [
    TYPE.NSEC,
    {
      fields: [nameField("next domain name"), typeBitmapField("types")],
      // RFC 4034 §4.1.2: where there is an NSEC record, there is its type at least.
      check: (rdata) => (fieldEnd("name", rdata, 0) === rdata.length ? { field: "types", ...MISSING } : undefined),
    },
  ],
  [
    TYPE.NSEC3,
    {
      fields: [
        numberField("hash algorithm", 8),
        numberField("flags", 8),
        numberField("iterations", 16),
        saltField("salt"),
        base32Field("next hashed owner name"),
        typeBitmapField("types"),
      ],
    },
  ],
  [
    TYPE.NSEC3PARAM,
    {
      fields: [
        numberField("hash algorithm", 8),
        numberField("flags", 8),
        numberField("iterations", 16),
        saltField("salt"),
      ],
    },
  ],
  [TYPE.CSYNC, { fields: [numberField("SOA serial", 32), numberField("flags", 16), typeBitmapField("types")] }],
  [
    TYPE.ZONEMD,
    {
      fields: [
        numberField("serial", 32),
        numberField("scheme", 8),
        numberField("hash algorithm", 8),
        hexField("digest"),
      ],
      check(rdata) {
        const octets = rdata.length - 6;
        if (octets < LEAST_ZONE_DIGEST_OCTETS) {
          const least = LEAST_ZONE_DIGEST_OCTETS;
          return { field: "digest", ...sentence("part-octets-least", { octets, least }) };
        }
        return checkLength("digest", octets, ZONE_DIGEST_OCTETS.get(rdata[5]!));
      },
    },
  ],
  [TYPE.DHCID, { fields: [base64Field("digest")] }],
]);

/** Refuses a digest whose length is not the one that its algorithm has; unknown algorithms pass. */
export function checkLength(field: string, octets: number, expected: number | undefined): FieldProblem | undefined {
  if (expected === undefined || octets === expected) return undefined;
  return { field, ...sentence("part-octets", { octets, wanted: expected }) };
}
