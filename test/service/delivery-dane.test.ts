import { createHash, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import { makeFindDane } from "../../services/delivery/routing/dane.ts";
import { findMxRoute } from "../../services/delivery/routing/mx-route.ts";
import { makeResolver } from "../../services/platform/lookups/resolver.ts";
import { makeSecureLookup } from "../../services/platform/lookups/secure-lookup.ts";
import { openSmtpSession } from "../../services/platform/smtp/client.ts";
import { makeAuthority, makeServerCertificate } from "../support/certificates.ts";
import { askDns, rcodeOf } from "../support/dns-client.ts";
import { freePort, isInstalled, type Peer, startPeer } from "../support/peers-processes.ts";
import { type SmtpSink, startSmtpSink } from "../support/smtp-sink.ts";
import { eventually } from "../support/stack.ts";

const PROGRAMS = ["named", "unbound", "dnssec-keygen", "dnssec-signzone"];
const missing = PROGRAMS.filter((program) => !isInstalled(program));
const title = missing.length === 0 ? "" : ` (skipped: ${missing.join(", ")} not installed)`;

/** Each domain below a zone has one exchanger, `mx-<domain>`, at the sink's address. */
const DOMAINS = ["ee", "wrong", "anchor", "misnamed", "unusable", "none", "clear"] as const;

describe.skipIf(missing.length > 0)(`DANE by zones that a real resolver validates${title}`, () => {
  let server: Peer;
  let resolver: Peer;
  let encrypting: SmtpSink;
  let plain: SmtpSink;
  /** The name that the last client asked for (RFC 6066 §3: server_name). */
  let askedFor: string | false | null | undefined;

  beforeAll(async () => {
    const authority = await makeAuthority("Test root");
    const own = await makeServerCertificate("mx-anchor.dane.test", { authority });
    const tls = { key: own.key, cert: `${own.cert}\n${authority.cert}`, disabledCommands: ["AUTH"] };
    encrypting = await startSmtpSink({
      ...tls,
      onSecure: (socket, _session, done) => {
        askedFor = (socket as TLSSocket).servername;
        done();
      },
    });
    plain = await startSmtpSink();
    const end = digest(own.cert);
    const root = digest(authority.cert);
    const tlsa = {
      ee: `3 1 1 ${end}`,
      wrong: `3 1 1 ${"00".repeat(32)}`,
      anchor: `2 1 1 ${root}`,
      misnamed: `2 1 1 ${root}`,
      unusable: `0 1 1 ${end}`,
      none: undefined,
      clear: `3 1 1 ${end}`,
    };
    const zone = [
      "$TTL 60",
      "@ SOA ns hostmaster 1 3600 600 86400 60",
      "@ NS ns",
      "ns A 127.0.0.1",
      ...DOMAINS.flatMap((name) => {
        const port = name === "clear" ? plain.port : encrypting.port;
        const record = tlsa[name];
        return [
          `${name} MX 10 mx-${name}`,
          `mx-${name} A 127.0.0.1`,
          ...(record ? [`_${port}._tcp.mx-${name} TLSA ${record}`] : []),
        ];
      }),
      // Exchangers that are aliases: of what they lead to, or else their own.
      "target MX 10 mx-target",
      "mx-target CNAME host-target",
      "host-target A 127.0.0.1",
      `_${encrypting.port}._tcp.host-target TLSA ${tlsa.ee}`,
      `_${encrypting.port}._tcp.mx-target TLSA ${tlsa.wrong}`,
      "alias MX 10 mx-alias",
      "mx-alias CNAME host-alias",
      "host-alias A 127.0.0.1",
      `_${encrypting.port}._tcp.mx-alias TLSA ${tlsa.wrong}`,
      "six MX 10 mx-six",
      "mx-six CNAME host-six",
      "host-six AAAA ::1",
      `_25._tcp.host-six TLSA ${tlsa.ee}`,
      `_25._tcp.mx-six TLSA ${tlsa.wrong}`,
      "outside MX 10 mx-outside",
      "mx-outside CNAME mx-ee.unsigned.test.",
      `_${encrypting.port}._tcp.mx-outside TLSA ${tlsa.wrong}`,
      "",
    ].join("\n");
    let folder = "";
    server = await startPeer("named", await freePort(), (where, port) => {
      folder = where;
      const zones = [
        ["dane.test", "dane.signed"],
        ["bogus.test", "bogus.broken"],
        ["unsigned.test", "unsigned"],
      ];
      const sign = (name: string, file: string) => [
        ["dnssec-keygen", "-q", "-a", "13", "-f", "KSK", name],
        ["dnssec-keygen", "-q", "-a", "13", name],
        ["dnssec-signzone", "-S", "-o", name, "-f", `${file}.signed`, file],
      ];
      return {
        files: {
          dane: zone,
          bogus: zone,
          unsigned: zone,
          "named.conf": `options { directory "${where}"; listen-on port ${port} { 127.0.0.1; }; listen-on-v6 { none; };
            pid-file none; recursion no; session-keyfile none; };
            controls { };
            ${zones.map(([name, file]) => `zone "${name}" { type primary; file "${file}"; };`).join("\n")}`,
        },
        before: [
          ...sign("dane.test", "dane"),
          ...sign("bogus.test", "bogus"),
          // What the signatures do not cover: another exchanger's preference.
          ["sh", "-c", `sed "s/MX[[:space:]]*10 mx/MX 11 mx/" bogus.signed > bogus.broken`],
        ],
        command: ["named", "-g", "-c", `${where}/named.conf`],
      };
    });
    await eventually(
      () => askDns(server.address, "dane.test", "SOA").catch(() => undefined),
      (answer) => answer !== undefined && rcodeOf(answer) === "NOERROR",
    );
    const anchors = ["dane.test", "bogus.test"].map((name) => readFileSync(join(folder, `dsset-${name}.`), "utf8"));
    resolver = await startPeer("unbound", await freePort(), (where, port) => ({
      files: {
        anchors: anchors.join(""),
        "unbound.conf": `server:\n  interface: 127.0.0.1\n  port: ${port}\n  chroot: ""\n  username: ""
  directory: "${where}"\n  pidfile: ""\n  do-daemonize: no\n  use-syslog: no\n  logfile: ""
  access-control: 127.0.0.0/8 allow\n  do-not-query-localhost: no\n  local-zone: "test." nodefault
  trust-anchor-file: "${where}/anchors"\n  module-config: "validator iterator"\nremote-control:\n  control-enable: no
${["dane.test", "bogus.test", "unsigned.test"]
  .map((name) => `stub-zone:\n  name: "${name}"\n  stub-addr: ${server.address.replace(":", "@")}\n`)
  .join("")}`,
      },
      command: ["unbound", "-d", "-c", `${where}/unbound.conf`],
    }));
    const lookUp = await makeSecureLookup({ host: "127.0.0.1", port: resolver.port });
    await eventually(
      () => lookUp("ee.dane.test", TYPE.MX),
      ({ kind }) => kind === "found",
    );
  });
  afterAll(async () => {
    await resolver?.stop();
    await server?.stop();
    await encrypting?.close();
    await plain?.close();
  });

  /** What came of a session with the domain's exchanger. */
  async function meet(domain: string, policy?: { mode: "enforce"; mx: string[] }): Promise<string> {
    const server = { host: "127.0.0.1", port: resolver.port };
    const route = await findMxRoute(domain, {
      resolver: await makeResolver(server),
      findDane: makeFindDane(await makeSecureLookup(server)),
      findPolicy: async () => policy,
      allowedBlocks: ["127.0.0.0/8"],
      ownName: "own.example.net",
      port: domain.startsWith("clear") ? plain.port : encrypting.port,
    });
    if (!route.ok) return `${route.error.code} ${route.error.enhancedStatus}`;
    const timeouts = { connectMs: 60_000, greetingMs: 60_000, commandMs: 60_000 };
    const session = await openSmtpSession(route.value.peers[0]!, { hostname: "localhost", timeouts });
    if (!session.ok) {
      expect(session.error).toMatchObject({ stage: "starttls" });
      return session.error.kind === "broken" ? session.error.text : "refused";
    }
    session.value.close();
    return `${route.value.peers[0]!.tls}, ${session.value.encrypted ? "encrypted" : "in clear"}`;
  }

  test.each([
    ["ee.dane.test", "dane, encrypted"],
    ["wrong.dane.test", "DANE: the certificate matches no TLSA record"],
    ["anchor.dane.test", "dane, encrypted"],
    ["misnamed.dane.test", "DANE: the certificate is not for mx-misnamed.dane.test"],
    ["unusable.dane.test", "dane, encrypted"],
    ["none.dane.test", "opportunistic, encrypted"],
    ["clear.dane.test", "STARTTLS is not offered"],
    ["target.dane.test", "dane, encrypted"],
    ["alias.dane.test", "DANE: the certificate matches no TLSA record"],
    ["outside.dane.test", "DANE: the certificate matches no TLSA record"],
  ])("%s: %s", async (domain, outcome) => {
    expect(await meet(domain)).toEqual(outcome);
  });

  test("a server is asked for the name whose TLSA records count", async () => {
    await meet("ee.dane.test");
    expect(askedFor).toBe("mx-ee.dane.test");
    await meet("target.dane.test");
    expect(askedFor).toBe("host-target.dane.test");
  });

  test("what an alias leads to comes first, whichever kind of address it has", async () => {
    const findDane = makeFindDane(await makeSecureLookup({ host: "127.0.0.1", port: resolver.port }));
    const demand = await findDane("six.dane.test", "mx-six.dane.test", 25);
    expect(demand).toMatchObject({ kind: "proof", requirement: { names: ["host-six.dane.test", "six.dane.test"] } });
  });

  test("a zone that fails validation gets no mail; one that is not signed has no TLSA records", async () => {
    expect(await meet("ee.bogus.test")).toBe("451 4.4.3");
    expect(await meet("wrong.unsigned.test")).toBe("opportunistic, encrypted");
  });

  test("comes before MTA-STS", async () => {
    const policy = { mode: "enforce" as const, mx: ["elsewhere.example.org"] };
    expect(await meet("ee.dane.test", policy)).toBe("dane, encrypted");
    expect(await meet("wrong.dane.test", policy)).toMatch(/^DANE: /);
    expect(await meet("none.dane.test", policy)).toBe("451 4.7.5");
  });

  test("an answer that does not fit into a datagram is fetched over TCP; a resolver that is away is a failure", async () => {
    const lookUp = await makeSecureLookup({ host: "127.0.0.1", port: resolver.port });
    expect(await lookUp("ee.dane.test", TYPE.MX)).toMatchObject({ kind: "found", secure: true });
    expect(await lookUp("ee.unsigned.test", TYPE.MX)).toMatchObject({ kind: "found", secure: false });
    expect(await lookUp("nothing.dane.test", TYPE.TLSA)).toMatchObject({ kind: "absent", secure: true });
    const away = await makeSecureLookup({ host: "127.0.0.1", port: await freePort() });
    expect((await away("ee.dane.test", TYPE.MX)).kind).toBe("failure");
  });
});

/** SHA-256 of a certificate's public key. */
function digest(cert: string): string {
  const { publicKey } = new X509Certificate(cert);
  return createHash("sha256")
    .update(publicKey.export({ type: "spki", format: "der" }))
    .digest("hex");
}
