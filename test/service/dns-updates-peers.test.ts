import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { MessageRecord } from "../../services/core/dns/message.ts";
import { formatDomainName } from "../../services/core/dns/name.ts";
import { CLASS, TYPE, typeMnemonic } from "../../services/core/dns/rr-types.ts";
import { findTsig } from "../../services/core/dns/tsig.ts";
import { isWellSigned } from "../../services/operations/dns/zone-signing.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { addAcl } from "../../services/store/dns/acls.ts";
import { findAnyZone } from "../../services/store/dns/zones.ts";
import { inSnapshot } from "../../services/store/transactions.ts";
import { Random } from "../signing/random.ts";
import { exchangeDatagram } from "../support/datagrams.ts";
import { KEY_RING, zoneFields } from "../support/dns-api.ts";
import { askDns, dataOf } from "../support/dns-client.ts";
import { eventually, nameOf } from "../support/dns-server.ts";
import {
  addition,
  runProgram,
  signUpdate,
  startUpdateStack,
  type UpdateKey,
  type UpdateStack,
  untilKeyIsKnown,
} from "../support/dns-updates.ts";
import { freePort, isInstalled, type Peer, startPeer } from "../support/peers-processes.ts";
import { seedOfRun } from "../support/property.ts";
import { askOverTcp, asSet } from "../support/transfer-client.ts";

/** Debian's, which has Debian's libraries. */
const PYTHON = "/usr/bin/python3";
/** By `npm run check:updates` ten thousand. */
const UPDATES = Number(process.env.PALOMAR_TEST_UPDATES ?? 150);
/** One process of a tool makes so many. */
const AT_A_TIME = 100;

const missing = ["named", "nsupdate"].filter((program) => !isInstalled(program));
const withoutKnot = isInstalled("knsupdate") ? "" : " (skipped: knsupdate is not installed)";
const withoutLexicon =
  spawnSync(PYTHON, ["-c", "import lexicon, dns"]).status === 0 ? "" : " (skipped: python3-lexicon is not installed)";
const absence = missing.length > 0 ? ` (skipped: ${missing.join(", ")} not installed)` : "";

/** How a signature differs from a good one. */
interface WrongSignature {
  readonly keyName?: string;
  readonly secret?: string;
  readonly behindSeconds?: number;
}

/** What an answer says of the request's signature. */
function signatureOf(answer: Uint8Array) {
  const found = findTsig(answer);
  if (!found.ok) throw new Error(found.error.message);
  const { error, mac, otherData } = found.value ?? {};
  return { rcode: answer[3]! & 0xf, error, macOctets: mac?.length, otherOctets: otherData?.length };
}

/** A server to update, and what it is for the tools. */
interface Target {
  readonly host: string;
  readonly port: number;
  readonly key: UpdateKey;
}

describe.skipIf(missing.length > 0)(`random updates and prerequisites${absence}`, () => {
  let stack: UpdateStack;
  let bind: Peer;
  let zone: string;
  let ours: Target;
  let theirs: Target;

  beforeAll(async () => {
    stack = await startUpdateStack();
    const key = await stack.makeKey();
    zone = await stack.makeZone();
    const acl = { resellerId: "one", name: "test", blocks: ["127.0.0.0/8"], tsig: null, zones: null, notify: [] };
    await addAcl(stack.api.database.db, KEY_RING, acl);
    await untilKeyIsKnown(stack, zone, key);
    const { text } = await stack.api.call("GET", `/api/v1/zone_file/${zone}`);
    bind = await startPeer("bind", await freePort(), (folder, port) => ({
      files: {
        "zone.db": text,
        "named.conf": `options { directory "${folder}"; listen-on port ${port} { 127.0.0.1; }; listen-on-v6 { none; };
          pid-file none; recursion no; session-keyfile none; dnssec-validation no; notify no; };
          controls { };
          key "${key.name}" { algorithm hmac-sha256; secret "${key.secret}"; };
          zone "${zone}" { type primary; check-names ignore; check-integrity no; check-mx ignore; file "zone.db";
            allow-update { key "${key.name}"; }; allow-transfer { any; }; };`,
      },
      command: ["named", "-g", "-n", "1", "-c", `${folder}/named.conf`],
    }));
    ours = { host: stack.host, port: stack.port, key };
    theirs = { host: "127.0.0.1", port: bind.port, key };
    await eventually(async () => (await transferred(theirs).catch(() => [])).length > 0, 60_000);
  });
  afterAll(async () => {
    await bind?.stop();
    await stack?.stop();
  });

  it(`${UPDATES} by nsupdate end with BIND's response codes and BIND's zone`, () => compare("nsupdate"), 1_200_000);

  it.skipIf(withoutKnot !== "")(`${UPDATES} by knsupdate do${withoutKnot}`, () => compare("knsupdate"), 1_200_000);

  it("random updates of a signed zone leave it well signed", async () => {
    const { api } = stack;
    const signedZone = await stack.makeZone();
    expect(await api.call("PUT", `/api/v1/dnssec/${signedZone}`, { enabled: true })).toMatchObject({ status: 200 });
    const random = new Random("signed", seedOfRun);
    const updates = Array.from({ length: AT_A_TIME }, () => randomUpdate(random, signedZone));
    const rcodes = await run("nsupdate", ours, updates, signedZone);
    expect(rcodes.filter((rcode) => rcode === "NOERROR").length).toBeGreaterThan(AT_A_TIME / 2);
    const apex = nameOf(signedZone);
    const signer = { keyRing: KEY_RING, clock: systemClock };
    const isGood = await inSnapshot(api.database.db, async (snapshot) =>
      isWellSigned(snapshot, (await findAnyZone(snapshot, apex))!, signer),
    );
    expect(isGood).toBe(true);
  });

  it("misuses of classes, types, TTLs and data get BIND's response codes", async () => {
    const random = new Random("misuse", seedOfRun);
    const differing: string[] = [];
    for (let made = 0; made < UPDATES; made += 1) {
      const sections = randomSections(random, zone);
      const [our, their] = await Promise.all([ours, theirs].map((target) => rcodeOf(target, sections)));
      if (our !== their) differing.push(`${our} ${their} ${describeSections(sections)}`);
    }
    expect(differing).toEqual([]);
  });

  it.each([
    ["a late clock", { behindSeconds: 400 }],
    ["an early clock", { behindSeconds: -400 }],
    ["an unknown key", { keyName: "unknown.example." }],
    ["another secret", { secret: Buffer.alloc(32).toString("base64") }],
  ])("%s is answered as BIND does, by updates and transfers (RFC 8945 §5)", async (_, wrong: WrongSignature) => {
    for (const ask of [updateWith, transferWith]) {
      const answers = await Promise.all([ours, theirs].map((target) => ask(target, wrong)));
      expect(answers[0]).toEqual(answers[1]);
    }
  });

  /** @returns the signature of the answer to an update of nothing */
  async function updateWith({ host, port, key }: Target, wrong: WrongSignature) {
    const { keyName = key.name, secret = key.secret, behindSeconds = 0 } = wrong;
    const { octets } = signUpdate(zone, { ...key, name: keyName, secret }, { updates: [], behindSeconds });
    return signatureOf(await exchangeDatagram(octets, { host, port }));
  }

  async function transferWith({ host, port, key }: Target, wrong: WrongSignature) {
    const { keyName = key.name, secret = key.secret, behindSeconds = 0 } = wrong;
    const { messages } = await askOverTcp(`${host}:${port}`, {
      ...{ name: zone, type: "AXFR", nowSeconds: Math.floor(Date.now() / 1000) - behindSeconds },
      key: { name: nameOf(keyName), algorithm: "hmac-sha256", secret: Buffer.from(secret, "base64") },
    });
    return signatureOf(messages[0]!);
  }

  async function rcodeOf({ host, port, key }: Target, sections: UpdateSections): Promise<number> {
    const { octets } = signUpdate(zone, key, sections);
    const answer = await exchangeDatagram(octets, { host, port });
    return answer[3]! & 0xf;
  }

  async function compare(tool: "nsupdate" | "knsupdate"): Promise<void> {
    const random = new Random("updates", tool, seedOfRun);
    for (let made = 0; made < UPDATES; made += AT_A_TIME) {
      const count = Math.min(AT_A_TIME, UPDATES - made);
      const updates = Array.from({ length: count }, () => randomUpdate(random, zone));
      const [our, their] = [await make(tool, ours, updates), await make(tool, theirs, updates)];
      const differing = our.findIndex((rcode, index) => rcode !== their[index]);
      const log = bind
        .log()
        .split("\n")
        .filter((line) => /rejected|ignor/.test(line));
      const shown = differing < 0 ? "" : [...updates[differing]!, ...log.slice(-20)].join("\n");
      expect([differing, our[differing], their[differing], shown]).toEqual([-1, undefined, undefined, ""]);
      const wanted = await transferred(theirs);
      // The name server has the zone a moment after the database.
      await eventually(async () => same(await transferred(ours), wanted), 60_000).catch(() => {});
      expect((await transferred(ours)).map(readable)).toEqual(wanted.map(readable));
    }
  }

  /** knsupdate ends at the first response code that is an error. */
  async function make(tool: string, target: Target, updates: readonly (readonly string[])[]): Promise<string[]> {
    if (tool === "nsupdate") return run(tool, target, updates);
    const rcodes: string[] = [];
    for (const update of updates) rcodes.push(...(await run(tool, target, [update])));
    return rcodes;
  }

  async function run(tool: string, { host, port, key }: Target, updates: readonly (readonly string[])[], of = zone) {
    const lines = updates.flatMap((update) => [`zone ${of}.`, ...update, "send", "answer"]);
    const lenient = tool === "nsupdate" ? ["check-names no"] : [];
    const head = [...lenient, `server ${host} ${port}`, `key hmac-sha256:${key.name} ${key.secret}`];
    const { output } = await runProgram(tool, [], [...head, ...lines, ""].join("\n"));
    const found = [...output.matchAll(/status: (\w+)/g)].map(([, status]) => status!);
    if (found.length !== updates.length) throw new Error(`${tool} made ${found.length}: ${output.slice(-2_000)}`);
    return found;
  }

  async function transferred({ host, port }: Target): Promise<string[]> {
    const { records } = await askOverTcp(`${host}:${port}`, { name: zone, type: "AXFR" });
    return [...new Set(asSet(records))];
  }
});

function same(one: readonly string[], another: readonly string[]): boolean {
  return one.length === another.length && one.every((text, index) => text === another[index]);
}

/** Control octets would hide what differs. */
function readable(text: string): string {
  return text.replace(/[^\x21-\x7e]/g, (octet) => `\\${octet.charCodeAt(0)}`);
}

/** BIND refuses name servers within the zone that are left without an address; here that is a warning of the API. */
const DATA: Readonly<Record<string, readonly string[]>> = {
  A: ["192.0.2.1", "192.0.2.2", "192.0.2.3"],
  AAAA: ["2001:db8::1", "2001:db8::2"],
  TXT: ['"one"', '"two" "parts"', '"One"'],
  MX: ["10 a.ZONE", "10 A.ZONE", "20 mail.example.net."],
  CNAME: ["a.ZONE", "b.ZONE", "www.example.net."],
  NS: ["ns1.example.net.", "ns2.example.net.", "ns3.example.net."],
  SRV: ["1 2 53 a.ZONE", "1 2 54 a.ZONE"],
  CAA: ['0 issue "ca.example.net"', '0 iodef "mailto:x@example.net"'],
  DNAME: ["a.example.net.", "b.example.net."],
  PTR: ["a.ZONE", "b.ZONE"],
  TYPE65280: ["\\# 2 0001", "\\# 0"],
};
const TYPES = Object.keys(DATA);
const OWNERS = ["", "a.", "b.", "A.", "sub.", "x.sub.", "*.", "*.w.", "_acme-challenge.", "deep.er.c."];
/** BIND takes a DNAME beside NS below the apex, which Palomar leaves out (RFC 6672 §2.3): they stand apart here. */
const OWNERS_OF: Readonly<Record<string, readonly string[]>> = {
  NS: OWNERS.filter((owner) => owner !== "sub."),
  DNAME: ["", "sub.", "*."],
};
const TTLS = [0, 60, 300, 3600];

/**
 * Names are found whatever their case; they are not added in another case, as BIND has a serial for that and Palomar has
 * not. The lines are in nsupdate's language, without `zone` and `send`.
 */
function randomUpdate(random: Random, zone: string): string[] {
  const owner = (type = "") => `${random.pick(OWNERS_OF[type] ?? OWNERS)}${zone}.`;
  const data = (type: string) => random.pick(DATA[type]!).replaceAll("ZONE", `${zone}.`);
  const prerequisite = () => {
    const type = random.pick(TYPES);
    return random.weighted([
      [2, () => `prereq nxdomain ${owner()}`],
      [2, () => `prereq yxdomain ${owner()}`],
      [2, () => `prereq nxrrset ${owner()} ${type}`],
      [2, () => `prereq yxrrset ${owner()} ${type}`],
      [2, () => `prereq yxrrset ${owner()} ${type} ${data(type)}`],
      [1, () => `prereq yxrrset ${zone}. SOA`],
    ])();
  };
  const step = () => {
    const type = random.pick(TYPES);
    return random.weighted([
      [
        8,
        () => `update add ${owner(type).toLowerCase()} ${random.pick(TTLS)} ${type} ${data(type).replace("A.", "a.")}`,
      ],
      [2, () => `update delete ${owner()} ${type}`],
      [3, () => `update delete ${owner()} ${type} ${data(type)}`],
      [1, () => `update delete ${owner()}`],
      [
        1,
        () => {
          const serial = random.from(1, 400);
          return `update add ${zone}. 300 SOA ns1.example.net. hostmaster.example.net. ${serial} 7200 3600 1209600 300`;
        },
      ],
      [1, () => `update add ${zone}. 300 NS ${data("NS")}`],
      [1, () => `update delete ${zone}. NS ${data("NS")}`],
    ])();
  };
  return [
    ...Array.from(
      {
        length: random.weighted([
          [6, 0],
          [3, 1],
          [1, 2],
        ]),
      },
      prerequisite,
    ),
    ...Array.from({ length: random.from(1, 5) }, step),
  ];
}

/** It asks the system's resolver for the zone's SOA and sends to its MNAME, all to port 53. */
const whyNoLdns = !isInstalled("ldns-update")
  ? " (skipped: ldns-update is not installed)"
  : process.getuid?.() === 0 && isInstalled("unshare")
    ? ""
    : " (skipped: needs root for port 53 and a resolv.conf of its own)";

it.skipIf(whyNoLdns !== "")(`ldns-update adds and removes addresses${whyNoLdns}`, async () => {
  const address = "127.0.53.53";
  const stack = await startUpdateStack({ PALOMAR_DNS_LISTEN: `${address}:53` });
  const folder = mkdtempSync(join(tmpdir(), "palomar-ldns-"));
  try {
    const name = await stack.makeZone({ mname: "ns1.ldns.example.org" });
    const key = await stack.makeKey({ tsig: "hmac-sha1" });
    await stack.api.call("POST", "/api/v1/master_zone/ldns.example.org", zoneFields());
    await stack.api.call("POST", "/api/v1/rr/ldns.example.org", { name: "ns1", type: "A", value: address });
    await untilKeyIsKnown({ host: address, port: 53 }, name, { ...key, algorithm: "hmac-sha1" });
    await eventually(
      async () => dataOf(await askDns(`${address}:53`, "ns1.ldns.example.org", "A"))[0] === address,
      60_000,
    );
    const file = join(folder, "resolv.conf");
    writeFileSync(file, `nameserver ${address}\n`);
    const program = `mount --bind ${file} /etc/resolv.conf && exec ldns-update "$@"`;
    const update = async (value: string) => {
      const args = [`host.${name}`, name, value, key.name, "hmac-sha1", key.secret];
      const { output } = await runProgram("unshare", ["--mount", "sh", "-c", program, "ldns-update", ...args], "");
      return output;
    };
    const addresses = async () => {
      const { body } = await stack.api.call("GET", `/api/v1/rr/${name}`);
      return body.rr.filter(({ type }: { type: string }) => type === "A").map(({ value }: { value: string }) => value);
    };
    expect([await update("192.0.2.5"), await addresses()]).toEqual([expect.any(String), ["192.0.2.5"]]);
    expect([await update("192.0.2.6"), await addresses()]).toEqual([expect.any(String), ["192.0.2.5", "192.0.2.6"]]);
    expect([await update("none"), await addresses()]).toEqual([expect.any(String), []]);
  } finally {
    await stack.stop();
    rmSync(folder, { recursive: true });
  }
});

type UpdateSections = Parameters<typeof signUpdate>[2];

const MISUSED_TYPES = [
  ...(["A", "TXT", "SOA", "NS", "ANY", "AXFR", "MAILB", "TSIG", "RRSIG", "NSEC", "DS", "NULL"] as const),
] as const;
const MISUSED_DATA = ["", "c0000201", "03616263", "01", "0161", "00"];

/**
 * One record of the update section, or a prerequisite before a lawful one, in which any field may be wrong. Of two faults BIND
 * names malformed data first, and RFC 2136 the name outside the zone: such records have no other fault.
 */
function randomSections(random: Random, zone: string): UpdateSections {
  const type = random.pick(MISUSED_TYPES);
  const record: MessageRecord = {
    // BIND takes RRSIG at the apex.
    owner: nameOf(type === "RRSIG" ? `a.${zone}` : random.pick([`a.${zone}`, zone])),
    type: TYPE[type],
    class: random.pick([CLASS.IN, CLASS.ANY, CLASS.NONE, CLASS.CH]),
    ttl: random.pick([0, 0, 0, 60]),
    rdata: Buffer.from(random.percent(50) ? "" : random.pick(MISUSED_DATA), "hex"),
  };
  if (random.percent(10)) return { updates: [addition("a.example.net", "A", "192.0.2.1")] };
  if (random.percent(60)) return { updates: [record] };
  return { updates: [addition(`b.${zone}`, "A", "192.0.2.1")], prerequisites: [record] };
}

function describeSections({ updates, prerequisites = [] }: UpdateSections): string {
  const [{ owner, type, class: rrClass, ttl, rdata }] = [...prerequisites, ...updates] as [MessageRecord];
  const section = prerequisites.length > 0 ? "prerequisite" : "update";
  return `${section} ${formatDomainName(owner)} ${typeMnemonic(type)} class ${rrClass} TTL ${ttl} ${Buffer.from(rdata).toString("hex")}`;
}

it.skipIf(withoutLexicon !== "")(`lexicon's DDNS provider keeps records of every type${withoutLexicon}`, async () => {
  const stack = await startUpdateStack();
  try {
    const zone = await stack.makeZone();
    const { name, secret } = await stack.makeKey();
    await untilKeyIsKnown(stack, zone, { name, secret });
    // It looks for what it made in answers, and a delegation's NS are in referrals.
    const { NS: _, ...data } = DATA;
    const wanted = Object.fromEntries(
      Object.entries(data).map(([type, [first]]) => [type, first!.replaceAll("ZONE", `${zone}.`)]),
    );
    const given = { zone, host: stack.host, port: stack.port, key: `hmac-sha256:${name}:${secret}`, wanted };
    const { status, output } = await runProgram(PYTHON, ["-c", LEXICON_DDNS, JSON.stringify(given)], "");
    if (status !== 0) throw new Error(output);
    expect(JSON.parse(output)).toEqual({ listed: wanted, updated: ["192.0.2.9"], left: [] });
  } finally {
    await stack.stop();
  }
});

/** The provider speaks to port 53 of the server that it is given; what it finds is seen a moment after an answer. */
const LEXICON_DDNS = `
import functools, json, sys, time
import dns.query
from lexicon.client import Client
from lexicon.config import ConfigResolver
given = json.loads(sys.argv[1])
dns.query.tcp = functools.partial(dns.query.tcp, port=given["port"])
def run(action, type, **more):
    options = {"provider_name": "ddns", "action": action, "domain": given["zone"], "delegated": given["zone"], "type": type,
               "name": f"{type.lower()}.{given['zone']}", "ddns": {"auth_token": given["key"], "ddns_server": given["host"], "domain": given["zone"]}, **more}
    return Client(ConfigResolver().with_dict(options)).execute()
def contents(type, wanted):
    for attempt in range(1200):
        found = sorted(one["content"] for one in run("list", type))
        if found == wanted: break
        time.sleep(0.05)
    return found
for type, content in given["wanted"].items(): assert run("create", type, content=content)
listed = {type: ", ".join(contents(type, [content])) for type, content in given["wanted"].items()}
run("update", "A", content="192.0.2.9")
updated = contents("A", ["192.0.2.9"])
for type in given["wanted"]: assert run("delete", type)
left = [one for type in given["wanted"] for one in contents(type, [])]
print(json.dumps({"listed": listed, "updated": updated, "left": left}))
`;
