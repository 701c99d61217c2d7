import { describe, expect, test } from "vitest";
import { evaluate, type FollowView, type TargetAnswer } from "../../../../../services/core/dns/follow/evaluate.ts";
import { poolDefinition, readPool } from "../../../../../services/core/dns/follow/follower.ts";
import { formatFollowers, readFollowers } from "../../../../../services/core/dns/follow/zone-file-comments.ts";
import { nameOf } from "../../../../support/dns-server.ts";

const APEX = nameOf("example.org");
const OWNER = nameOf("www.example.org");

function pool(fields: object) {
  const definition = readPool(poolDefinition.parse(fields), OWNER, APEX);
  if (!definition.ok) throw new Error(JSON.stringify(definition.error));
  return { owner: OWNER, kind: "pool" as const, definition: definition.value, id: 7 };
}

const view = (
  down: readonly string[] = [],
  answers: Record<string, TargetAnswer> = {},
  back: readonly string[] = [],
): FollowView => ({
  target: (key) => answers[key],
  isUp: (_member, address) => !down.includes(address),
  leadsBack: ({ key }) => back.includes(key),
});
const three = (...fields: object[]) =>
  [1, 2, 3].map((last, index) => ({ value: `198.51.100.${last}`, ...fields[index] }));
const ipv4 = (found: ReturnType<typeof evaluate>) =>
  found === "loop" ? found : found?.ipv4.map((one) => one.slice(-1)).join("");

describe("a pool", () => {
  test.each([
    [{ members: three() }, [], "123"],
    [{ members: three() }, ["198.51.100.2"], "13"],
    [{ members: three({ drain: true }) }, ["198.51.100.2"], "3"],
    [{ members: three(), minimum: 2 }, ["198.51.100.2", "198.51.100.1"], "123"],
    [{ members: three({ drain: true }), minimum: 3 }, [], "23"],
    [{ members: three(), minimum: 0 }, ["198.51.100.1", "198.51.100.2", "198.51.100.3"], ""],
    [{ rule: "priority", members: three({ priority: 2 }, { priority: 1 }, { priority: 1 }) }, [], "23"],
    [{ rule: "priority", members: three({ priority: 2 }, { priority: 1 }, { priority: 1 }) }, ["198.51.100.2"], "3"],
    [
      { rule: "priority", members: three({ priority: 2 }, { priority: 1 }, { priority: 1 }) },
      ["198.51.100.2", "198.51.100.3"],
      "1",
    ],
  ])("%j with %j down gives %s", (fields, down, wanted) => {
    expect(ipv4(evaluate(pool(fields), view(down), 0))).toBe(wanted);
  });

  test("by weight gives each member a time after its weight, and says when the next turn begins", () => {
    const weighted = pool({
      rule: "weighted",
      rotate: 60,
      members: three({ weight: 1 }, { weight: 2 }, { weight: 5 }),
    });
    const turns = new Map<string, number>();
    for (let turn = 0; turn < 8_000; turn += 1) {
      const found = evaluate(weighted, view(), turn * 60_000);
      if (!found || found === "loop") throw new Error("nothing");
      expect(found.changesAtMs).toBe((turn + 1) * 60_000);
      turns.set(found.ipv4.join(), (turns.get(found.ipv4.join()) ?? 0) + 1);
    }
    expect(turns.get("198.51.100.1")! / 1_000).toBeCloseTo(1, 0);
    expect(turns.get("198.51.100.2")! / 1_000).toBeCloseTo(2, 0);
    expect(turns.get("198.51.100.3")! / 1_000).toBeCloseTo(5, 0);
  });

  test("waits while nothing is known of its members, and follows no name that leads back to it", () => {
    const named = pool({ members: [{ value: "lb.example.net." }] });
    expect(evaluate(named, view(), 0)).toBeUndefined();
    const { key } = nameOf("lb.example.net");
    const answer = { ipv4: ["198.51.100.1"], ipv6: [], ttl: 60, chain: ["lb.example.net.", "www.example.org."] };
    expect(evaluate(named, view([], { [key]: answer }), 0)).toBe("loop");
    expect(ipv4(evaluate(named, view([], { [key]: { ...answer, chain: ["lb.example.net."] } }), 0))).toBe("1");
  });

  test("leaves out a member that leads back to it by other followers, and has nothing where all do", () => {
    const { key } = nameOf("lb.example.net");
    const answers = { [key]: { ipv4: ["198.51.100.1"], ipv6: [], ttl: 60, chain: ["lb.example.net."] } };
    const both = pool({ members: [{ value: "lb.example.net." }, { value: "198.51.100.2" }] });
    expect(ipv4(evaluate(both, view([], answers), 0))).toBe("12");
    expect(ipv4(evaluate(both, view([], answers, [key]), 0))).toBe("2");
    expect(evaluate(pool({ members: [{ value: "lb.example.net." }] }), view([], answers, [key]), 0)).toBe("loop");
  });
});

describe("comments of a master file", () => {
  test("say again what they said", () => {
    const followers = [
      { owner: APEX, kind: "alias" as const, definition: { target: "lb.example.net." } },
      (({ id: _id, ...follower }) => follower)(pool({ members: three(), check: { type: "https", path: "/up;now" } })),
    ];
    const text = formatFollowers(followers);
    const read = readFollowers(`$TTL 60\n${text}www A 192.0.2.1 ; a remark\n`, APEX);
    expect(read.ok && read.value.map(({ follower, line }) => [follower.owner.key, follower.definition, line])).toEqual(
      followers.map(({ owner, definition }, index) => [owner.key, definition, index + 2]),
    );
  });

  test.each([
    [';palomar alias www.example.net. {"target":"a."}', "outside-zone"],
    [';palomar alias www.example.org. {"target":"www.example.org."}', "invalid-field"],
    [';palomar pool www.example.org. {"members":[]}', "follower-comment"],
    [";palomar pool www.example.org. members", "follower-comment"],
    [';palomar alias a.example.org. {"target":"b."}\n;palomar alias A.example.org. {"target":"c."}', "follower-exists"],
  ])("%s is refused", (text, code) => {
    const read = readFollowers(`\n${text}\n`, APEX);
    expect(read.ok ? "taken" : read.error.reason.code).toBe(code);
  });

  test("are refused in a reverse zone", () => {
    const read = readFollowers(';palomar alias 1 {"target":"a."}\n', nameOf("2.0.192.in-addr.arpa"));
    expect(read).toMatchObject({ ok: false, error: { line: 1, reason: { code: "reverse-types" } } });
  });
});
