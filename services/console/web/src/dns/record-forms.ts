import type { Texts } from "../texts/en/index.ts";

/** A part of a record's value that has a field of its own in the form. */
export interface ValuePart {
  readonly id: keyof Texts["dns"]["parts"];
  readonly kind?: "number" | "text" | "long";
  /** Written in quotes (RFC 1035 §5.1), which the form adds and takes away. */
  readonly quoted?: boolean;
  readonly example?: string;
  /** What is offered while typing. */
  readonly suggestions?: readonly string[];
}

/** How the value of a type is put together: by parts in the order of the presentation format. */
export interface RecordForm {
  readonly type: string;
  readonly priority?: boolean;
  readonly parts: readonly ValuePart[];
}

const name = (id: ValuePart["id"], example: string): ValuePart => ({ id, example });
const number = (id: ValuePart["id"], example: string): ValuePart => ({ id, kind: "number", example });

/** The types that have a form of their own, the most used first; every other type has a single field. */
export const RECORD_FORMS: readonly RecordForm[] = [
  { type: "A", parts: [name("address", "192.0.2.10")] },
  { type: "AAAA", parts: [name("address", "2001:db8::10")] },
  { type: "CNAME", parts: [name("target", "www.example.org.")] },
  { type: "MX", priority: true, parts: [name("target", "mail.example.org.")] },
  { type: "TXT", parts: [{ id: "text", kind: "long", example: "v=spf1 mx -all" }] },
  { type: "NS", parts: [name("target", "ns1.example.org.")] },
  {
    type: "SRV",
    priority: true,
    parts: [number("weight", "5"), number("port", "5060"), name("target", "sip.example.org.")],
  },
  {
    type: "CAA",
    parts: [
      number("flags", "0"),
      { id: "tag", example: "issue", suggestions: ["issue", "issuewild", "iodef"] },
      { id: "value", quoted: true, example: "ca.example.net" },
    ],
  },
  { type: "PTR", parts: [name("target", "host.example.org.")] },
  {
    type: "HTTPS",
    parts: [number("priority", "1"), name("target", "."), { id: "parameters", example: "alpn=h2,h3" }],
  },
  {
    type: "SVCB",
    parts: [number("priority", "1"), name("target", "svc.example.org."), { id: "parameters", example: "port=8443" }],
  },
  {
    type: "TLSA",
    parts: [number("usage", "3"), number("selector", "1"), number("matching", "1"), { id: "data", kind: "long" }],
  },
  {
    type: "SSHFP",
    parts: [number("algorithm", "4"), number("fingerprintType", "2"), { id: "fingerprint", kind: "long" }],
  },
  {
    type: "DS",
    parts: [
      number("keyTag", "12345"),
      number("algorithm", "13"),
      number("digestType", "2"),
      { id: "digest", kind: "long" },
    ],
  },
  {
    type: "NAPTR",
    parts: [
      number("order", "100"),
      number("preference", "10"),
      { id: "flags", quoted: true, example: "u" },
      { id: "service", quoted: true, example: "E2U+sip" },
      { id: "regexp", quoted: true },
      name("replacement", "."),
    ],
  },
  { type: "DNAME", parts: [name("target", "example.net.")] },
  { type: "URI", parts: [number("priority", "10"), number("weight", "1"), { id: "uri", quoted: true }] },
  {
    type: "HINFO",
    parts: [
      { id: "cpu", quoted: true },
      { id: "os", quoted: true },
    ],
  },
  { type: "RP", parts: [name("mailbox", "admin.example.org."), name("textName", ".")] },
  ...["AFSDB", "APL", "CERT", "CSYNC", "DNSKEY", "EUI48", "EUI64", "LOC", "OPENPGPKEY", "SMIMEA", "SPF"].map(
    (type): RecordForm => ({ type, parts: [{ id: "presentation", kind: "long" }] }),
  ),
];

/** The form of a type; unknown ones (`TYPE65280`) are written in presentation format. */
export function formOf(type: string): RecordForm {
  return RECORD_FORMS.find((form) => form.type === type) ?? { type, parts: [{ id: "presentation", kind: "long" }] };
}

/**
 * Takes a value apart for its form. What has not as many parts as the form stays whole in the last one.
 * @param value presentation format, without the priority of MX and SRV
 */
export function splitValue({ type, parts }: RecordForm, value: string): string[] {
  if (type === "TXT" || type === "SPF") return [unquoted(value)];
  const tokens = tokensOf(value);
  const leading = tokens.slice(0, parts.length - 1);
  const rest = tokens.slice(parts.length - 1).join(" ");
  const values = [...leading, rest];
  return parts.map((part, index) => (part.quoted ? unquoted(values[index] ?? "") : (values[index] ?? "")));
}

/** Puts the parts of a form together. @returns presentation format */
export function joinValue({ parts }: RecordForm, values: readonly string[]): string {
  return parts
    .map((part, index) => {
      const given = (values[index] ?? "").trim();
      return part.quoted && !given.startsWith('"') ? `"${given}"` : given;
    })
    .join(" ")
    .trim();
}

/** The words of a value; what stands in quotes is never parted, as in `alpn="h2,h3"`. */
function tokensOf(value: string): string[] {
  return value.match(/(?:"(?:[^"\\]|\\.)*"|[^\s"\\]|\\.)+/g) ?? [];
}

/** A single quoted string without its quotes; several, or one with escapes, stay as they are written. */
function unquoted(value: string): string {
  return /^"([^"\\]*)"$/.exec(value)?.[1] ?? value;
}
