import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import {
  describeSeconds,
  findProblems,
  judgeSettings,
  judgeStatus,
  type KnownStatus,
  type StatusLimits,
} from "../../../services/cli/judge-status.ts";
import { loadConfig } from "../../../services/platform/config/config.ts";
import { packageFolder } from "../../../services/platform/package-folder.ts";

const limits: StatusLimits = JSON.parse(readFileSync(join(packageFolder, "config", "status.json"), "utf8"));
const services = ["dns-server", "delivery", "bounce", "tracking"].map((name) => ({ name, ready: true }));
const node = { node: "one", services, version: "1", lagMs: 400, seen: new Date(), silentSeconds: 4 };
const GOOD: KnownStatus = {
  zones: { published: 3, suspended: 1 },
  signing: { zones: 1, overdueSeconds: 2 },
  // What is refused for now grows old, and that is nothing to mend.
  queue: {
    recipients: 9,
    partitions: { ready: 1 },
    oldestSeconds: 200_000,
    readySeconds: 30,
    backoffs: 1,
    pacesLimited: 0,
    pacesWaiting: 1,
    longestPaceWaits: [{ source: "192.0.2.1", provider: "gmail", seconds: 60 }],
    warmUpsPaused: 0,
    warmUps: 0,
    warmUpPlanned: 0,
    warmUpSent: 0,
  },
  outcomes: { minutes: 30, settled: 1, putOff: 900 },
  inbound: { waiting: 2, quarantined: 0, mailboxes: [] },
  held: [],
  nodes: [node],
  leftOut: [],
  replication: { standbys: [{ standby: "two", seconds: 1 }], emptySlots: [], isWhole: true },
  expectedStandbys: 1,
  machine: { diskFreePercent: 50, certificate: { endsInDays: 80 } },
};

it("finds nothing wrong where nothing is", () => {
  expect(judgeStatus(GOOD, limits)).toEqual([]);
  expect(judgeStatus({ ...GOOD, nodes: [] }, limits)).toEqual([]);
  // A quiet night, and somebody's server that is away.
  expect(judgeStatus({ ...GOOD, outcomes: { minutes: 30, settled: 0, putOff: 20 } }, limits)).toEqual([]);
});

it.each<[Partial<KnownStatus>, string]>([
  [
    { queue: { ...GOOD.queue, longestPaceWaits: [{ source: "192.0.2.1", provider: "gmail", seconds: 3_000 }] } },
    "nothing goes from 192.0.2.1 to gmail for 50 min, as it asked: see palomar pace show 192.0.2.1 gmail",
  ],
  [{ nodes: [node, { ...node, node: "two", silentSeconds: 61 }] }, "node two has been silent for 61 s"],
  [
    { leftOut: [{ node: "one", zone: "example.org", outdated: false, takenOctets: 1_500_000 }] },
    "zone example.org is not answered by node one: it does not fit into PALOMAR_DNS_MEMORY (it needs more than 2 MiB)",
  ],
  [
    { leftOut: [{ node: "one", zone: "example.org", outdated: true, takenOctets: 0 }] },
    "zone example.org is answered as it was by node one: it does not fit into PALOMAR_DNS_MEMORY (it needs more than 0 MiB)",
  ],
  [{ nodes: [{ ...node, lagMs: 60_000 }] }, "node one answers from zones that are 60 s old"],
  [
    { nodes: [node, { ...node, node: "two", services: [{ name: "mail-api", ready: false }] }] },
    "node two: mail-api not ready",
  ],
  ...services.map(({ name }): [Partial<KnownStatus>, string] => [
    { nodes: [{ ...node, services: services.filter((service) => service.name !== name) }] },
    `no node runs ${name}`,
  ]),
  [
    { queue: { ...GOOD.queue, readySeconds: 14_401 } },
    "mail is ready for 4 h now: see the queues by destination in the console",
  ],
  [
    { outcomes: { minutes: 30, settled: 0, putOff: 21 } },
    "no mail gets through: recipients put off in 30 min: 21, and nobody was delivered to. Can this host connect? The queues by destination in the console have the replies",
  ],
  [{ inbound: { ...GOOD.inbound, waiting: 1_001 } }, "1001 bounces wait: is a bounce service running?"],
  [{ inbound: { ...GOOD.inbound, quarantined: 1 } }, "messages in quarantine: 1, look at them in the console"],
  [
    { inbound: { ...GOOD.inbound, mailboxes: [{ name: "reports", problem: "no route" }] } },
    "mailbox reports cannot be read: no route",
  ],
  [
    { signing: { zones: 9, overdueSeconds: 3_601 } },
    "signed zones wait for 60 min for their upkeep: is a dns-api running? Its log names those that fail (zone-signing-failed)",
  ],
  [{ replication: { ...GOOD.replication, standbys: [{ standby: "two", seconds: 31 }] } }, "standby two is 31 s behind"],
  [
    { replication: { ...GOOD.replication, emptySlots: ["db2"] } },
    "no standby takes from the replication slot db2, and what it keeps for one fills the disk",
  ],
  [{ expectedStandbys: 2 }, "1 of 2 standbys are connected (PALOMAR_DATABASE_STANDBYS)"],
])("%j: %s", (change, problem) => {
  expect(judgeStatus({ ...GOOD, ...change }, limits)).toEqual([problem]);
});

it("counts by kind what is wrong, and nothing of what nobody can tell", () => {
  const counts = (known: Partial<KnownStatus>) =>
    Object.fromEntries(Array.from(findProblems(known, limits), ([kind, lines]) => [kind, lines.length]));
  expect(Object.values(counts(GOOD))).toEqual(Array(15).fill(0));
  expect(counts({ machine: { diskFreePercent: 4, certificate: null } })).toEqual({ disk: 1, certificate: 0 });
  expect(counts({})).toEqual({});
  // A role without pg_monitor sees no standby, and says nothing of how many there are.
  const unseen = { standbys: [], emptySlots: [], isWhole: false };
  expect(counts({ replication: unseen, expectedStandbys: 2 })).toEqual({ "standby-behind": 0, "standby-gone": 0 });
});

it("misses nothing that nobody needs", () => {
  const idle = { ...GOOD, queue: { ...GOOD.queue, recipients: 0 }, inbound: { ...GOOD.inbound, waiting: 0 } };
  const dnsOnly = { ...node, services: [{ name: "dns-server", ready: true }] };
  expect(judgeStatus({ ...idle, nodes: [dnsOnly] }, limits)).toEqual([]);
  const mailOnly = { ...node, services: services.slice(1) };
  expect(judgeStatus({ ...idle, zones: { published: 0, suspended: 0 }, nodes: [mailOnly] }, limits)).toEqual([]);
});

it.each([
  [{ diskFreePercent: 5, certificate: null }, []],
  [{ diskFreePercent: null, certificate: { endsInDays: 14 } }, []],
  [{ diskFreePercent: 4, certificate: null }, ["the disk of the data folder has 4 % left"]],
  [{ diskFreePercent: 50, certificate: { endsInDays: 13 } }, ["the certificate ends in 13 days"]],
  [{ diskFreePercent: 50, certificate: { endsInDays: 1 } }, ["the certificate ends in 1 day"]],
  [{ diskFreePercent: 50, certificate: { endsInDays: -1 } }, ["the certificate has ended"]],
  [{ diskFreePercent: 50, certificate: { problem: "not there" } }, ["the certificate cannot be used: not there"]],
])("of a machine with %j it says %j", (machine, problems) => {
  expect(judgeStatus({ machine }, limits)).toEqual(problems);
});

const NAMES = {
  PALOMAR_DELIVERY: "mx",
  PALOMAR_HOSTNAME: "mail.example.org",
  PALOMAR_BOUNCE_DOMAIN: "bounces.example.org",
  PALOMAR_TRACKING_URL: "https://links.example.org",
};
const ofLinks = (host: string) =>
  `PALOMAR_TRACKING_URL: links in mail lead to ${host}, which is each reader's own machine`;

it.each<[Record<string, string>, string[]]>([
  [{}, []],
  [NAMES, []],
  [{ PALOMAR_DELIVERY: "smtp://127.0.0.1:25" }, []],
  [
    { PALOMAR_DELIVERY: "mx" },
    [
      "PALOMAR_HOSTNAME: mail goes out in the name localhost",
      "PALOMAR_BOUNCE_DOMAIN: bounces are to come to bounces.localhost, which nobody else has",
      ofLinks("127.0.0.1"),
    ],
  ],
  [{ ...NAMES, PALOMAR_TRACKING_URL: "http://[::1]:8026" }, [ofLinks("[::1]")]],
  [{ ...NAMES, PALOMAR_TRACKING_URL: "http://localhost:8026" }, [ofLinks("localhost")]],
  [{ ...NAMES, PALOMAR_TRACKING_URL: "", PALOMAR_TRACKING_LISTEN: "192.0.2.1:80" }, []],
])("of the settings %j it says %j", (env, problems) => {
  const config = loadConfig(env);
  if (!config.ok) throw new Error(config.error.join());
  expect(judgeSettings(config.value, [])).toEqual(problems);
  expect(judgeSettings(config.value, ["acme", "other"])).toEqual([
    "PALOMAR_DNS_RESELLERS: there is no reseller acme, other",
    ...problems,
  ]);
});

it.each([
  [0, "0 s"],
  [119, "119 s"],
  [120, "2 min"],
  [7_200, "2 h"],
  [172_800, "2 days"],
])("%d seconds are told as %s", (seconds, text) => {
  expect(describeSeconds(seconds)).toBe(text);
});
