import { sentence } from "../../sentences.ts";
import { TYPE } from "../rr-types.ts";
import { numberField, textField } from "./basic-fields.ts";
import { checkLength, DNSSEC_ALGORITHMS } from "./dnssec-types.ts";
import { base64Field, hexField } from "./encoded-fields.ts";
import { type Field, type RdataShape, wordField } from "./field.ts";

/** Certificate types by their mnemonics (RFC 4398 §2.1). */
const CERTIFICATE_TYPES: Readonly<Record<string, number>> = {
  PKIX: 1,
  SPKI: 2,
  PGP: 3,
  IPKIX: 4,
  ISPKI: 5,
  IPGP: 6,
  ACPKIX: 7,
  IACPKIX: 8,
  URI: 253,
  OID: 254,
};

/** Octets of a fingerprint by its type (RFC 4255 §3.1.2, RFC 6594 §2.2). */
const FINGERPRINT_OCTETS = new Map([
  [1, 20],
  [2, 32],
]);

/** Octets of association data by matching type; 0 is the whole certificate (RFC 6698 §2.1.3). */
const ASSOCIATION_OCTETS = new Map([
  [1, 32],
  [2, 64],
]);

const association: RdataShape = {
  fields: [
    numberField("certificate usage", 8),
    numberField("selector", 8),
    numberField("matching type", 8),
    hexField("certificate association data"),
  ],
  check: (rdata) => checkLength("certificate association data", rdata.length - 3, ASSOCIATION_OCTETS.get(rdata[2]!)),
};

/** Certificates, their fingerprints, and who may issue them. */
export const CERTIFICATE_RR_TYPES: ReadonlyMap<number, RdataShape> = new Map<number, RdataShape>([
  [
    TYPE.CERT,
    {
      fields: [
        numberField("type", 16, CERTIFICATE_TYPES, { writeMnemonics: true }),
        numberField("key tag", 16),
        numberField("algorithm", 8, DNSSEC_ALGORITHMS),
        base64Field("certificate or CRL"),
      ],
    },
  ],
  [
    TYPE.SSHFP,
    {
      fields: [numberField("algorithm", 8), numberField("fp type", 8), hexField("fingerprint")],
      check: (rdata) => checkLength("fingerprint", rdata.length - 2, FINGERPRINT_OCTETS.get(rdata[1]!)),
    },
  ],
  [TYPE.TLSA, association],
  [TYPE.SMIMEA, association],
  [TYPE.OPENPGPKEY, { fields: [base64Field("public key")] }],
  [TYPE.CAA, { fields: [numberField("flags", 8), propertyTagField("tag"), textField("value", { mayBeEmpty: true })] }],
]);

/** What NSD reads as a tag: RFC 8659 §4.1 allows more. */
const PORTABLE_TAG = /^[a-z0-9]{1,15}$/;

/** A property tag of CAA: letters and digits, with a length octet (RFC 8659 §4.1). */
function propertyTagField(name: string): Field {
  return wordField(name, "counted", {
    parse(text, out) {
      if (!/^[A-Za-z0-9]{1,255}$/.test(text)) return sentence("no-tag", { text });
      out.u8(text.length);
      out.bytes(Buffer.from(text, "latin1"));
      return undefined;
    },
    format(octets, form) {
      const tag = Buffer.from(octets.subarray(1)).toString("latin1");
      return (form === "master-file" ? PORTABLE_TAG : /^[A-Za-z0-9]+$/).test(tag) ? tag : undefined;
    },
  });
}
