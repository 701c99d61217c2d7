import { describe, expect, it } from "vitest";
import {
  checkRdataWire,
  formatRdata,
  joinPriority,
  parseRdata,
  rdataNames,
  splitPriority,
} from "../../../../../services/core/dns/rdata/rdata.ts";
import { TYPE, typeCode } from "../../../../../services/core/dns/rr-types.ts";
import { accepted, hex, nameOf } from "../support.ts";
import { REFUSED, ROUND_TRIPS } from "./presentation.ts";

const origin = nameOf("example.org.");

describe("presentation format", () => {
  describe.each(ROUND_TRIPS.map(([mnemonic, text, expected = text]) => [mnemonic, text, expected] as const))(
    "%s %s",
    (mnemonic, text, expected) => {
      const type = typeCode(mnemonic)!;

      it("comes out as expected, and the same again", () => {
        const rdata = accepted(parseRdata(type, text, origin, "master-file"));
        expect(formatRdata(type, rdata)).toBe(expected);
        const again = accepted(parseRdata(type, expected, origin, "master-file"));
        expect(hex(again)).toBe(hex(rdata));
      });

      it("is lawful on the wire, and the same in the form of RFC 3597", () => {
        const rdata = accepted(parseRdata(type, text, origin, "master-file"));
        expect(checkRdataWire(type, rdata).ok).toBe(true);
        const generic = `\\# ${rdata.length} ${hex(rdata)}`;
        expect(hex(accepted(parseRdata(type, generic, origin, "master-file")))).toBe(hex(rdata));
        expect(hex(accepted(parseRdata(type, expected, origin, "value")))).toBe(hex(rdata));
      });

      it("is not lawful when it is cut short or too long", () => {
        const rdata = accepted(parseRdata(type, text, origin, "master-file"));
        for (let length = 0; length < rdata.length; length += 1) {
          const cut = rdata.subarray(0, length);
          // Some prefixes are lawful by themselves; what is said of them must then be what is read back.
          if (!checkRdataWire(type, cut).ok) expect(formatRdata(type, cut)).toMatch(/./);
          else expect(hex(accepted(parseRdata(type, formatRdata(type, cut), origin, "master-file")))).toBe(hex(cut));
        }
      });
    },
  );
});

describe("refusals", () => {
  it.each(REFUSED)("%s %s: %s", (mnemonic, text, field, message) => {
    const parsed = parseRdata(typeCode(mnemonic)!, text, origin, "value");
    expect(parsed).toMatchObject({ ok: false, error: { field, message: expect.stringContaining(message) } });
  });

  it("say where the offending word stands", () => {
    const parsed = parseRdata(TYPE.MX, "10  mail..example.org.", origin, "value");
    expect(parsed).toMatchObject({ ok: false, error: { line: 1, column: 5 } });
  });
});

describe("TXT", () => {
  it.each([
    ["v=spf1 include:_spf.example.net -all", '"v=spf1 include:_spf.example.net -all"'],
    ["v=DKIM1; k=rsa; p=MIGf", '"v=DKIM1; k=rsa; p=MIGf"'],
    ['"one" "two"', '"one" "two"'],
    ['"one""two"', '"one" "two"'],
    ['""', '""'],
    ["a  b", '"a  b"'],
    ['say \\"hi\\" \\\\ \\009', '"say \\"hi\\" \\\\ \\009"'],
    ['key="a b"', '"key=\\"a b\\""'],
    ["ñ", '"\\195\\177"'],
    ["(not grouped", '"(not grouped"'],
    ['( "v=DKIM1; "\n  "p=MIGf" )', '"v=DKIM1; " "p=MIGf"'],
  ])("value %s is %s", (value, expected) => {
    expect(formatRdata(TYPE.TXT, accepted(parseRdata(TYPE.TXT, value, origin, "value")))).toBe(expected);
  });

  it("splits a long text of a value after 255 octets, quoted or not", () => {
    const expected = `"${"a".repeat(255)}" "${"a".repeat(45)}"`;
    for (const value of ["a".repeat(300), `"${"a".repeat(300)}"`]) {
      expect(formatRdata(TYPE.TXT, accepted(parseRdata(TYPE.TXT, value, origin, "value")))).toBe(expected);
    }
  });

  it("splits by octets and not by characters", () => {
    const rdata = accepted(parseRdata(TYPE.TXT, "ñ".repeat(200), origin, "value"));
    expect(rdata.length).toBe(402);
    expect([rdata[0], rdata[256]]).toEqual([255, 145]);
  });

  it("keeps exactly 255 octets whole", () => {
    expect(accepted(parseRdata(TYPE.TXT, "a".repeat(255), origin, "value")).length).toBe(256);
  });

  it("refuses a string above 255 octets in a master file", () => {
    const parsed = parseRdata(TYPE.TXT, `"${"a".repeat(256)}"`, origin, "master-file");
    expect(parsed).toMatchObject({
      ok: false,
      error: { field: "text", message: expect.stringContaining("256 octets") },
    });
  });

  it("takes each word of a master file for a string, and a semicolon for a comment", () => {
    const rdata = accepted(parseRdata(TYPE.TXT, 'one two "th;ree" ; four', origin, "master-file"));
    expect(formatRdata(TYPE.TXT, rdata)).toBe('"one" "two" "th;ree"');
  });

  it.each(["", "   ", '"open', "a\\300"])("refuses the value %j", (value) => {
    expect(parseRdata(TYPE.TXT, value, origin, "value").ok).toBe(false);
  });

  it("takes the form of RFC 3597 in a value", () => {
    expect(formatRdata(TYPE.TXT, accepted(parseRdata(TYPE.TXT, "\\# 3 02 6869", origin, "value")))).toBe('"hi"');
    expect(parseRdata(TYPE.TXT, "\\# 3 036869", origin, "value").ok).toBe(false);
  });

  it("refuses more than RDLENGTH can say", () => {
    expect(parseRdata(TYPE.TXT, "a".repeat(65_279), origin, "value").ok).toBe(true);
    expect(parseRdata(TYPE.TXT, "a".repeat(65_280), origin, "value").ok).toBe(false);
  });
});

describe("values of other types", () => {
  it("have a semicolon as data", () => {
    const rdata = accepted(parseRdata(TYPE.CAA, "0 issue ca.example.net;policy=ev", origin, "value"));
    expect(formatRdata(TYPE.CAA, rdata)).toBe('0 issue "ca.example.net;policy=ev"');
  });

  it("may stand in parentheses and on several lines", () => {
    const rdata = accepted(
      parseRdata(TYPE.DS, "60485 5 1 ( 2BB183AF5F22588179A53B0A\n 98631FAD1A292118 )", origin, "value"),
    );
    expect(formatRdata(TYPE.DS, rdata)).toBe("60485 5 1 2BB183AF5F22588179A53B0A98631FAD1A292118");
  });

  it("algorithm 0 is that of a CDS that asks for no DS, and of no DS", () => {
    expect(parseRdata(TYPE.CDS, "0 0 0 00", origin, "value").ok).toBe(true);
    expect(parseRdata(TYPE.DS, "0 0 0 00", origin, "value")).toMatchObject({
      ok: false,
      error: { field: "algorithm", code: "ds-algorithm" },
    });
  });

  it("have their U-labels converted", () => {
    expect(formatRdata(TYPE.CNAME, accepted(parseRdata(TYPE.CNAME, "bücher", origin, "value")))).toBe(
      "xn--bcher-kva.example.org.",
    );
  });
});

describe("priority", () => {
  it.each([
    ["MX", "10", "mail", "10", "mail.example.org."],
    ["SRV", "0", "5 5060 sip", "0", "5 5060 sip.example.org."],
    ["A", null, "192.0.2.1", null, "192.0.2.1"],
    ["MX", "10", "\\# 9 046d61696c026e6300", "10", "mail.nc."],
    ["MX", "10", "\\# 11 000a046d61696c026e6300", "10", "mail.nc."],
  ] as [string, string | null, string, string | null, string][])(
    "%s %s %s",
    (mnemonic, prio, value, expectedPrio, expected) => {
      const type = typeCode(mnemonic)!;
      const rdata = accepted(parseRdata(type, joinPriority(type, prio, value), origin, "value"));
      expect(splitPriority(type, rdata)).toEqual({ prio: expectedPrio, value: expected });
    },
  );
});

it.each(["65536", "-1", "ten", ""])("priority %j is refused, whatever the form of the value", (prio) => {
  for (const value of ["mail", "\\# 9 046d61696c026e6300"]) {
    expect(parseRdata(TYPE.MX, joinPriority(TYPE.MX, prio, value), origin, "value").ok).toBe(false);
  }
});

describe("rdataNames", () => {
  it.each([
    ["NS", "ns1", [{ offset: 0, length: 17, compressible: true }]],
    ["MX", "10 a", [{ offset: 2, length: 15, compressible: true }]],
    ["SRV", "0 0 0 a", [{ offset: 6, length: 15, compressible: false }]],
    [
      "SOA",
      "a. b. 1 2 3 4 5",
      [
        { offset: 0, length: 3, compressible: true },
        { offset: 3, length: 3, compressible: true },
      ],
    ],
    ["NAPTR", '1 2 "u" "s" "!a!b!" a.', [{ offset: 14, length: 3, compressible: false }]],
    ["TXT", "abc", []],
    ["A", "192.0.2.1", []],
  ])("%s %s", (mnemonic, text, expected) => {
    const type = typeCode(mnemonic)!;
    expect(rdataNames(type, accepted(parseRdata(type, text, origin, "master-file")))).toEqual(expected);
  });

  it("finds none in a type that is not known", () => {
    expect(rdataNames(65_280, Uint8Array.of(1, 0x61, 0))).toEqual([]);
  });
});
