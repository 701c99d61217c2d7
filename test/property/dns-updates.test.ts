import { describe, expect, it } from "vitest";
import { CLASS, RCODE, TYPE } from "../../services/core/dns/rr-types.ts";
import { decodeSoaRdata } from "../../services/core/dns/soa.ts";
import { applyUpdate, changesNothing } from "../../services/core/dns/update/apply-update.ts";
import { namesOf, readUpdateRequest } from "../../services/core/dns/update/update-request.ts";
import { checkTouchedNames } from "../../services/core/dns/zone-checks.ts";
import { editRecords, type StoredRecord } from "../../services/core/dns/zone-edit.ts";
import { fc } from "../support/property.ts";
import { accepted, nameOf, recordOf } from "../unit/core/dns/support.ts";
import { bare, updateMessage, withData } from "../unit/core/dns/update/support.ts";

const zone = {
  apex: nameOf("example.org."),
  ttl: 3600,
  soa: decodeSoaRdata(recordOf("@", "SOA", "ns1 hostmaster 10 7200 3600 1209600 300").rdata),
};
const DATA = [
  ["A", "192.0.2.1"],
  ["A", "192.0.2.2"],
  ["TXT", "one"],
  ["MX", "10 a"],
  ["CNAME", "a"],
  ["CNAME", "b"],
  ["DNAME", "b"],
  ["NS", "a"],
  ["NS", "b"],
  ["SOA", "ns1 hostmaster 11 7200 3600 1209600 300"],
] as const;
const owners = fc.constantFrom("@", "a", "b", "c.a", "*");
const data = fc.constantFrom(...DATA);
const types = fc.constantFrom("A", "TXT", "MX", "CNAME", "DNAME", "NS", "SOA", "ANY");
const steps = fc.oneof(
  fc
    .tuple(owners, data, fc.constantFrom(60, 300))
    .map(([owner, [type, text], ttl]) => withData(owner, type, text, ttl)),
  fc.tuple(owners, data).map(([owner, [type, text]]) => withData(owner, type, text, 0, CLASS.NONE)),
  fc.tuple(owners, types).map(([owner, type]) => bare(owner, type, CLASS.ANY)),
);
const prerequisites = fc.oneof(
  fc.tuple(owners, types, fc.constantFrom(CLASS.ANY, CLASS.NONE)).map(([owner, type, c]) => bare(owner, type, c)),
  fc.tuple(owners, data).map(([owner, [type, text]]) => withData(owner, type, text)),
);
const updates = fc
  .tuple(fc.array(steps, { maxLength: 8 }), fc.array(prerequisites, { maxLength: 2 }))
  .map(([wanted, conditions]) => updateMessage(wanted, conditions));

/** Octets changed, put in, or cut off. */
const mutated = fc
  .tuple(updates, fc.array(fc.tuple(fc.nat(200), fc.nat(255)), { maxLength: 5 }), fc.option(fc.nat(200)))
  .map(([seed, changes, cut]) => {
    const octets = seed.slice(0, cut ?? seed.length);
    for (const [offset, value] of changes) if (offset < octets.length) octets[offset] = value;
    return octets;
  });

describe("updates", () => {
  it("one after the other leave a zone that may be so", () => {
    fc.assert(
      fc.property(fc.array(updates, { maxLength: 8 }), (sequence) => {
        let records: readonly StoredRecord[] = [{ ...recordOf("@", "NS", "a"), id: 0 }];
        let nextId = 1;
        for (const message of sequence) {
          const effect = applyUpdate(zone, records, accepted(readUpdateRequest(message)));
          if (!effect.ok) {
            expect([RCODE.YXDOMAIN, RCODE.NXDOMAIN, RCODE.YXRRSET, RCODE.NXRRSET]).toContain(effect.error);
            continue;
          }
          const { rows, changeCount, touched } = accepted(editRecords(zone, records, effect.value.edits));
          expect(changesNothing(effect.value)).toBe(changeCount === 0 && !effect.value.soa);
          accepted(checkTouchedNames(zone.apex, touched));
          const gone = new Set([...rows.deletedIds, ...rows.updated.map(({ id }) => id)]);
          const created = rows.created.map((record) => ({ ...record, id: nextId++ }));
          records = [...records.filter(({ id }) => !gone.has(id)), ...rows.updated, ...created];
          expect(records.some(({ owner, type }) => type === TYPE.NS && owner.key === zone.apex.key)).toBe(true);
        }
      }),
      { numRuns: 500 },
    );
  });

  it("that are made twice change nothing the second time", () => {
    fc.assert(
      fc.property(fc.array(steps, { maxLength: 1 }), (wanted) => {
        const request = accepted(readUpdateRequest(updateMessage(wanted)));
        const records = [{ ...recordOf("@", "NS", "a"), id: 0 }];
        const first = accepted(applyUpdate(zone, records, request));
        const { rows } = accepted(editRecords(zone, records, first.edits));
        const after = [
          ...records.filter(({ id }) => !rows.deletedIds.includes(id) && !rows.updated.some((one) => one.id === id)),
          ...rows.updated,
          ...rows.created.map((record, index) => ({ ...record, id: 100 + index })),
        ];
        const soa = first.soa?.rdata ?? zone.soa;
        expect(changesNothing(accepted(applyUpdate({ ...zone, soa }, after, request)))).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  it("of hostile octets are only ever refused, and name nothing outside the zone", () => {
    fc.assert(
      fc.property(fc.oneof(mutated, fc.uint8Array({ maxLength: 120 })), (octets) => {
        const read = readUpdateRequest(octets);
        if (!read.ok) {
          expect([RCODE.FORMERR, RCODE.NOTAUTH, RCODE.NOTZONE, RCODE.REFUSED]).toContain(read.error);
          return;
        }
        const { apex } = read.value;
        expect(namesOf(read.value).every((name) => name.key.endsWith(apex.key))).toBe(true);
        applyUpdate({ ...zone, apex }, [], read.value);
      }),
      { numRuns: 3000 },
    );
  });
});
