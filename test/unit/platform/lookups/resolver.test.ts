import { createSocket, type Socket } from "node:dgram";
import { decode, encode, RECURSION_AVAILABLE } from "dns-packet";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { domainExists, makeResolver, type Resolver } from "../../../../services/platform/lookups/resolver.ts";

/** Response codes, RFC 1035 §4.1.1. */
const RCODES = { noerror: 0, servfail: 2, nxdomain: 3, refused: 5 } as const;

/** What the test's name server says of a name: by record type, or a response code for all of them. */
const ZONES: Readonly<Record<string, keyof typeof RCODES | "silence" | Readonly<Record<string, unknown>>>> = {
  "mx.example.org": { MX: { preference: 10, exchange: "mail.example.org" } },
  "null.example.org": { MX: { preference: 0, exchange: "." } },
  "a.example.org": { A: "192.0.2.1" },
  "aaaa.example.org": { AAAA: "2001:db8::1" },
  "empty.example.org": {},
  "gone.example.org": "nxdomain",
  "broken.example.org": "servfail",
  "closed.example.org": "refused",
  "silent.example.org": "silence",
};

let server: Socket;
let resolver: Resolver;
beforeAll(async () => {
  server = createSocket("udp4");
  server.on("message", (octets, peer) => {
    const query = decode(octets);
    const { name, type } = query.questions![0]!;
    const said = ZONES[name.toLowerCase()] ?? "nxdomain";
    if (said === "silence") return;
    const data = typeof said === "string" ? undefined : said[type];
    const rcode = typeof said === "string" ? RCODES[said] : RCODES.noerror;
    const answers = data === undefined ? [] : [{ name, type, ttl: 60, data }];
    const reply = encode({
      type: "response",
      id: query.id,
      flags: RECURSION_AVAILABLE | rcode,
      questions: query.questions,
      answers: answers as never,
    });
    server.send(reply, peer.port, peer.address);
  });
  await new Promise<void>((resolve) => server.bind(0, "127.0.0.1", resolve));
  resolver = await makeResolver({ host: "127.0.0.1", port: server.address().port });
});
afterAll(() => {
  server.close();
});

describe("look-ups", () => {
  test.each([
    ["mx.example.org", { kind: "found", records: [{ preference: 10, exchange: "mail.example.org" }] }],
    ["null.example.org", { kind: "found", records: [{ preference: 0, exchange: "" }] }],
    ["a.example.org", { kind: "nodata" }],
    ["gone.example.org", { kind: "nxdomain" }],
    ["broken.example.org", { kind: "server-failure" }],
    ["closed.example.org", { kind: "server-failure" }],
    ["silent.example.org", { kind: "timeout" }],
  ])("MX of %s is %o", async (name, expected) => {
    expect(await resolver.resolveMx(name)).toEqual(expected);
  });

  test("addresses of both families", async () => {
    expect(await resolver.resolveA("a.example.org")).toEqual({ kind: "found", records: ["192.0.2.1"] });
    expect(await resolver.resolveAaaa("aaaa.example.org")).toEqual({ kind: "found", records: ["2001:db8::1"] });
    expect(await resolver.resolveAaaa("a.example.org")).toEqual({ kind: "nodata" });
  });

  test("a name that cannot be asked for does not exist", async () => {
    expect(await resolver.resolveMx(`${"x".repeat(64)}.example.org`)).toEqual({ kind: "nxdomain" });
  });
});

describe("domainExists", () => {
  test.each([
    ["mx.example.org", true],
    ["a.example.org", true],
    ["aaaa.example.org", true],
    ["silent.example.org", true],
    ["empty.example.org", false],
    ["gone.example.org", false],
    ["broken.example.org", false],
  ])("%s: %s", async (name, exists) => {
    expect(await domainExists(resolver, name)).toBe(exists);
  });

  test("a resolver that is not there is a time-out", async () => {
    const nobody = createSocket("udp4");
    await new Promise<void>((resolve) => nobody.bind(0, "127.0.0.1", resolve));
    const { port } = nobody.address();
    await new Promise<void>((resolve) => nobody.close(() => resolve()));
    expect(await domainExists(await makeResolver({ host: "localhost", port }), "gone.example.org")).toBe(true);
  });
});
