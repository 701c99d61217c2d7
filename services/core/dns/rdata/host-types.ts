import { TYPE } from "../rr-types.ts";
import { addressPrefixesField } from "./address-prefixes.ts";
import {
  ipv4Field,
  ipv6Field,
  nameField,
  numberField,
  periodField,
  stringField,
  stringsField,
  textField,
} from "./basic-fields.ts";
import { euiField, locatorField } from "./encoded-fields.ts";
import type { RdataShape } from "./field.ts";
import { locationField } from "./location.ts";

const compressible = { compressible: true } as const;

/** Hosts, names, texts and places: RFC 1035 and what extends it. */
export const HOST_TYPES: ReadonlyMap<number, RdataShape> = new Map<number, RdataShape>([
  [TYPE.A, { fields: [ipv4Field("address")] }],
  [TYPE.NS, { fields: [nameField("nsdname", compressible)] }],
  [TYPE.CNAME, { fields: [nameField("cname", compressible)] }],
  [
    TYPE.SOA,
    {
      fields: [
        nameField("mname", compressible),
        nameField("rname", compressible),
        numberField("serial", 32),
        periodField("refresh"),
        periodField("retry"),
        periodField("expire"),
        periodField("minimum"),
      ],
    },
  ],
  [TYPE.MB, { fields: [nameField("madname", compressible)] }],
  [TYPE.MG, { fields: [nameField("mgmname", compressible)] }],
  [TYPE.MR, { fields: [nameField("newname", compressible)] }],
  [TYPE.PTR, { fields: [nameField("ptrdname", compressible)] }],
  [TYPE.HINFO, { fields: [stringField("cpu"), stringField("os")] }],
  [TYPE.MINFO, { fields: [nameField("rmailbx", compressible), nameField("emailbx", compressible)] }],
  [TYPE.MX, { fields: [numberField("preference", 16), nameField("exchange", compressible)] }],
  [TYPE.TXT, { fields: [stringsField("text")] }],
  [TYPE.SPF, { fields: [stringsField("text")] }],
  [TYPE.AVC, { fields: [stringsField("text")] }],
  [TYPE.NINFO, { fields: [stringsField("text")] }],
  [TYPE.RESINFO, { fields: [stringsField("text")] }],
  [TYPE.WALLET, { fields: [stringsField("text")] }],
  // RFC 1183
  [TYPE.RP, { fields: [nameField("mbox"), nameField("txtdname")] }],
  [TYPE.AFSDB, { fields: [numberField("subtype", 16), nameField("hostname")] }],
  [TYPE.RT, { fields: [numberField("preference", 16), nameField("host")] }],
  [TYPE.AAAA, { fields: [ipv6Field("address")] }],
  [TYPE.LOC, { fields: [locationField] }],
  [TYPE.KX, { fields: [numberField("preference", 16), nameField("exchanger")] }],
  [TYPE.DNAME, { fields: [nameField("target")] }],
  [TYPE.APL, { fields: [addressPrefixesField] }],
  // RFC 6742
  [TYPE.NID, { fields: [numberField("preference", 16), locatorField("node identifier")] }],
  [TYPE.L32, { fields: [numberField("preference", 16), ipv4Field("locator")] }],
  [TYPE.L64, { fields: [numberField("preference", 16), locatorField("locator")] }],
  [TYPE.LP, { fields: [numberField("preference", 16), nameField("fqdn")] }],
  // RFC 7043
  [TYPE.EUI48, { fields: [euiField("address", 6)] }],
  [TYPE.EUI64, { fields: [euiField("address", 8)] }],
  // RFC 7553
  [
    TYPE.URI,
    { fields: [numberField("priority", 16), numberField("weight", 16), textField("target", { mayBeEmpty: false })] },
  ],
]);
