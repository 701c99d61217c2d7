import { describe, expect, it } from "vitest";
import { knownAddressBlock } from "../../../services/core/dns/address-block.ts";
import { Client } from "../../../services/dns-server/message/client.ts";
import type { Pipeline } from "../../../services/dns-server/pipeline.ts";
import { createRateLimitTable } from "../../../services/dns-server/rate-limit.ts";
import { ask, respond } from "./ask.ts";
import { pipelineOn, zoneDatabaseOf } from "./test-zone-database.ts";

const zoneDatabase = zoneDatabaseOf({
  origin: "example.org.",
  text: "$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\nns A 192.0.2.53\nwww A 192.0.2.1\n*.wild A 192.0.2.2\ncut NS ns\n",
});

function limited(allow: readonly string[] = [], limitLoopback = false): Pipeline {
  return pipelineOn(zoneDatabase, {
    rateLimit: { answersPerSecond: 10, allow, limitLoopback, seed: 7, table: createRateLimitTable() },
  });
}

/** How many of these queries are answered, truncated and dropped. */
function outcome(
  pipeline: Pipeline,
  count: number,
  query: (index: number) => { name: string; type?: string; client: string; second?: number },
) {
  const counts = { answered: 0, truncated: 0, dropped: 0 };
  for (let index = 0; index < count; index += 1) {
    const { name, type = "A", client, second = 0 } = query(index);
    const answer = ask(pipeline, name, type, { client, nowSeconds: 1_700_000_000 + second });
    if (!answer) counts.dropped += 1;
    else if (answer.tc) counts.truncated += 1;
    else counts.answered += 1;
  }
  return counts;
}

describe("response rate limiting", () => {
  it("lets equal answers to a network through up to the limit, then truncates every second and drops the rest", () => {
    const counts = outcome(limited(), 50, (index) => ({ name: "www.example.org", client: `192.0.2.${index}` }));
    expect(counts).toEqual({ answered: 10, truncated: 20, dropped: 20 });
  });

  it("counts anew each second", () => {
    const query = (index: number) => ({ name: "www.example.org", client: "192.0.2.1", second: Math.floor(index / 10) });
    expect(outcome(limited(), 100, query).answered).toBe(100);
  });

  it("limits answers after 2038 as well, when the seconds have 32 bits", () => {
    const query = () => ({ name: "www.example.org", client: "192.0.2.1", second: 2 ** 31 - 1_700_000_000 });
    expect(outcome(limited(), 50, query).answered).toBe(10);
  });

  it("counts names that do not exist by zone, and a wildcard's names together", () => {
    const missing = outcome(limited(), 50, (index) => ({ name: `m${index}.example.org`, client: "192.0.2.1" }));
    const wild = outcome(limited(), 50, (index) => ({ name: `m${index}.wild.example.org`, client: "192.0.2.1" }));
    expect([missing.answered, wild.answered]).toEqual([10, 10]);
  });

  it("counts together all types that a name does not have, and those of a referral", () => {
    const client = "192.0.2.1";
    const missing = outcome(limited(), 50, (index) => ({
      name: "www.example.org",
      type: `TYPE${index + 300}`,
      client,
    }));
    const cut = outcome(limited(), 50, (index) => ({ name: "a.cut.example.org", type: `TYPE${index + 300}`, client }));
    expect([missing.answered, cut.answered]).toEqual([10, 10]);
  });

  it("leaves other networks alone", () => {
    const counts = outcome(limited(), 50, (index) => ({ name: "www.example.org", client: `198.51.${index}.1` }));
    expect(counts.answered).toBe(50);
    const v6 = outcome(limited(), 50, (index) => ({ name: "www.example.org", client: `2001:db8:0:${index}::1` }));
    expect(v6.answered).toBe(10);
  });

  it("exempts loopback unless told otherwise, the allow list, and valid cookies", () => {
    const from = (client: string) => () => ({ name: "www.example.org", client });
    expect(outcome(limited(), 50, from("127.0.0.1")).answered).toBe(50);
    expect(outcome(limited([], true), 50, from("127.0.0.1")).answered).toBe(10);
    expect(outcome(limited(["198.51.100.0/25"]), 50, from("198.51.100.77")).answered).toBe(50);
    expect(outcome(limited(["198.51.100.0/25"]), 50, from("198.51.100.177")).answered).toBe(10);
  });

  it("exempts clients with a valid cookie", () => {
    const pipeline = limited();
    const cookieQuery = (cookie: Uint8Array) =>
      Buffer.concat([
        Buffer.from("000100000001000000000001", "hex"),
        Buffer.from("\x03www\x07example\x03org\0\0\x01\0\x01", "latin1"),
        Buffer.from([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, cookie.length + 4, 0, 10, 0, cookie.length, ...cookie]),
      ]);
    const first = respond(pipeline, cookieQuery(new Uint8Array(8)))!;
    const cookie = first.slice(-24);
    for (let index = 0; index < 50; index += 1) expect(respond(pipeline, cookieQuery(cookie))).toBeDefined();
  });
});

describe("address blocks", () => {
  it.each([
    ["192.0.2.0/24", "192.0.2.255", true],
    ["192.0.2.0/24", "192.0.3.0", false],
    ["192.0.2.128/25", "192.0.2.127", false],
    ["192.0.2.1", "192.0.2.1", true],
    ["192.0.2.1", "192.0.2.2", false],
    ["0.0.0.0/0", "203.0.113.9", true],
    ["2001:db8::/33", "2001:db8:7fff::1", true],
    ["2001:db8::/33", "2001:db8:8000::1", false],
    ["2001:db8::/32", "192.0.2.1", false],
  ])("%s and %s: %s", (block, address, contained) => {
    const client = new Client();
    client.setAddress(address);
    expect(client.isIn(knownAddressBlock(block))).toBe(contained);
  });
});
