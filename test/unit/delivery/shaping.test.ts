import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { compileDomainGroups } from "../../../services/core/mail/address-group.ts";
import { configuredPerHour, readDeliveryPolicy } from "../../../services/delivery/policy.ts";
import { type LearntPace, TrafficShaping } from "../../../services/delivery/shaping.ts";

const read = (name: string) => JSON.parse(readFileSync(`config/${name}`, "utf8"));
const groups = compileDomainGroups([
  { id: 1, name: "big", domains: ["one.example.org", "two.example.org"], mxDomains: ["mail.big.example"] },
]);
if (!groups.ok) throw new Error(groups.error);

const REFUSED = {
  kind: "failed",
  failure: { kind: "reply", stage: "rcpt", reply: { code: 421, enhancedStatus: "4.7.28", lines: ["wait 24 hours"] } },
} as const;

function makeShaping(
  big: { connections: number; messagesPerMinute: number | null },
  othersPerMinute: number | null = null,
  pace?: Partial<LearntPace>,
) {
  const policy = readDeliveryPolicy({
    ...read("delivery.json"),
    groups: {
      default: { connections: 2, messagesPerConnection: 10, messagesPerMinute: othersPerMinute },
      big: { messagesPerConnection: 5, ...big },
    },
  });
  if (!policy.ok || !groups.ok) throw new Error("unreadable");
  const clock = { ms: 0, nowMs: () => clock.ms };
  return { clock, shaping: new TrafficShaping(policy.value, groups.value, clock, pace as LearntPace) };
}

test("the policy of config/ is lawful, and its groups are known", () => {
  const policy = readDeliveryPolicy(read("delivery.json"));
  expect(policy.ok).toBe(true);
  const known = new Set(["default", ...read("domain-groups.json").map(({ name }: { name: string }) => name)]);
  expect(Object.keys(read("delivery.json").groups).filter((name) => !known.has(name))).toEqual([]);
});

test("a policy without default, or with a misspelt member, is refused", () => {
  const { groups, ...rest } = read("delivery.json");
  expect(readDeliveryPolicy({ ...rest, groups: { gmail: groups.gmail } }).ok).toBe(false);
  expect(readDeliveryPolicy({ ...rest, groups, lane: 1 }).ok).toBe(false);
});

test("a domain that is named as what every object has is in no group", () => {
  const groups = { default: { connections: 2, messagesPerConnection: 10, messagesPerMinute: 2 } };
  expect(configuredPerHour({ groups }, "constructor")).toBe(120);
});

test("each other domain has limits of its own, a provider's domains share theirs", () => {
  const { shaping } = makeShaping({ connections: 2, messagesPerMinute: null });
  for (const domain of ["a.example.net", "a.example.net", "b.example.net", "one.example.org", "two.example.org"]) {
    shaping.begin(domain);
  }
  expect(shaping.freeSlots()).toEqual(
    new Map([
      ["a.example.net", 0],
      ["b.example.net", 1],
      ["one.example.org", 0],
      ["two.example.org", 0],
    ]),
  );
  shaping.end("two.example.org");
  expect(shaping.freeSlots().get("one.example.org")).toBe(1);
  expect(shaping.policyOf("two.example.org").messagesPerConnection).toBe(5);
});

test("messages a minute are shared by the group and come back with time", () => {
  const { shaping, clock } = makeShaping({ connections: 5, messagesPerMinute: 3 });
  const take = takerOf(shaping);
  expect([take("one.example.org"), take("two.example.org"), take("one.example.org")]).toEqual([true, true, true]);
  expect(take("two.example.org")).toBe(false);
  expect(shaping.freeSlots().get("two.example.org")).toBe(0);
  clock.ms = 20_000;
  expect([take("two.example.org"), take("two.example.org")]).toEqual([true, false]);
  clock.ms = -3_600_000; // set back
  expect(take("one.example.org")).toBe(false);
  clock.ms += 20_000;
  expect(take("one.example.org")).toBe(true);
  expect(take("other.example.net")).toBe(true);
});

test("a domain that a provider hosts, by its exchangers, shares the provider's limits", () => {
  const { shaping } = makeShaping({ connections: 2, messagesPerMinute: null });
  shaping.begin("one.example.org");
  shaping.begin("hosted.example.net");
  expect(shaping.policyOf("hosted.example.net").messagesPerConnection).toBe(10);
  shaping.learn("hosted.example.net", ["MX1.Mail.Big.Example."]);
  expect(shaping.hasTooManySessions("hosted.example.net")).toBe(false);
  expect(shaping.policyOf("hosted.example.net").messagesPerConnection).toBe(5);
  shaping.begin("more.example.net");
  shaping.learn("more.example.net", ["mx2.mail.big.example"]);
  expect(shaping.hasTooManySessions("more.example.net")).toBe(true);
  shaping.end("more.example.net");
  expect(shaping.freeSlots()).toEqual(
    new Map([
      ["one.example.org", 0],
      ["hosted.example.net", 0],
      ["more.example.net", 0],
    ]),
  );
  shaping.end("one.example.org");
  expect(shaping.freeSlots().get("more.example.net")).toBe(1);
});

test("a domain that moves away from its provider has limits of its own again", () => {
  const { shaping } = makeShaping({ connections: 1, messagesPerMinute: null });
  shaping.begin("moving.example.net");
  shaping.learn("moving.example.net", ["mx.mail.big.example"]);
  expect(shaping.freeSlots().get("moving.example.net")).toBe(0);
  shaping.learn("moving.example.net", ["mx.elsewhere.example"]);
  expect(shaping.freeSlots().get("moving.example.net")).toBe(1);
});

test("a domain that has an exchanger of its own beside its provider's stands for itself", () => {
  const { shaping } = makeShaping({ connections: 1, messagesPerMinute: null });
  shaping.begin("one.example.org");
  shaping.begin("half.example.net");
  for (const exchangers of [
    ["mx.half.example.net", "mx.mail.big.example"],
    ["mx.mail.big.example", "mx.half.example.net"],
    [],
  ]) {
    shaping.learn("half.example.net", exchangers);
    expect(shaping.policyOf("half.example.net").messagesPerConnection).toBe(10);
    expect(shaping.freeSlots().get("half.example.net")).toBe(1);
  }
});

test("no word, no session and no complaint of a stranger goes for a provider", () => {
  const said: string[] = [];
  const say = (what: string, provider: string) => void said.push(`${what} ${provider}`);
  const { shaping } = makeShaping({ connections: 1, messagesPerMinute: null }, null, {
    isAnyWarming: true,
    isWarming: () => true,
    note: ({ provider }) => say("reply", provider) ?? true,
    opened: (_source, provider) => say("opened", provider),
    closed: (_source, provider) => say("closed", provider),
  });
  const turn = (domain: string, exchanger: string) => {
    shaping.note(domain, "system", REFUSED, { messages: 1, durationMs: 1, exchanger });
    say("complaint", shaping.plannedFrom(domain, "system", exchanger)!.provider);
    return said.splice(0);
  };
  shaping.learn("hosted.example.net", ["mx1.mail.big.example", "mx2.mail.big.example"]);
  expect(turn("hosted.example.net", "mx2.mail.big.example")).toEqual(["reply big", "complaint big"]);
  expect(turn("one.example.org", "elsewhere.example")).toEqual(["reply big", "complaint big"]);
  // A session of before, with who had its name in the domain's records until a moment ago.
  const own = ["reply hosted.example.net", "complaint hosted.example.net"];
  expect(turn("hosted.example.net", "mx.stranger.example")).toEqual(own);
  const closeShared = shaping.opened("hosted.example.net", "system");
  shaping.learn("hosted.example.net", ["mx1.mail.big.example", "mx.stranger.example"]);
  expect(turn("hosted.example.net", "mx1.mail.big.example")).toEqual(["opened big", ...own]);
  const closeOwn = shaping.opened("hosted.example.net", "system");
  shaping.learn("hosted.example.net", ["mx1.mail.big.example"]);
  closeShared();
  closeOwn();
  expect(said).toEqual(["opened hosted.example.net", "closed big", "closed hosted.example.net"]);
});

test("names that a provider's customers have are no exchangers of the provider", () => {
  const shipped = compileDomainGroups(read("domain-groups.json"));
  if (!shipped.ok) throw new Error(shipped.error);
  const names = [
    "c-192-0-2-1.hsd1.ca.comcast.net",
    "lns-1.abo.wanadoo.fr",
    "1-2-0-192.fibertel.com.ar",
    "shop.uol.com.br",
  ];
  expect(names.map((name) => shipped.value.ofMxHost(name))).toEqual([0, 0, 0, 0]);
  expect(shipped.value.ofMxHost("smtp-in.orange.fr")).toBe(shipped.value.ofDomain("orange.fr"));
});

test("a rate that is whole again is forgotten, however many domains there were", () => {
  const { shaping, clock } = makeShaping({ connections: 5, messagesPerMinute: 3 }, 2);
  const take = takerOf(shaping);
  for (let i = 0; i < 1_000; i += 1) take(`d${i}.example.net`);
  expect(shaping.freeSlots().size).toBe(1_000);
  clock.ms = 60_000;
  expect(shaping.freeSlots().size).toBe(0);
  clock.ms = 120_000;
  expect(["one", "two"].map((name) => take(`${name}.example.net`))).toEqual([true, true]);
});

/** Sends one message to a domain, without leave from elsewhere. */
function takerOf(shaping: TrafficShaping): (domain: string) => boolean {
  return (domain) => shaping.useLeave(domain, "system", { source: undefined, provider: "" });
}
