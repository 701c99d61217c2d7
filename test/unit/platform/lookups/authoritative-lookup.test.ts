import { createSocket, type Socket } from "node:dgram";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { decodeMessage, encodeMessage } from "../../../../services/core/dns/message.ts";
import { CLASS, RCODE, TYPE } from "../../../../services/core/dns/rr-types.ts";
import { encodeSoaRdata } from "../../../../services/core/dns/soa.ts";
import type { HostPort } from "../../../../services/platform/config/config-values.ts";
import { makePublicLook } from "../../../../services/platform/lookups/authoritative-lookup.ts";
import { makeSecureLookup } from "../../../../services/platform/lookups/secure-lookup.ts";
import { nameOf } from "../../../support/dns-server.ts";

/** RDATA by type that resolver and name server have at every name. */
let records: Map<number, Uint8Array>;
let server: Socket;
let at: HostPort;

const NAME = nameOf("example.org");
const SOA = encodeSoaRdata({
  ...{ mname: NAME, rname: NAME, serial: 1, refresh: 7_200, retry: 3_600, expire: 86_400, minimum: 30 },
});
const TXT = Uint8Array.of(1, 65);
const NOTHING = new Uint8Array(0);

beforeEach(async () => {
  records = new Map<number, Uint8Array>([
    [TYPE.SOA, SOA],
    [TYPE.NS, NAME.wire],
    [TYPE.A, Uint8Array.of(127, 0, 0, 1)],
    [TYPE.TXT, TXT],
  ]);
  server = createSocket("udp4");
  server.on("message", (octets, { port, address }) => {
    const query = decodeMessage(octets);
    if (!query.ok) throw new Error(query.error.message);
    const { id, questions } = query.value;
    const [{ name: owner, type: asked } = { name: NAME, type: 0 }] = questions;
    const answers = [asked, TYPE.RRSIG].flatMap((type) => {
      const rdata = records.get(type);
      return rdata ? [{ owner, type, class: CLASS.IN, ttl: 60, rdata }] : [];
    });
    const flags = { qr: true, aa: true, tc: false, rd: true, ra: true, ad: true, cd: false };
    const reply = { id, opcode: 0, flags, rcode: RCODE.NOERROR, questions, answers, authorities: [], additionals: [] };
    server.send(encodeMessage(reply), port, address);
  });
  await new Promise<void>((resolve) => server.bind(0, "127.0.0.1", resolve));
  at = { host: "127.0.0.1", port: server.address().port };
});

afterEach(() => server.close());

const openLook = () =>
  makePublicLook({
    config: { resolver: at, domainCheck: "authoritative", fetchAllow: ["127.0.0.0/8"] } as never,
    port: at.port,
  });

describe("a look at what a domain publishes", () => {
  it("takes what its name servers say", async () => {
    const look = (await openLook())();
    expect(await look.ask("example.org", TYPE.TXT)).toEqual({
      servers: [{ server: "example.org", answered: true, records: [TXT], ttlSeconds: 60 }],
      negativeSeconds: 30,
    });
  });

  it("knows nobody who answers where the SOA has no octets", async () => {
    records.set(TYPE.SOA, NOTHING);
    const look = (await openLook())();
    expect(await look.ask("example.org", TYPE.TXT)).toEqual({ servers: [], negativeSeconds: 0 });
  });

  it("has no answer of a server whose records are malformed", async () => {
    records.set(TYPE.TXT, NOTHING);
    const look = (await openLook())();
    const { servers } = await look.ask("example.org", TYPE.TXT);
    expect(servers).toMatchObject([{ server: "example.org", answered: false }]);
  });

  it("has no addresses of servers that are malformed", async () => {
    records.set(TYPE.A, NOTHING);
    const look = (await openLook())();
    const { servers } = await look.ask("example.org", TYPE.TXT);
    expect(servers).toMatchObject([{ server: "example.org", answered: false }]);
  });
});

describe("a look-up of validated records", () => {
  it.each([
    ["a signature without octets", TYPE.RRSIG],
    ["a record without octets", TYPE.TLSA],
  ])("takes %s for a failure", async (_, type) => {
    records.set(type, NOTHING);
    const lookUp = await makeSecureLookup(at);
    expect(await lookUp("_25._tcp.example.org", TYPE.TLSA)).toMatchObject({
      kind: "failure",
      secure: false,
      records: [],
    });
  });

  it("gives a digest of a wrong length to who judges it", async () => {
    const tlsa = Uint8Array.of(3, 1, 1, 7);
    records.set(TYPE.TLSA, tlsa);
    const lookUp = await makeSecureLookup(at);
    const { kind, records: found } = await lookUp("_25._tcp.example.org", TYPE.TLSA);
    expect({ kind, found: found.map((rdata) => [...rdata]) }).toEqual({ kind: "found", found: [[...tlsa]] });
  });
});
