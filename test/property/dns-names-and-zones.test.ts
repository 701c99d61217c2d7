import { describe, expect, it } from "vitest";
import {
  type DomainName,
  domainNameFromWire,
  formatDomainName,
  formatRelative,
  labelsOf,
  nameFromLabels,
  nameSortKey,
  parseDomainName,
} from "../../services/core/dns/name.ts";
import { checkRdataWire, formatRdata, parseRdata } from "../../services/core/dns/rdata/rdata.ts";
import { decodeRecords, encodeRecords, type ResourceRecord, recordIdentity } from "../../services/core/dns/record.ts";
import { isMetaType, RR_TYPES, TYPE } from "../../services/core/dns/rr-types.ts";
import { addSerial, compareSerial, nextSerial, serialIsAhead } from "../../services/core/dns/serial.ts";
import { formatZoneFile, parseZoneFile } from "../../services/core/dns/zone-file/zone-file.ts";
import { fc } from "../support/property.ts";
import { accepted, hex, nameOf } from "../unit/core/dns/support.ts";

const apex = nameOf("example.org.");

const label = fc.oneof(
  fc.uint8Array({ minLength: 1, maxLength: 63 }),
  fc.stringMatching(/^[a-z0-9-]{1,20}$/).map((text) => new Uint8Array(Buffer.from(text))),
);
const name = fc
  .array(label, { maxLength: 8 })
  .map((labels) => nameFromLabels(labels))
  .filter((result) => result.ok)
  .map((result) => accepted(result));
const serial = fc.integer({ min: 0, max: 2 ** 32 - 1 });

describe("names", () => {
  it("come back from presentation format and from the wire", () => {
    fc.assert(
      fc.property(name, (original) => {
        const again = accepted(parseDomainName(formatDomainName(original)));
        expect(hex(again.wire)).toBe(hex(original.wire));
        expect(again.labelCount).toBe(original.labelCount);
        expect(hex(accepted(domainNameFromWire(original.wire)).wire)).toBe(hex(original.wire));
        expect(hex(accepted(parseDomainName(formatRelative(original, apex), apex)).wire)).toBe(hex(original.wire));
      }),
    );
  });

  it("sort by their keys as RFC 4034 §6.1 has it", () => {
    fc.assert(
      fc.property(name, name, (a, b) => {
        const order = Buffer.compare(nameSortKey(a.wire), nameSortKey(b.wire));
        expect(order).toBe(Math.sign(compareByLabels(a, b)));
        expect(order === 0).toBe(a.key === b.key);
      }),
    );
  });

  it("are refused and never thrown at, whatever the text and the octets", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 80 }), fc.uint8Array({ maxLength: 80 }), (text, octets) => {
        const parsed = parseDomainName(text, apex);
        if (parsed.ok) expect(accepted(parseDomainName(formatDomainName(parsed.value))).key).toBe(parsed.value.key);
        const read = domainNameFromWire(octets);
        if (read.ok) expect(hex(octets)).toContain(hex(read.value.wire));
      }),
      { numRuns: 500 },
    );
  });
});

/** RFC 4034 §6.1 in its own words: from the most significant label, as octet strings in lower case. */
function compareByLabels(a: DomainName, b: DomainName): number {
  const [left, right] = [a, b].map((which) => labelsOf(which).reverse()) as [Uint8Array[], Uint8Array[]];
  for (let index = 0; index < Math.min(left.length, right.length); index += 1) {
    const order = Buffer.compare(lowerCase(left[index]!), lowerCase(right[index]!));
    if (order !== 0) return order;
  }
  return left.length - right.length;
}

function lowerCase(octets: Uint8Array): Uint8Array {
  return octets.map((octet) => (octet >= 0x41 && octet <= 0x5a ? octet + 32 : octet));
}

/** Every type that has data, and one that is not known. */
const dataType = fc.constantFrom(...RR_TYPES.map(({ code }) => code).filter((code) => !isMetaType(code)), 65_280);

describe("RDATA", () => {
  it("of any type that is lawful comes back from presentation format, octet for octet", () => {
    fc.assert(
      fc.property(dataType, fc.uint8Array({ maxLength: 40 }), (type, rdata) => {
        if (checkRdataWire(type, rdata).ok) {
          const text = formatRdata(type, rdata);
          expect(hex(accepted(parseRdata(type, text, undefined, "master-file")))).toBe(hex(rdata));
          expect(hex(accepted(parseRdata(type, text, undefined, "value")))).toBe(hex(rdata));
        } else {
          expect(formatRdata(type, rdata)).toMatch(/^\\# \d+/);
        }
      }),
      { numRuns: 2000 },
    );
  });

  it("as text is refused or read, and what is read is lawful and stable", () => {
    const word = fc.oneof(
      fc.string({ unit: "binary-ascii", maxLength: 12 }),
      fc.constantFrom(
        "1",
        "10",
        "192.0.2.1",
        "2001:db8::1",
        "a.example.",
        "@",
        '"a b"',
        "AAAA",
        "alpn=h2",
        "\\#",
        "4",
        "N",
        "E",
      ),
    );
    fc.assert(
      fc.property(dataType, fc.array(word, { maxLength: 8 }), (type, words) => {
        const parsed = parseRdata(type, words.join(" "), apex, "value");
        if (!parsed.ok) return;
        expect(checkRdataWire(type, parsed.value).ok).toBe(true);
        const again = accepted(parseRdata(type, formatRdata(type, parsed.value), undefined, "value"));
        expect(hex(again)).toBe(hex(parsed.value));
      }),
      { numRuns: 2000 },
    );
  });

  it("of texts keeps every octet of an unquoted value", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", minLength: 1, maxLength: 600 }), (text) => {
        if (/\\|^\s*(\(?\s*"|$)/.test(text)) return;
        const rdata = accepted(parseRdata(TYPE.TXT, text, apex, "value"));
        const strings: Uint8Array[] = [];
        for (let at = 0; at < rdata.length; at += rdata[at]! + 1)
          strings.push(rdata.subarray(at + 1, at + 1 + rdata[at]!));
        expect(Buffer.concat(strings).toString("utf8")).toBe(text);
        expect(strings.slice(0, -1).every((part) => part.length === 255)).toBe(true);
      }),
    );
  });
});

const record: fc.Arbitrary<ResourceRecord> = fc
  .tuple(name, dataType, fc.integer({ min: 0, max: 2 ** 31 - 1 }), fc.uint8Array({ maxLength: 24 }))
  .map(([relative, type, ttl, rdata]) => ({
    owner: nameFromLabels([...labelsOf(relative), ...labelsOf(apex)]),
    type,
    ttl,
    rdata,
  }))
  .filter(({ owner, type, rdata }) => owner.ok && type !== TYPE.SOA && checkRdataWire(type, rdata).ok)
  .map(({ owner, ...rest }) => ({ owner: accepted(owner), ...rest }));

describe("zones", () => {
  it("come back from a master file, whatever they hold, and are written the same again", () => {
    const soa = accepted(parseZoneFile("@ 60 SOA a b 1 2 3 4 5", { origin: apex })).soa!;
    fc.assert(
      fc.property(fc.array(record, { maxLength: 12 }), (records) => {
        const written = formatZoneFile({ apex, soa, records, ttl: 300 });
        const read = accepted(parseZoneFile(written, { origin: apex }));
        const expected = new Set(records.map(recordIdentity));
        expect(new Set(read.records.map(recordIdentity))).toEqual(expected);
        const again = formatZoneFile({ apex, soa: read.soa!, records: read.records, ttl: read.ttlSeconds! });
        const third = accepted(parseZoneFile(again, { origin: apex }));
        expect(formatZoneFile({ apex, soa: third.soa!, records: third.records, ttl: 300 })).toBe(again);
      }),
      { numRuns: 300 },
    );
  });

  it("in pieces are refused at a place in the text, never thrown at", () => {
    const piece = fc.constantFrom(
      "a",
      " ",
      "\n",
      "(",
      ")",
      '"',
      ";",
      "\\",
      "$TTL",
      "$ORIGIN",
      "$GENERATE",
      "1-3",
      "60",
      "IN",
      "A",
      "TXT",
      "192.0.2.1",
      "${",
      "$",
      "@",
      "é",
      "\t",
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        const text = pieces.join("");
        const read = parseZoneFile(text, { origin: apex, defaultTtlSeconds: 60, maxGenerated: 100 });
        if (read.ok) return;
        expect(read.error.line).toBeGreaterThanOrEqual(1);
        expect(read.error.line).toBeLessThanOrEqual(text.split("\n").length);
        expect(read.error.column).toBeGreaterThanOrEqual(1);
      }),
      { numRuns: 1500 },
    );
  });

  it("are kept by the journal's form", () => {
    fc.assert(
      fc.property(fc.array(record, { maxLength: 6 }), (records) => {
        expect(decodeRecords(encodeRecords(records))).toEqual(records);
      }),
    );
  });
});

describe("serials", () => {
  it("are ahead after any lawful addition (RFC 1982 §3)", () => {
    fc.assert(
      fc.property(serial, fc.integer({ min: 1, max: 2 ** 31 - 1 }), (from, increment) => {
        const to = addSerial(from, increment);
        expect(compareSerial(to, from)).toBe(1);
        expect(compareSerial(from, to)).toBe(-1);
      }),
    );
  });

  it("always move ahead, and one by one comes to the same as all at once", () => {
    const day = fc.date({
      min: new Date("1970-01-01T00:00:00Z"),
      max: new Date("2099-12-31T00:00:00Z"),
      noInvalidDate: true,
    });
    fc.assert(
      fc.property(
        serial,
        day,
        fc.constantFrom("numeric", "calendar"),
        fc.integer({ min: 1, max: 120 }),
        (from, now, kind, changes) => {
          let stepped = nextSerial(from, kind, now);
          for (let count = 1; count < changes && stepped.ok; count += 1) stepped = nextSerial(stepped.value, kind, now);
          const atOnce = nextSerial(from, kind, now, changes);
          expect(atOnce).toEqual(stepped);
          if (atOnce.ok) expect(serialIsAhead(atOnce.value, from)).toBe(true);
        },
      ),
    );
  });
});
