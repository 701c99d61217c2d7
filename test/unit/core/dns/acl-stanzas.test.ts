import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  policyStanza,
  type Secondary,
  type StanzaFacts,
  secondaryStanza,
} from "../../../../services/core/dns/acl-stanzas.ts";
import { isInstalled } from "../../../support/peers-processes.ts";

const KEY = { name: "key.example", algorithm: "hmac-sha512", secret: Buffer.alloc(64, 1) } as const;
const OTHER_KEY = { ...KEY, name: "policies.example" } as const;
const facts = (aclName: string, zones: string[], more: Partial<StanzaFacts> = {}): StanzaFacts => ({
  resellerId: "one",
  aclName,
  key: null,
  primary: { host: "192.0.2.53", port: 5300 },
  zones: zones.map((name) => ({ name, isCatalog: false })),
  ...more,
});

/** Names that a careless identifier would make the same, or that would break a file. */
const STANZAS = [
  facts("plain", ["example.org", "1.2.0.192.in-addr.arpa"]),
  facts("with key", ["example.net"], { key: KEY }),
  facts("with-key", ["0/25.2.0.192.in-addr.arpa"], { primary: { host: "2001:db8::53", port: 53 } }),
  facts('odd "name"; {}', ["xn--mnchen-3ya.example"]),
  facts("ümläut", []),
  facts("Plain", ["case.example"]),
  facts("plain", ["other.example"], { resellerId: "other" }),
  facts("private", ["1.168.192.in-addr.arpa", "inside.test", "test", "home.arpa", "c.d.f.ip6.arpa"]),
];

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "palomar-stanzas-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const CHECKERS: readonly (readonly [Exclude<Secondary, "pdns">, head: string, command: readonly string[]])[] = [
  ["bind", "", ["named-checkconf"]],
  ["nsd", 'server:\n  zonesdir: "/tmp"\n', ["nsd-checkconf"]],
  ["knot", "", ["knotc", "conf-check", "-c"]],
  ["unbound", "", ["unbound-checkconf"]],
];

const CATALOGS = ["one.catalog.example", "two.catalog.example"];
const FEEDS = ["one.policy.example", "two.policy.example"];

/** What several catalogs of an ACL, or several policy zones, come to beside the stanzas of other ACLs. */
const WITH_SEVERAL: { readonly [program in Exclude<Secondary, "pdns">]: readonly string[] } = {
  bind: [
    secondaryStanza("bind", catalogsOf("catalogs")),
    policyStanza("bind", facts("policies", [], { key: OTHER_KEY }), FEEDS),
  ],
  nsd: [secondaryStanza("nsd", catalogsOf("catalogs"))],
  knot: [secondaryStanza("knot", catalogsOf("catalogs"))],
  unbound: [
    policyStanza("unbound", facts("policies", []), FEEDS),
    policyStanza("unbound", facts("more", []), ["more.example"]),
  ],
};

function catalogsOf(aclName: string): StanzaFacts {
  return facts(aclName, [], { zones: CATALOGS.map((name) => ({ name, isCatalog: true })) });
}

/** What a stanza of BIND says in comments, where it says that it belongs. */
function optionsOf(stanzas: readonly string[]): string {
  const wanted = stanzas.flatMap((stanza) => [...stanza.matchAll(/^\/\/ in options: (.*)$/gm)].map(([, text]) => text));
  return `options { directory "/tmp"; ${wanted.join(" ")} };\n`;
}

describe("stanzas of several ACLs fit one file", () => {
  for (const [program, head, [checker = "", ...args]] of CHECKERS) {
    const env = { PATH: `${process.env.PATH}:/usr/sbin` };
    const missing = isInstalled(checker) ? "" : ` (skipped: no ${checker} installed)`;
    it.skipIf(missing !== "")(`of ${program}, says ${checker}${missing}`, () => {
      const file = join(folder, program);
      const stanzas = [...STANZAS.map((stanza) => secondaryStanza(program, stanza)), ...WITH_SEVERAL[program]];
      writeFileSync(
        file,
        (program === "bind" ? optionsOf(stanzas) : head) + stanzas.map((text) => `${text}\n`).join(""),
      );
      const checkArgs = program === "knot" ? ["-c", file, "conf-check"] : [...args, file];
      const { status, stdout, stderr } = spawnSync(checker, checkArgs, { env, encoding: "utf8", cwd: folder });
      expect(`${stdout}${stderr} ${status}`).toMatch(/ 0$/);
    });
  }

  it("of BIND and have each of its statements that are there once but once", () => {
    for (const text of WITH_SEVERAL.bind) expect(text.match(/^\/\/ in options: /gm)).toHaveLength(1);
    expect(WITH_SEVERAL.bind[1]!.match(/^(key|primaries) /gm)).toEqual(["key ", "primaries "]);
    expect(optionsOf(WITH_SEVERAL.bind)).toContain(
      'response-policy { zone "one.policy.example" min-update-interval 1; zone "two.policy.example" min-update-interval 1; };',
    );
  });

  it("of the recursor, in the order in which the zones are applied", () => {
    const lines = policyStanza("recursor", STANZAS[1]!, FEEDS).split("\n");
    expect(lines.map((line) => line.split(", ")[1])).toEqual(FEEDS.map((feed) => `"${feed}"`));
  });
});

describe("what the stanzas say", () => {
  it("carries the secret and the primary's address", () => {
    const stanza = secondaryStanza("bind", STANZAS[1]!);
    expect(stanza).toContain(`secret "${KEY.secret.toString("base64")}";`);
    expect(stanza).toContain('192.0.2.53 port 5300 key "key.example";');
  });

  it("prints commands for PowerDNS", () => {
    expect(secondaryStanza("pdns", STANZAS[1]!).split("\n")).toEqual([
      `pdnsutil import-tsig-key 'key.example' hmac-sha512 '${KEY.secret.toString("base64")}'`,
      "pdnsutil create-secondary-zone 'example.net' '192.0.2.53:5300'",
      "pdnsutil activate-tsig-key 'example.net' 'key.example' secondary",
      "pdnsutil set-meta 'example.net' IXFR 1",
    ]);
  });

  it("tells PowerDNS what the members of a catalog lack", () => {
    const catalog = (key: StanzaFacts["key"]) =>
      secondaryStanza("pdns", { ...STANZAS[1]!, key, zones: [{ name: "catalog.example", isCatalog: true }] }).split(
        "\n",
      );
    expect(catalog(KEY).slice(1)).toEqual([
      "pdnsutil create-secondary-zone 'catalog.example' '192.0.2.53:5300'",
      "pdnsutil activate-tsig-key 'catalog.example' 'key.example' secondary",
      "pdnsutil set-kind 'catalog.example' consumer",
      "# The catalog's members ask without the key: add the address of this server to the ACL (--block), or for each member:",
      "# pdnsutil activate-tsig-key MEMBER 'key.example' secondary",
    ]);
    expect(catalog(null)).toEqual([
      "pdnsutil create-secondary-zone 'catalog.example' '192.0.2.53:5300'",
      "pdnsutil set-kind 'catalog.example' consumer",
    ]);
  });

  it("tells whoever has no TSIG so", () => {
    expect(secondaryStanza("unbound", STANZAS[1]!)).toMatch(/^# Unbound has no TSIG/);
    expect(policyStanza("unbound", STANZAS[0]!, ["policy.example"])).not.toContain("TSIG");
  });

  it.each([
    ["test", "inside.test", "a.b.onion", "home.arpa", "localhost", "1.168.192.in-addr.arpa", "5.20.172.in-addr.arpa"],
    [
      "9.99.100.in-addr.arpa",
      "0.0.127.in-addr.arpa",
      "8.7.d.f.ip6.arpa",
      "8.b.d.0.1.0.0.2.ip6.arpa",
      `1.${"0.".repeat(31)}ip6.arpa`,
    ],
  ])("has Unbound leave to the zones what it would answer itself", (...names) => {
    for (const name of names) {
      const lines = secondaryStanza("unbound", facts("private", ["example.org", name])).split("\n");
      expect(lines.filter((line) => line.includes("local-zone"))).toEqual([`  local-zone: "${name}" transparent`]);
    }
  });

  it.each(["example.org", "test.example", "latest", "1.32.172.in-addr.arpa", "1.1.192.in-addr.arpa", "e.f.ip6.arpa"])(
    "lets Unbound be for %s, which is none of its own",
    (name) => expect(secondaryStanza("unbound", facts("public", [name]))).not.toContain("local-zone"),
  );

  it("gives the recursor its key", () => {
    expect(policyStanza("recursor", STANZAS[1]!, ["policy.example"])).toBe(
      `rpzPrimary({"192.0.2.53:5300"}, "policy.example", {tsigname="key.example", tsigalgo="hmac-sha512", ` +
        `tsigsecret="${KEY.secret.toString("base64")}", refresh=5})`,
    );
  });
});

it.each(["bind", "knot", "pdns"] as const)("%s has a catalog's members by the catalog alone", (program) => {
  const zones = [
    { name: "catalog.example.org", isCatalog: true },
    { name: "member.example.org", isCatalog: false },
  ];
  const stanza = secondaryStanza(program, facts("one", [], { zones }));
  expect(stanza).toContain("catalog.example.org");
  expect(stanza).not.toContain("member.example.org");
  expect(secondaryStanza(program, facts("one", [], { zones: zones.slice(1) }))).toContain("member.");
});
