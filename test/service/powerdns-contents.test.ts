import { afterAll, beforeAll, expect, test } from "vitest";
import { callApi } from "../support/api-client.ts";
import { type RunningApi, startApiWithCompany } from "../support/dns-api.ts";
import { freePort, isInstalled, type Peer, startPeer } from "../support/peers-processes.ts";
import { eventually } from "../support/stack.ts";

const why = isInstalled("pdns_server") ? "" : " (skipped: pdns_server is not installed)";
const SCHEMA = "/usr/share/doc/pdns-backend-sqlite3/schema.sqlite3.sql";
const KEY = "acme-api-key-0001";
const ZONE = "contents.example.org.";

/** Records as PowerDNS takes them: for most types it refuses what it would not write itself. */
const CONTENTS: readonly (readonly [type: string, content: string])[] = [
  ["A", "192.0.2.1"],
  ["AAAA", "2001:db8::1"],
  ["AAAA", "2001:DB8:0:0::2"],
  ["AFSDB", "1 x.example.net."],
  ["APL", "1:192.0.2.0/24 !1:192.0.2.64/28"],
  ["CAA", '0 issue "ca.example.net; account=230123"'],
  ["CERT", "1 0 0 AQID"],
  ["CSYNC", "66 3 A NS AAAA"],
  ["DNAME", "x.example.net."],
  ["EUI48", "00-11-22-AA-BB-CC"],
  ["HINFO", '"PC" "Linux"'],
  ["HTTPS", "1 . alpn=h2,h3 ipv4hint=192.0.2.1,192.0.2.2 ipv6hint=2001:db8::1"],
  ["HTTPS", "1 svc.example.net. mandatory=port alpn=h2 no-default-alpn port=8443"],
  ["HTTPS", '2 svc.example.net. alpn=h2 ech="AEX+DQA="'],
  ["SVCB", "0 svc.example.net."],
  ["SVCB", '1 svc.example.net. alpn=h2 port=53 key667="hello"'],
  ["LOC", "51 30 12.000 N 0 7 39.000 W 10.00m 4.00m 10000.00m 10.00m"],
  ["LOC", "0 0 0.500 S 179 59 59.999 E -100.25m 0.01m 30.00m 500.00m"],
  ["LP", "10 x.example.net."],
  ["MX", "10 mail.example.net."],
  ["NAPTR", '100 10 "S" "SIP+D2U" "" _sip._udp.example.net.'],
  ["NAPTR", '100 10 "u" "E2U+sip" "!^.*$!sip:info@example.net!" .'],
  ["L64", "10 2001:0DB8:1140:1000"],
  ["NID", "10 0014:4fff:ff20:ee64"],
  ["OPENPGPKEY", "mQENBFs="],
  ["RP", "ops.example.net. txt.example.net."],
  ["SMIMEA", "3 1 1 D2ABDE240D7CD3EE6B4B28C54DF034B97983A1D16E8A410E4561CB106618E971"],
  ["SRV", "1 2 5060 sip.example.net."],
  ["SSHFP", "4 2 D2ABDE240D7CD3EE6B4B28C54DF034B97983A1D16E8A410E4561CB106618E971"],
  ["TLSA", "3 1 1 D2ABDE240D7CD3EE6B4B28C54DF034B97983A1D16E8A410E4561CB106618E971"],
  ["TXT", '"v=spf1 include:_spf.example.net -all"'],
  ["TXT", '"a;b\\"c\\\\d" "second"'],
  ["TXT", '"tab\\009and\\255"'],
  ["URI", '10 1 "https://x.example.net/a?b=c"'],
  [
    "ZONEMD",
    "2018031900 1 1 A3B69BAD980A3504E1CC9D85E2A0E8AC5E5C1F5B83B9F9B04E8DFAB5B5C3C2E1A3B69BAD980A3504E1CC9D85E2A0E8AC",
  ],
  ["TYPE999", "\\# 2 ABCD"],
];

/** Texts whose quotes leave open where one ends and the next begins. */
const DOUBTFUL_TEXTS = [
  '"a"b"c"',
  '"a""b"',
  '"a"b',
  '"a" b',
  'a "b"',
  "one two",
  "one",
  '("a" "b")',
  '"a" ("b")',
].flatMap((content) => [["TXT", content] as const, ["SPF", content] as const]);

let api: RunningApi;
let peer: Peer;
let peerUrl: string;

beforeAll(async () => {
  if (why !== "") return;
  api = await startApiWithCompany();
  const web = await freePort();
  peer = await startPeer("pdns", await freePort(), (folder, port) => ({
    files: {
      "pdns.conf": Object.entries({
        ...{ launch: "gsqlite3", "gsqlite3-database": `${folder}/pdns.db`, "socket-dir": folder },
        ...{ "local-address": "127.0.0.1", "local-port": port },
        ...{ api: "yes", "api-key": KEY, webserver: "yes", "webserver-address": "127.0.0.1", "webserver-port": web },
      })
        .map(([name, value]) => `${name}=${value}`)
        .join("\n"),
    },
    before: [["sh", "-c", `sqlite3 ${folder}/pdns.db < ${SCHEMA}`]],
    command: ["pdns_server", `--config-dir=${folder}`, "--daemon=no", "--guardian=no"],
  }));
  peerUrl = `http://127.0.0.1:${web}`;
  await eventually(
    () => ask(peerUrl, "GET", "").catch(() => undefined),
    (answer) => answer?.status === 200,
  );
});

afterAll(async () => {
  await peer?.stop();
  await api?.stop();
});

const ask = (url: string, method: string, path: string, body?: unknown) =>
  callApi(method, `${url}/api/v1/servers/localhost${path}`, { "X-API-Key": KEY }, body);

/** What a server makes of contents, each at a name of its own: what it writes, or why it refuses it. */
async function contentsAt(url: string, contents = CONTENTS): Promise<string[]> {
  await ask(url, "POST", "/zones", { name: ZONE, kind: "Native", nameservers: ["ns1.example.net."] });
  const outcomes: string[] = [];
  for (const [index, [type, content]] of contents.entries()) {
    const name = `r${index}.${ZONE}`;
    const records = [{ content, disabled: false }];
    const rrsets = [{ name, type, ttl: 300, changetype: "REPLACE", records }];
    const changed = await ask(url, "PATCH", `/zones/${ZONE}`, { rrsets });
    if (changed.status !== 204) {
      outcomes.push(`${type} ${content}: ${JSON.stringify(changed.body)}`);
      continue;
    }
    const { body } = await ask(url, "GET", `/zones/${ZONE}`);
    const found = body.rrsets.find(
      (rrset: { name: string; type: string }) => rrset.name === name && rrset.type === type,
    );
    outcomes.push(`${type} ${found.records[0].content}`);
  }
  return outcomes;
}

test.skipIf(why !== "")(`contents read as PowerDNS writes them${why}`, async () => {
  expect(await contentsAt(api.url)).toEqual(await contentsAt(peerUrl));
});

test.skipIf(why !== "")(
  `texts that are not in quotes, or touch each other, are refused as by PowerDNS${why}`,
  async () => {
    for (const url of [api.url, peerUrl]) {
      const outcomes = await contentsAt(url, DOUBTFUL_TEXTS);
      expect(outcomes).toEqual(DOUBTFUL_TEXTS.map(() => expect.stringMatching(/: \{"error":"/)));
    }
  },
);
