import { describe, expect, it } from "vitest";
import type { MessageRecord } from "../../../../../services/core/dns/message.ts";
import { CLASS, RCODE, TYPE } from "../../../../../services/core/dns/rr-types.ts";
import { readUpdateRequest } from "../../../../../services/core/dns/update/update-request.ts";
import { nameOf } from "../support.ts";
import { bare, updateMessage, withData } from "./support.ts";

const A = withData("www", "A", "192.0.2.1", 300);
const { FORMERR, NOTAUTH, NOTZONE, REFUSED } = RCODE;

function rcodeOf(octets: Uint8Array): number {
  const read = readUpdateRequest(octets);
  return read.ok ? RCODE.NOERROR : read.error;
}

describe("the zone section", () => {
  const name = nameOf("example.org.");
  it.each([
    ["is empty", [], FORMERR],
    ["has two zones", [zone(TYPE.SOA), zone(TYPE.SOA)], FORMERR],
    ["is of another type", [zone(TYPE.A)], FORMERR],
    ["is of a class that nobody serves", [{ name, type: TYPE.SOA as number, class: CLASS.CH as number }], NOTAUTH],
    ["is one zone", [zone(TYPE.SOA)], RCODE.NOERROR],
  ])("%s", (_, questions, rcode) => {
    expect(rcodeOf(updateMessage([A], [], questions))).toBe(rcode);
  });

  function zone(type: number) {
    return { name, type, class: CLASS.IN as number };
  }
});

describe("prerequisites", () => {
  it.each<[string, MessageRecord, number]>([
    ["with a TTL", { ...bare("www", "A", CLASS.ANY), ttl: 1 }, FORMERR],
    ["outside the zone", bare("www.example.com.", "A", CLASS.ANY), NOTZONE],
    ["of class ANY with data", withData("www", "A", "192.0.2.1", 0, CLASS.ANY), FORMERR],
    ["of class NONE with data", withData("www", "A", "192.0.2.1", 0, CLASS.NONE), FORMERR],
    ["of class CH", { ...bare("www", "A", CLASS.CH) }, FORMERR],
    ["of a meta type", bare("www", "AXFR", CLASS.ANY), RCODE.NOERROR],
    ["of class IN without data", bare("www", "A", CLASS.IN), FORMERR],
    ["name in use", bare("www", "ANY", CLASS.ANY), RCODE.NOERROR],
    ["name not in use", bare("www", "ANY", CLASS.NONE), RCODE.NOERROR],
    ["RRset with data", withData("www", "A", "192.0.2.1"), RCODE.NOERROR],
  ])("%s", (_, prerequisite, rcode) => {
    expect(rcodeOf(updateMessage([A], [prerequisite]))).toBe(rcode);
  });

  it("on one RRset's data are one", () => {
    const read = readUpdateRequest(
      updateMessage([], [withData("www", "A", "192.0.2.1"), withData("WWW", "A", "192.0.2.2")]),
    );
    expect(read.ok && read.value.prerequisites).toMatchObject([
      { kind: "rrset-equals", type: TYPE.A, records: [{}, {}] },
    ]);
  });
});

describe("the update section", () => {
  it.each<[string, MessageRecord, number]>([
    ["a record outside the zone", withData("www.example.com.", "A", "192.0.2.1"), NOTZONE],
    ["an addition without data", bare("www", "A", CLASS.IN), FORMERR],
    ["an addition of a meta type", bare("www", "ANY", CLASS.IN), FORMERR],
    ["a deleted RRset with a TTL", { ...bare("www", "A", CLASS.ANY), ttl: 5 }, FORMERR],
    ["a deleted RRset with data", withData("www", "A", "192.0.2.1", 0, CLASS.ANY), FORMERR],
    ["a deleted RRset of a meta type", bare("www", "MAILB", CLASS.ANY), FORMERR],
    ["a deleted record with a TTL", withData("www", "A", "192.0.2.1", 5, CLASS.NONE), FORMERR],
    ["a deleted record of a meta type", bare("www", "ANY", CLASS.NONE), FORMERR],
    ["a deleted record without data", bare("www", "A", CLASS.NONE), FORMERR],
    ["a record of class CH", { ...A, class: CLASS.CH }, FORMERR],
    ["data that is none of its type", { ...A, rdata: Uint8Array.of(1, 2, 3) }, FORMERR],
    ["a denial record", bare("www", "NSEC", CLASS.ANY), REFUSED],
    ["an addition", A, RCODE.NOERROR],
    ["a deleted record", withData("www", "A", "192.0.2.1", 0, CLASS.NONE), RCODE.NOERROR],
    ["a deleted name", bare("www", "ANY", CLASS.ANY), RCODE.NOERROR],
    ["a type that nobody knows", { ...A, type: 65_280, rdata: Uint8Array.of(1) }, RCODE.NOERROR],
  ])("%s", (_, update, rcode) => {
    expect(rcodeOf(updateMessage([update]))).toBe(rcode);
  });

  it("takes a TTL with the highest bit set for 0", () => {
    const read = readUpdateRequest(updateMessage([{ ...A, ttl: 2 ** 31 }]));
    expect(read.ok && read.value.steps).toMatchObject([{ kind: "add", record: { ttl: 0 } }]);
  });
});

it("is no query", () => {
  const octets = updateMessage([A]);
  octets[2] = 0;
  expect(rcodeOf(octets)).toBe(FORMERR);
});
