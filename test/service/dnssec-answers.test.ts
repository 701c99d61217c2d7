import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RCODE } from "../../services/core/dns/rr-types.ts";
import { start } from "../../services/dns-server/main.ts";
import type { RunningService } from "../../services/platform/service.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { delv } from "../support/delv.ts";
import { addZoneOwner, dnsServerContext, eventually, putZoneFile } from "../support/dns-server.ts";
import { askSections, differenceOf, type Question, type Sections, untilAnswered } from "../support/dnssec-questions.ts";
import { CHILD_ZONE, PARENT_ZONE, RESOLVABLE_NAMES, UNRESOLVABLE_NAMES } from "../support/dnssec-zone-text.ts";
import { AUTHORITATIVE_PEERS, startAuthoritative } from "../support/peers-authoritative.ts";
import { freePort, isInstalled } from "../support/peers-processes.ts";
import { DENIALS, type Denial, SIGNING_PROGRAM, type SignedZone, signZone } from "../support/signed-zones.ts";
import { startValidator } from "../support/validating-resolver.ts";

const TYPES = ["A", "AAAA", "MX", "TXT", "DS", "CNAME", "NSEC", "SRV", "DNSKEY", "NS"];
/** A resolver follows aliases by itself when it has them in its cache, whatever the type. */
const RESOLVED_TYPES = TYPES.filter((type) => type !== "CNAME" && type !== "NSEC");
/** Worker threads run compiled files only on Node 20. */
const PORTABLE = { PALOMAR_DNS_UDP: "portable" };

const unsigned = isInstalled(SIGNING_PROGRAM) ? "" : ` (skipped: ${SIGNING_PROGRAM} is not installed)`;

describe.each(DENIALS)(`a zone signed with %s${unsigned}`, { skip: unsigned !== "" }, (denial) => {
  let database: TestDatabase;
  let server: RunningService;
  let zones: readonly SignedZone[];

  beforeAll(async () => {
    zones = signedZones(denial);
    database = await createTestDatabase();
    await addZoneOwner(database);
    for (const { name, text } of zones) await putZoneFile(database, name, text);
    server = await start(dnsServerContext(database, { env: PORTABLE }));
    await untilServed(address(), zones[0]!.name);
  });
  afterAll(async () => {
    await server?.stop();
    await database?.drop();
  });

  const address = () => server.addresses.dns!;

  for (const [name, { program }] of Object.entries(AUTHORITATIVE_PEERS)) {
    it.skipIf(absence(program) !== "")(`is answered as ${name} answers it${absence(program)}`, async () => {
      const peer = await startAuthoritative(name, await freePort(), zones);
      try {
        await untilAnswered(
          peer.address,
          zones.map((zone) => zone.name),
        );
        const differences: string[] = [];
        for (const question of questions()) {
          const [ours, theirs] = [await askSections(address(), question), await askSections(peer.address, question)];
          if (!isKnownDifference(name, denial, question)) differences.push(...differenceOf(question, ours, theirs));
        }
        expect(differences).toEqual([]);
      } finally {
        await peer.stop();
      }
    });
  }

  it.skipIf(absence("unbound") !== "")(`is believed by Unbound, by its trust anchor${absence("unbound")}`, async () => {
    const unbound = await startValidator([zones[0]!.anchor], ["example.org", "child.example.org"], address());
    try {
      const doubtful: string[] = [];
      for (const name of RESOLVABLE_NAMES) {
        // The DS of the whole is its parent's to give, which nobody plays here.
        for (const type of RESOLVED_TYPES.filter((other) => name !== "" || other !== "DS")) {
          const question: Question = { name: absolute(name), type };
          const [ours, believed] = [
            await askSections(address(), question),
            await askSections(unbound.address, question),
          ];
          if (isUnprovable(denial, name)) expect(believed.rcode, `${name} ${type}`).toBe(RCODE.SERVFAIL);
          else if (!isBelieved(denial, ours, believed)) doubtful.push(`${name} ${type}: rcode ${believed.rcode}`);
        }
      }
      expect(doubtful).toEqual([]);
    } finally {
      await unbound.stop();
    }
  });

  const inDelv = it.skipIf(absence("delv") !== "");

  inDelv.each([
    ["web", "A", "fully validated"],
    ["x.wild", "A", positiveWildcard(denial)],
    ["q.alias4", "A", positiveWildcard(denial)],
    ["x.dname", "A", "fully validated"],
    ["web", "MX", "negative response, fully validated"],
    ["missing", "A", "negative response, fully validated"],
    ["c", "A", "negative response, fully validated"],
    ["x.wild", "TXT", "negative response, fully validated"],
  ])(`delv on %s %s says: %s${absence("delv")}`, async (name, type, verdict) => {
    expect(await askDelv(zones[0]!.anchor, address(), absolute(name), type)).toContain(`; ${verdict}`);
  });

  it("gives clients without DO none of it, and nobody AD", async () => {
    for (const name of RESOLVABLE_NAMES) {
      const plain = await askSections(address(), { name: absolute(name), type: "A", dnssecOk: false });
      const records = [...plain.answers, ...plain.authorities, ...plain.additionals];
      expect(records.filter((text) => / (RRSIG|NSEC|NSEC3) /.test(text))).toEqual([]);
      expect(plain.authenticData).toBe(false);
    }
  });

  it("is cut short over UDP rather than left without its proofs", async () => {
    const question: Question = { name: absolute("missing"), type: "A" };
    const whole = await askSections(address(), { ...question, transport: "tcp" });
    expect(whole).toMatchObject({ truncated: false, rcode: 3 });
    expect(await askSections(address(), question)).toEqual(whole);
    const small = await askSections(address(), { ...question, payloadOctets: 512 });
    expect(small).toMatchObject({ truncated: true, rcode: 3, authorities: [] });
  });
});

describe(`a zone that is served${unsigned}`, { skip: unsigned !== "" }, () => {
  it("becomes signed, changes its kind of denial and becomes unsigned, each within one answer", async () => {
    const database = await createTestDatabase();
    await addZoneOwner(database);
    const name = "turning.example.org";
    await putZoneFile(database, name, CHILD_ZONE);
    const server = await start(dnsServerContext(database, { env: PORTABLE }));
    try {
      const proofs = async () => {
        const { authorities } = await askSections(server.addresses.dns!, { name: `none.${name}`, type: "A" });
        return authorities.map((text) => text.split(" ")[2]!).filter((type) => type !== "SOA");
      };
      await untilServed(server.addresses.dns!, name);
      expect(await proofs()).toEqual([]);
      const steps = [
        { text: signZone(name, CHILD_ZONE, "nsec").text, proof: "NSEC" },
        { text: signZone(name, CHILD_ZONE, "nsec3").text, proof: "NSEC3" },
        { text: signZone(name, CHILD_ZONE, "nsec3-opt-out").text, proof: "NSEC3" },
        { text: CHILD_ZONE, proof: undefined },
      ];
      for (const { text, proof } of steps) {
        await putZoneFile(database, name, text);
        await eventually(async () => (await proofs()).find((type) => type !== "RRSIG") === proof, 60_000);
      }
    } finally {
      await server.stop();
      await database.drop();
    }
  });
});

/** A server starts without zones that do not come in time. */
async function untilServed(address: string, name: string): Promise<void> {
  await eventually(async () => (await askSections(address, { name, type: "SOA" })).rcode === 0, 60_000);
}

/** The parent with the DS of its child, and the child. */
function signedZones(denial: Denial): SignedZone[] {
  const child = signZone("child.example.org", CHILD_ZONE, denial);
  return [signZone("example.org", `${PARENT_ZONE}${child.ds}\n`, denial), child];
}

function questions(): Question[] {
  return [...RESOLVABLE_NAMES, ...UNRESOLVABLE_NAMES].flatMap((name) =>
    TYPES.map((type): Question => ({ name: absolute(name), type, transport: "tcp" })),
  );
}

function absolute(name: string): string {
  return name === "" ? "example.org" : `${name}.example.org`;
}

/** Why peers answer otherwise where they do; each by its own lights, and ours by the RFC's letter. */
const KNOWN_DIFFERENCES: readonly KnownDifference[] = [
  {
    peer: "bind",
    denials: ["nsec"],
    names: /^(sub|plain|deep\.ent2|child)$/,
    types: ["NSEC"],
    because: "BIND answers NSEC at a cut from the parent; RFC 4035 §3.1.4.1 says so of DS only",
  },
  {
    peer: "bind",
    denials: ["nsec"],
    names: /^(x\.)?q\.mid$/,
    because: "it leaves out the proof that the wildcard is empty (RFC 4035 §3.1.3.4)",
  },
  {
    peer: "knot",
    denials: ["nsec"],
    names: /^(x\.)?q\.mid$/,
    because: "it leaves out the proof that the wildcard is empty (RFC 4035 §3.1.3.4)",
  },
  ...["bind", "knot"].map((peer) => ({
    peer,
    denials: DENIALS,
    names: /^(to.*child.*|q\.alias4)$/,
    because: "it leaves an alias that leads into another zone to the resolver",
  })),
  {
    peer: "nsd",
    denials: ["nsec3-opt-out"],
    names: /^(ent2|ent\.gap)$/,
    types: ["DS"],
    because: "it leaves out the span over an empty non-terminal that opt-out leaves out (RFC 5155 §7.2.4)",
  },
  {
    peer: "nsd",
    denials: ["nsec3-opt-out"],
    names: /^x\.ent\.gap$/,
    because: "it denies without any proof what nobody can prove",
  },
  {
    peer: "knot",
    denials: ["nsec3-opt-out"],
    names: /^x\.ent\.gap$/,
    because: "it says SERVFAIL where nobody can prove what is so",
  },
  {
    peer: "bind",
    denials: DENIALS,
    names: /^loop1$/,
    because: "it gives up a loop with SERVFAIL",
  },
  {
    peer: "knot",
    denials: ["nsec"],
    names: /^q\./,
    types: ["NSEC"],
    because: "it leaves out the proof of a wildcard's expansion where NSEC itself is asked for",
  },
  ...["bind", "knot"].map(
    (peer): KnownDifference => ({
      peer,
      denials: ["nsec3", "nsec3-opt-out"],
      names: /./,
      types: ["NSEC"],
      because: "it follows no alias where NSEC is asked for, and says what validators reject (RFC 6840 §4.3)",
    }),
  ),
  {
    peer: "nsd",
    denials: ["nsec"],
    names: /^q\.wt\.dname$/,
    because: "its NSEC for a wildcard behind a DNAME is not the one that spans the name",
  },
  {
    peer: "nsd",
    denials: ["nsec3", "nsec3-opt-out"],
    names: /^\*\./,
    because: "it proves the wildcard's encloser as well where the wildcard itself is asked for",
  },
];

interface KnownDifference {
  readonly peer: string;
  readonly denials: readonly Denial[];
  readonly names: RegExp;
  readonly types?: readonly string[];
  readonly because: string;
}

function isKnownDifference(peer: string, denial: Denial, { name, type }: Question): boolean {
  const relative = name === "example.org" ? "" : name.slice(0, -".example.org".length);
  return KNOWN_DIFFERENCES.some(
    (known) =>
      known.peer === peer &&
      known.denials.includes(denial) &&
      known.names.test(relative) &&
      (known.types?.includes(type) ?? true),
  );
}

/** AD, but where opt-out leaves a doubt (RFC 5155 §9.2); the answer is ours in any case. */
function isBelieved(denial: Denial, ours: Sections, believed: Sections): boolean {
  const isSure = believed.authenticData || denial === "nsec3-opt-out";
  const given = believed.answers.map(withoutTtl);
  return isSure && believed.rcode === ours.rcode && ours.answers.every((text) => given.includes(withoutTtl(text)));
}

/** In a cache time passes. */
function withoutTtl(text: string): string {
  return text.replace(/ \d+ /, " ");
}

/** Below an empty non-terminal that opt-out leaves out, and beside a wildcard: no span says what is so (RFC 5155 §7.2.4). */
function isUnprovable(denial: Denial, name: string): boolean {
  return denial === "nsec3-opt-out" && name === "x.ent.gap";
}

/** What delv says of a wildcard's expansion: with opt-out nobody can know that there was no closer match (RFC 5155 §12.1.2). */
function positiveWildcard(denial: Denial): string {
  return denial === "nsec3-opt-out" ? "unsigned answer" : "fully validated";
}

/** @param anchor a DNSKEY record as text */
function askDelv(anchor: string, server: string, name: string, type: string): Promise<string> {
  const [owner, , , flags, protocol, algorithm, ...key] = anchor.split(/\s+/);
  const trusted = `static-key ${flags} ${protocol} ${algorithm} "${key.join("")}"`;
  return delv({ zone: owner!, anchor: trusted }, server, name, type);
}

function absence(program: string): string {
  return isInstalled(program) ? "" : ` (skipped: ${program} is not installed)`;
}
