import { describe, expect, it } from "vitest";
import { describeChange, type HistoryEntry, sameAsNow } from "../../../../services/console/web/src/dns/zone/history.ts";
import { en } from "../../../../services/console/web/src/texts/en/index.ts";

const entry = (serial: number, change: Partial<HistoryEntry> = {}): HistoryEntry => ({
  ...{ serial, timestamp: "2026-01-01T00:00:00Z", actor: "ana", deleted: [], added: [] },
  ...change,
});
const record = (name: string, value = "192.0.2.1") => ({ name, type: "A", ttl: 60, rr_prio: null, value });
const soa = (serial: number, minimum = 300) => {
  const value = `ns1.example.org. h.example.org. ${serial} 7200 900 1209600 ${minimum}`;
  return { name: "@", type: "SOA", ttl: 60, rr_prio: null, value };
};
const alias = (target: string) => ({ name: "www", kind: "alias" as const, target });

describe("what a change did", () => {
  const said = (change: Partial<HistoryEntry>) => describeChange(entry(2, change), en.dns.history);

  it("is named where no record came or went", () => {
    expect(said({ signing: "begun" })).toEqual(["the zone was signed"]);
    expect(said({ signing: "renewed" })).toEqual(["keys or signatures renewed"]);
    expect(said({ followers: { deleted: [], added: [alias("a.test.")] } })).toEqual(["alias www added"]);
    expect(said({ followers: { deleted: [alias("a.test.")], added: [alias("b.test.")] } })).toEqual([
      "alias www changed",
    ]);
    expect(said({ followers: { deleted: [alias("a.test.")], added: [] } })).toEqual(["alias www deleted"]);
    expect(said({})).toEqual(["the serial alone"]);
  });

  it("is the records where there are any", () => {
    expect(said({ added: [record("www")] })).toEqual([]);
    expect(said({ added: [record("www")], signing: "renewed" })).toEqual([]);
    expect(said({ added: [record("www")], signing: "ended" })).toEqual(["signing ended"]);
  });
});

describe("the way back", () => {
  const same = (...newestFirst: HistoryEntry[]) => [...sameAsNow(newestFirst)];

  it("leads nowhere while nothing else than signatures changed since", () => {
    expect(same(entry(4, { signing: "renewed" }), entry(3, { added: [record("a")] }), entry(2))).toEqual([4, 3]);
  });

  it("leads nowhere where what came has gone", () => {
    const coming = { added: [record("a")], followers: { deleted: [], added: [alias("a.test.")] } };
    const going = { deleted: [record("a")], followers: { deleted: [alias("a.test.")], added: [] } };
    expect(same(entry(4, going), entry(3, coming), entry(2))).toEqual([4, 2]);
  });

  it("does not go by the SOA's serial", () => {
    const there = { deleted: [soa(2, 300)], added: [soa(3, 60)] };
    const back = { deleted: [soa(3, 60)], added: [soa(4, 300)] };
    expect(same(entry(4, back), entry(3, there), entry(2))).toEqual([4, 2]);
    expect(same(entry(3, there), entry(2))).toEqual([3]);
  });
});
