import { afterAll, beforeAll, expect, it } from "vitest";
import { start } from "../../services/dns-server/main.ts";
import type { RunningService } from "../../services/platform/service.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addZoneOwner, dnsServerContext, eventually, putZoneFile } from "../support/dns-server.ts";
import { askSections, differenceOf, type Question, type Sections, untilAnswered } from "../support/dnssec-questions.ts";
import { NASTY_NAMES, NASTY_TYPES, NASTY_ZONES } from "../support/nasty-zones.ts";
import { AUTHORITATIVE_PEERS, startAuthoritative } from "../support/peers-authoritative.ts";
import { freePort, isInstalled } from "../support/peers-processes.ts";

/** Worker threads run compiled files only on Node 20. */
const PORTABLE = { PALOMAR_DNS_UDP: "portable" };

const QUESTIONS: readonly Question[] = NASTY_NAMES.map(absolute).flatMap((name) =>
  NASTY_TYPES.map((type) => ({ name, type, dnssecOk: false, transport: "tcp" }) as const),
);

let database: TestDatabase;
let server: RunningService;
let ours: readonly Sections[];

beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  for (const { name, text } of NASTY_ZONES) await putZoneFile(database, name, text);
  server = await start(dnsServerContext(database, { env: PORTABLE }));
  // It starts without zones that do not come in time.
  const apex = absolute("");
  const soa = { name: apex, type: "SOA", dnssecOk: false, transport: "tcp" } as const;
  await eventually(async () => (await askSections(server.addresses.dns!, soa)).rcode === 0, 60_000);
  ours = await askAll(server.addresses.dns!);
});

afterAll(async () => {
  await server?.stop();
  await database?.drop();
});

for (const [name, { program }] of Object.entries(AUTHORITATIVE_PEERS)) {
  const absence = isInstalled(program) ? "" : ` (skipped: ${program} is not installed)`;
  it.skipIf(absence !== "")(`nasty questions are answered as ${name} answers them${absence}`, async () => {
    const peer = await startAuthoritative(name, await freePort(), NASTY_ZONES);
    try {
      await untilAnswered(
        peer.address,
        NASTY_ZONES.map((zone) => zone.name),
      );
      const theirs = await askAll(peer.address);
      const differing = QUESTIONS.map((question, index) => ({
        name: question.name,
        differences: differenceOf(question, ours[index]!, theirs[index]!),
      })).filter(({ differences }) => differences.length > 0);
      const known = KNOWN_DIFFERENCES.filter(({ peers }) => peers.includes(name));
      const unknown = differing.filter((one) => !known.some(({ names }) => names.test(relative(one.name))));
      expect(unknown.flatMap(({ differences }) => differences)).toEqual([]);
      // What differs no longer is to go from the list.
      const needless = known.filter(({ names }) => !differing.some((one) => names.test(relative(one.name))));
      expect(needless.map(({ because }) => because)).toEqual([]);
    } finally {
      await peer.stop();
    }
  });
}

/** Where a peer answers otherwise, and why; for the rest the three agree with us. */
const KNOWN_DIFFERENCES: readonly {
  readonly peers: readonly string[];
  readonly names: RegExp;
  readonly because: string;
}[] = [
  {
    peers: ["nsd"],
    names: /^(x\.wco|aliaso|www\.dnother|back\.other\.example\.|(x\.w|up|alias\.updn)\.child|x\.w\.dnchild)$/,
    because: "it follows aliases into any zone that it has, not only into those below",
  },
  {
    peers: ["bind", "knot"],
    names: /^(x\.wch|aliaschn?|(www|x\.w|none|sub)\.dnchild)$/,
    because: "it leaves an alias that leads into another zone to the resolver",
  },
  {
    peers: ["bind"],
    names: /^([xa]\.wcl|self|loop1|x\.dnself)$/,
    because: "it gives up a loop with SERVFAIL",
  },
  {
    peers: ["knot", "nsd"],
    names: /^(a\.wcl|x\.dnself)$/,
    because: "it goes through a loop another number of times",
  },
  {
    peers: ["knot"],
    names: /^yy\.y+\.dnlong$/,
    because: "it says NXDOMAIN where the name that a DNAME makes is too long (YXDOMAIN, RFC 6672 §2.2)",
  },
];

/** The answers to all questions, in their order; a few at a time. */
async function askAll(address: string): Promise<Sections[]> {
  const answers: Sections[] = [];
  for (let index = 0; index < QUESTIONS.length; index += NASTY_TYPES.length) {
    const together = QUESTIONS.slice(index, index + NASTY_TYPES.length);
    answers.push(...(await Promise.all(together.map((question) => askSections(address, question)))));
  }
  return answers;
}

function absolute(name: string): string {
  if (name.endsWith(".")) return name;
  return name === "" ? NASTY_ZONES[0]!.name : `${name}.${NASTY_ZONES[0]!.name}`;
}

function relative(name: string): string {
  const suffix = `.${NASTY_ZONES[0]!.name}`;
  return name.endsWith(suffix) ? name.slice(0, -suffix.length) : name;
}
