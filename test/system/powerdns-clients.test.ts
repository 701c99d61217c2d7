import { execFile, spawnSync } from "node:child_process";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callApi } from "../support/api-client.ts";
import { type RunningApi, startApiWithCompany } from "../support/dns-api.ts";

/** Debian's, which has Debian's libraries. */
const PYTHON = "/usr/bin/python3";
const KEY = "acme-api-key-0001";
const noteOf = (library: string) =>
  spawnSync(PYTHON, ["-c", `import ${library}`]).status === 0 ? "" : ` (skipped: python3-${library} is not installed)`;
const withoutLexicon = noteOf("lexicon");
const withoutLibcloud = noteOf("libcloud");

/** Of every type that these programs know and that is not made by signing, as PowerDNS writes the content. */
const CONTENTS: Readonly<Record<string, string>> = {
  A: "192.0.2.1",
  AAAA: "2001:db8::1",
  AFSDB: "1 afs.example.net.",
  CERT: "1 0 0 AQIDBA==",
  CNAME: "www.example.net.",
  DS: `12345 13 2 ${"ab".repeat(32)}`,
  HINFO: '"x86" "Linux"',
  // Obsolete (RFC 3445): without a form of its own here.
  KEY: "\\# 8 0100030d01020304",
  LOC: "51 30 12.748 N 0 7 39.612 W 0.00m 1.00m 10000.00m 10.00m",
  MX: "10 mail.example.net.",
  NAPTR: '100 10 "S" "SIP+D2U" "" _sip._udp.example.net.',
  NS: "ns9.example.net.",
  OPENPGPKEY: "AQIDBA==",
  PTR: "www.example.net.",
  RP: "hostmaster.example.net. text.example.net.",
  SPF: '"v=spf1 -all"',
  SRV: "10 5 443 www.example.net.",
  SSHFP: `4 2 ${"cd".repeat(32)}`,
  TLSA: `3 1 1 ${"ef".repeat(32)}`,
  TXT: '"hello world"',
};
/** LOC apart: lexicon puts its content into quotes, which is none of its forms (RFC 1876 §3). */
const LEXICON_TYPES = ["A", "AAAA", "CNAME", "MX", "NS", "TXT", "SRV"];

let api: RunningApi;
let made = 0;

beforeAll(async () => {
  api = await startApiWithCompany();
});
afterAll(() => api.stop());

describe("programs that speak PowerDNS's API", () => {
  it.skipIf(withoutLibcloud !== "")(`libcloud keeps records of every type${withoutLibcloud}`, async () => {
    const said = await python(LIBCLOUD, CONTENTS);
    expect(said.listed).toEqual(CONTENTS);
    expect(said.updated).toEqual([["a.libcloud.example.org.", "192.0.2.9", 120]]);
    expect(said.left).toEqual(["libcloud.example.org. NS", "libcloud.example.org. SOA"]);
    expect(said.zones).toEqual([["libcloud.example.org."], []]);
  });

  it.skipIf(withoutLexicon !== "")(`lexicon keeps records of every type${withoutLexicon}`, async () => {
    const zone = await newZone();
    const contents = LEXICON_TYPES.map((type) => [type, CONTENTS[type]]);
    // It takes every target to be in the zone.
    const wanted = { ...Object.fromEntries(contents), CNAME: `www.${zone}.` };
    const said = await python(LEXICON, { zone, wanted });
    const plain = (content = "") => content.replace(/^"|"$/g, "");
    const asLexiconSays = { ...wanted, TXT: plain(wanted.TXT), CNAME: `www.${zone}` };
    expect(said.listed).toEqual(asLexiconSays);
    expect(said.two).toEqual(["192.0.2.1", "192.0.2.2"]);
    expect(said.updated).toEqual(["192.0.2.2", "192.0.2.9"]);
    expect(said.left).toEqual([]);
  });
});

async function newZone(): Promise<string> {
  made += 1;
  const name = `lexicon${made}.example.org.`;
  const fields = { name, kind: "Master", nameservers: ["ns1.example.net."] };
  const answer = await callApi("POST", `${api.url}/api/v1/servers/localhost/zones`, { "X-API-Key": KEY }, fields);
  expect(answer.status).toBe(201);
  return name.slice(0, -1);
}

/** Runs a program that is given a value and prints one. */
async function python(program: string, given: object) {
  const { stdout } = await promisify(execFile)(PYTHON, ["-c", program, api.url, KEY, JSON.stringify(given)]);
  return JSON.parse(stdout);
}

const LIBCLOUD = `
import json, sys
from urllib.parse import urlsplit
from libcloud.dns.drivers.powerdns import PowerDNSDriver
url, key, contents = urlsplit(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
driver = PowerDNSDriver(key=key, secure=False, host=url.hostname, port=url.port, api_version="v1")
driver.create_zone("libcloud.example.org.", extra={"nameservers": ["ns1.example.net."]})
zones = [[zone.domain for zone in driver.list_zones()]]
zone = driver.get_zone("libcloud.example.org.")
kept = [driver.create_record(f"{type.lower()}.{zone.domain}", zone, type, content, {"ttl": 60}) for type, content in contents.items()]
own = lambda: [record for record in driver.list_records(zone) if record.name != zone.domain]
listed = {record.type: record.data for record in own()}
driver.update_record(kept[0], kept[0].name, "A", "192.0.2.9", {"ttl": 120})
updated = [[record.name, record.data, record.ttl] for record in own() if record.type == "A"]
gone = [driver.delete_record(record) for record in kept]
assert all(gone), gone
left = sorted(f"{record.name} {record.type}" for record in driver.list_records(zone))
assert driver.delete_zone(zone)
zones.append([zone.domain for zone in driver.list_zones()])
print(json.dumps({"listed": listed, "updated": updated, "left": left, "zones": zones}))
`;

const LEXICON = `
import json, sys
from lexicon.client import Client
from lexicon.config import ConfigResolver
url, key, given = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
def run(action, type, **more):
    options = {"provider_name": "powerdns", "action": action, "domain": given["zone"], "delegated": given["zone"], "type": type,
               "powerdns": {"auth_token": key, "pdns_server": url}, **more}
    return Client(ConfigResolver().with_dict(options)).execute()
def contents(type): return sorted(one["content"] for one in run("list", type, name=f"{type.lower()}.{given['zone']}"))
for type, content in given["wanted"].items():
    assert run("create", type, name=f"{type.lower()}.{given['zone']}", content=content)
listed = {type: contents(type)[0] for type in given["wanted"]}
run("create", "A", name=f"a.{given['zone']}", content="192.0.2.2")
two = contents("A")
run("update", "A", name=f"a.{given['zone']}", identifier=f"A/a.{given['zone']}.=192.0.2.1", content="192.0.2.9")
updated = contents("A")
for type in given["wanted"]: assert run("delete", type, name=f"{type.lower()}.{given['zone']}")
left = [one for type in given["wanted"] for one in contents(type)]
print(json.dumps({"listed": listed, "two": two, "updated": updated, "left": left}))
`;
