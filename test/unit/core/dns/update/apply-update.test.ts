import { describe, expect, it } from "vitest";
import type { MessageRecord } from "../../../../../services/core/dns/message.ts";
import { nameFromStoredWire } from "../../../../../services/core/dns/name.ts";
import { formatRdata } from "../../../../../services/core/dns/rdata/rdata.ts";
import { CLASS, RCODE, typeMnemonic } from "../../../../../services/core/dns/rr-types.ts";
import { decodeSoaRdata } from "../../../../../services/core/dns/soa.ts";
import { applyUpdate, changesNothing } from "../../../../../services/core/dns/update/apply-update.ts";
import { readUpdateRequest, type UpdateStep } from "../../../../../services/core/dns/update/update-request.ts";
import { editRecords } from "../../../../../services/core/dns/zone-edit.ts";
import { processorMs } from "../../../../support/processor-time.ts";
import { accepted, nameOf, recordOf } from "../support.ts";
import { bare, updateMessage, withData } from "./support.ts";

const { ANY, NONE } = CLASS;
const SOA = "ns1 hostmaster 10 7200 3600 1209600 300";
const zone = {
  apex: nameOf("example.org."),
  ttl: 3600,
  soa: decodeSoaRdata(recordOf("@", "SOA", SOA).rdata),
};
const records = [
  recordOf("@", "NS", "ns1"),
  recordOf("@", "MX", "10 mail"),
  recordOf("www", "A", "192.0.2.1", 300),
  recordOf("www", "A", "192.0.2.2", 300),
  recordOf("www", "TXT", "text"),
  recordOf("alias", "CNAME", "www"),
].map((record, index) => ({ ...record, id: index + 1 }));

/** As many as an UPDATE over TCP has room for. */
const many = Array.from({ length: 4_000 }, (_, index) => ({
  ...recordOf("many", "A", `198.51.${100 + (index >> 8)}.${index & 255}`, 300),
  id: index + 1,
}));

describe("prerequisites", () => {
  it.each<[string, MessageRecord, number]>([
    ["a name that is in use", bare("www", "ANY", ANY), RCODE.NOERROR],
    ["a name that is not", bare("none", "ANY", ANY), RCODE.NXDOMAIN],
    ["a name that should not be", bare("www", "ANY", NONE), RCODE.YXDOMAIN],
    ["a name that should not be and is not", bare("none", "ANY", NONE), RCODE.NOERROR],
    ["an RRset that is there", bare("WWW", "A", ANY), RCODE.NOERROR],
    ["an RRset that is not", bare("www", "AAAA", ANY), RCODE.NXRRSET],
    ["an RRset that should not be", bare("www", "A", NONE), RCODE.YXRRSET],
    ["an RRset that should not be and is not", bare("www", "AAAA", NONE), RCODE.NOERROR],
    ["the SOA", bare("@", "SOA", ANY), RCODE.NOERROR],
    ["a part of an RRset", withData("www", "A", "192.0.2.1"), RCODE.NXRRSET],
    ["the alias", withData("ALIAS", "CNAME", "WWW"), RCODE.NOERROR],
  ])("%s", (_, prerequisite, rcode) => {
    expect(applied([], [prerequisite]).rcode).toBe(rcode);
  });

  it("compare whole RRsets, in any order", () => {
    const both = [withData("www", "A", "192.0.2.2"), withData("www", "A", "192.0.2.1")];
    expect(applied([], both).rcode).toBe(RCODE.NOERROR);
    expect(applied([], [...both, withData("www", "A", "192.0.2.3")]).rcode).toBe(RCODE.NXRRSET);
  });
});

describe("steps", () => {
  it.each<[string, MessageRecord[], string[]]>([
    ["add", [withData("new", "A", "192.0.2.9", 60)], ["+ new A 192.0.2.9 60"]],
    ["leave a record that is there", [withData("www", "A", "192.0.2.1", 300)], []],
    [
      "give the RRset the TTL of what is added",
      [withData("www", "A", "192.0.2.1", 60)],
      ["- www A 192.0.2.1 300", "- www A 192.0.2.2 300", "+ www A 192.0.2.1 60", "+ www A 192.0.2.2 60"],
    ],
    ["add no CNAME beside data", [withData("www", "CNAME", "alias", 60)], []],
    ["add no CNAME to the apex", [withData("@", "CNAME", "alias", 60)], []],
    [
      "add no DNAME beside NS",
      ["NS", "DNAME"].map((type) => withData("cut", type, "other", 60)),
      ["+ cut NS other.example.org. 60"],
    ],
    [
      "add no NS beside a DNAME",
      ["DNAME", "NS"].map((type) => withData("cut", type, "other", 60)),
      ["+ cut DNAME other.example.org. 60"],
    ],
    ["add a DNAME to the apex", [withData("@", "DNAME", "other", 60)], ["+ @ DNAME other.example.org. 60"]],
    ["add no data beside a CNAME", [withData("alias", "A", "192.0.2.9", 60)], []],
    [
      "replace a CNAME",
      [withData("alias", "CNAME", "other", 3600)],
      ["- alias CNAME www.example.org. 3600", "+ alias CNAME other.example.org. 3600"],
    ],
    ["delete an RRset", [bare("www", "A", ANY)], ["- www A 192.0.2.1 300", "- www A 192.0.2.2 300"]],
    [
      "delete a name",
      [bare("www", "ANY", ANY)],
      ["- www A 192.0.2.1 300", "- www A 192.0.2.2 300", '- www TXT "text" 3600'],
    ],
    ["delete a record", [withData("www", "A", "192.0.2.2", 0, NONE)], ["- www A 192.0.2.2 300"]],
    ["leave what is not there", [withData("www", "A", "192.0.2.77", 0, NONE)], []],
    ["delete all of the apex but SOA and NS", [bare("@", "ANY", ANY)], ["- @ MX 10 mail.example.org. 3600"]],
    ["keep the NS RRset of the apex", [bare("@", "NS", ANY)], []],
    ["keep the last NS of the apex", [withData("@", "NS", "ns1", 0, NONE)], []],
    [
      "delete one NS of two",
      [withData("@", "NS", "ns2", 3600), withData("@", "NS", "ns1", 0, NONE)],
      ["- @ NS ns1.example.org. 3600", "+ @ NS ns2.example.org. 3600"],
    ],
    ["leave what is deleted and added again", [bare("alias", "ANY", ANY), withData("alias", "CNAME", "www", 3600)], []],
    ["leave what is added and deleted again", [withData("x", "A", "192.0.2.1", 1), bare("x", "ANY", ANY)], []],
    [
      "turn a CNAME into data",
      [bare("alias", "CNAME", ANY), withData("alias", "A", "192.0.2.9", 60)],
      ["- alias CNAME www.example.org. 3600", "+ alias A 192.0.2.9 60"],
    ],
  ])("%s", (_, updates, difference) => {
    expect(applied(updates).difference).toEqual(difference);
  });

  it.each<[string, (index: number) => UpdateStep]>([
    [
      "as many additions",
      (index) => ({ kind: "add", record: { ...many[index]!, rdata: Uint8Array.of(10, 0, index >> 8, index) } }),
    ],
    ["as many additions of TTLs", (index) => ({ kind: "add", record: { ...many[index]!, ttl: index } })],
    ["as many deletions", (index) => ({ kind: "delete-record", record: many[index]! })],
    [
      "as many deletions of the name",
      (index) => ({ kind: index % 2 ? "delete-name" : "delete-rrset", ...many[index]! }),
    ],
  ])("of %s as a name has records take little time", (_, stepOf) => {
    const steps = many.map((__, index) => stepOf(index));
    const start = processorMs();
    expect(applyUpdate(zone, many, { apex: zone.apex, prerequisites: [], steps }).ok).toBe(true);
    expect(processorMs() - start).toBeLessThan(1_500);
  });

  it("set the SOA when its serial is ahead", () => {
    const soaOf = (serial: number) => withData("@", "SOA", SOA.replace(" 10 ", ` ${serial} `), 60);
    expect(applied([soaOf(12)]).soa).toMatchObject({ rdata: { serial: 12 }, ttl: 60 });
    expect(applied([soaOf(10)]).soa).toBeUndefined();
    expect(applied([soaOf(9)]).soa).toBeUndefined();
    expect(applied([{ ...soaOf(12), owner: nameOf("www.example.org.") }]).soa).toBeUndefined();
  });
});

function applied(updates: readonly MessageRecord[], prerequisites: readonly MessageRecord[] = []) {
  const request = accepted(readUpdateRequest(updateMessage(updates, prerequisites)));
  const effect = applyUpdate(zone, records, request);
  if (!effect.ok) return { rcode: effect.error };
  const { difference } = accepted(editRecords(zone, records, effect.value.edits));
  expect(changesNothing(effect.value)).toBe(
    !effect.value.soa && difference.deleted.length + difference.added.length === 0,
  );
  const lineOf = (sign: string) => (record: (typeof difference.added)[number]) => {
    const { owner, type, rdata, ttl } = record;
    const name = Buffer.from(nameFromStoredWire(owner.wire).key, "latin1")
      .subarray(1, 1 + owner.wire[0]!)
      .toString();
    const relative = owner.key === zone.apex.key ? "@" : name;
    return `${sign} ${relative} ${typeMnemonic(type)} ${formatRdata(type, rdata)} ${ttl}`;
  };
  return {
    rcode: RCODE.NOERROR,
    soa: effect.value.soa,
    difference: [...difference.deleted.map(lineOf("-")), ...difference.added.map(lineOf("+"))],
  };
}
