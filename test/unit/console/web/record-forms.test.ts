import { describe, expect, it } from "vitest";
import { legibleValue } from "../../../../services/console/web/src/dns/record.ts";
import { formOf, joinValue, RECORD_FORMS, splitValue } from "../../../../services/console/web/src/dns/record-forms.ts";
import { parseDomainName } from "../../../../services/core/dns/name.ts";
import { formatRdata, parseRdata, splitPriority } from "../../../../services/core/dns/rdata/rdata.ts";
import { typeCode } from "../../../../services/core/dns/rr-types.ts";

const root = parseDomainName(".");
if (!root.ok) throw new Error("the root has a name");
const origin = root.value;

/** A value of each type, as the API shows it. */
const VALUES: Readonly<Record<string, string>> = {
  A: "192.0.2.1",
  AAAA: "2001:db8::1",
  CNAME: "www.example.org.",
  TXT: '"v=spf1 mx -all"',
  NS: "ns1.example.org.",
  SRV: "5 5060 sip.example.org.",
  CAA: '0 issue "ca.example.net; account=1"',
  PTR: "host.example.org.",
  HTTPS: '1 . alpn="h2,h3" port=8443',
  SVCB: "0 svc.example.org.",
  TLSA: "3 1 1 d2abde240d7cd3ee6b4b28c54df034b9 7983a1d16e8a410e4561cb106618e971",
  SSHFP: "4 2 123456789abcdef67890123456789abcdef67890123456789abcdef123456789",
  DS: "60485 13 2 D4B7D520E7BB5F0F67674A0CCEB1E3E0614B93C4F9E99B8383F6A1E4469DA50A",
  NAPTR: '100 10 "u" "E2U+sip" "!^.*$!sip:info@example.org!" .',
  DNAME: "example.net.",
  URI: '10 1 "https://www.example.org/a b"',
  HINFO: '"PC" "Debian GNU/Linux"',
  RP: "admin.example.org. .",
  LOC: "52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m",
};

/** With the priority that the API keeps apart. */
const whole = (type: string, value: string) => (type === "MX" || type === "SRV" ? `10 ${value}` : value);

function wireOf(type: string, value: string): string {
  const parsed = parseRdata(typeCode(type)!, whole(type, value), origin, "value");
  if (!parsed.ok) throw new Error(`${type} ${value}: ${JSON.stringify(parsed.error)}`);
  return Buffer.from(parsed.value).toString("hex");
}

describe("forms by record type", () => {
  it.each(Object.entries(VALUES))("take %s apart and put it together as the same record", (type, value) => {
    const form = formOf(type);
    const parts = splitValue(form, value);
    expect(parts).toHaveLength(form.parts.length);
    expect(wireOf(type, joinValue(form, parts))).toBe(wireOf(type, value));
  });

  it("know every type by the name that the server gives it", () => {
    expect(RECORD_FORMS.filter(({ type }) => typeCode(type) === undefined)).toEqual([]);
    expect(new Set(RECORD_FORMS.map(({ type }) => type)).size).toBe(RECORD_FORMS.length);
  });

  it("show a text without its quotes, but several strings as they are", () => {
    expect(splitValue(formOf("TXT"), '"one text"')).toEqual(["one text"]);
    expect(splitValue(formOf("TXT"), '"one" "two"')).toEqual(['"one" "two"']);
    expect(splitValue(formOf("TXT"), String.raw`"a \"quoted\" word"`)).toEqual([String.raw`"a \"quoted\" word"`]);
  });

  it("quote what the type wants in quotes, once", () => {
    expect(joinValue(formOf("CAA"), ["0", "issue", "ca.example.net"])).toBe('0 issue "ca.example.net"');
    expect(joinValue(formOf("CAA"), ["0", "issue", '"ca.example.net"'])).toBe('0 issue "ca.example.net"');
  });

  it("leave types without a form of their own in presentation format", () => {
    const form = formOf("TYPE65280");
    expect(splitValue(form, String.raw`\# 2 abcd`)).toEqual([String.raw`\# 2 abcd`]);
    expect(joinValue(form, [String.raw`\# 2 abcd`])).toBe(String.raw`\# 2 abcd`);
  });

  it("know which types have a priority of their own in the API", () => {
    const withPriority = RECORD_FORMS.filter(({ priority }) => priority).map(({ type }) => type);
    const sample = parseRdata(typeCode("MX")!, "10 mail.example.org.", origin, "value");
    expect(sample.ok && splitPriority(typeCode("MX")!, sample.value).prio).toBe("10");
    expect(sample.ok && formatRdata(typeCode("MX")!, sample.value)).toBe("10 mail.example.org.");
    expect(withPriority.sort()).toEqual(["MX", "SRV"]);
  });
});

describe("a value to be read", () => {
  it.each([
    [String.raw`"f\195\188r \226\130\172 5"`, '"für € 5"'],
    [String.raw`"\240\159\144\166" "a\"b"`, String.raw`"🐦" "a\"b"`],
    // An escaped backslash before digits, octets that are no UTF-8, a character that turns the text around, half a character.
    [String.raw`"\\195\\188"`, String.raw`"\\195\\188"`],
    [String.raw`"\255\001"`, String.raw`"\255\001"`],
    [String.raw`"\226\128\174"`, String.raw`"\226\128\174"`],
    [String.raw`"\195" "\188"`, String.raw`"\195" "\188"`],
    // A name's octets are no text.
    [String.raw`f\195\188r.example.org.`, String.raw`f\195\188r.example.org.`],
  ])("shows %s as %s", (value, shown) => {
    expect(legibleValue(value)).toBe(shown);
  });

  it("is edited as it is stored", () => {
    const value = String.raw`"f\195\188r"`;
    const form = formOf("TXT");
    expect(wireOf("TXT", joinValue(form, splitValue(form, value)))).toBe(wireOf("TXT", value));
  });
});
