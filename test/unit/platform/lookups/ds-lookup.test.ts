import { createSocket, type Socket } from "node:dgram";
import { afterEach, describe, expect, it } from "vitest";
import { decodeMessage, encodeMessage } from "../../../../services/core/dns/message.ts";
import { nameFromStoredWire } from "../../../../services/core/dns/name.ts";
import { CLASS, RCODE, TYPE } from "../../../../services/core/dns/rr-types.ts";
import { makeDsLookup } from "../../../../services/platform/lookups/ds-lookup.ts";

const NAME = nameFromStoredWire(Buffer.from("\x07example\x03org\0", "latin1"));
const DS = Uint8Array.from([0x30, 0x39, 13, 2, ...new Array<number>(32).fill(7)]);

let resolver: Socket | undefined;
afterEach(() => {
  resolver?.close();
  resolver = undefined;
});

/** A resolver that has these records for every question, or this rcode. */
async function startResolver(rcode: number, rdatas: readonly Uint8Array[], validates = false): Promise<number> {
  const socket = createSocket("udp4");
  socket.on("message", (octets, { port, address }) => {
    const query = decodeMessage(octets);
    if (!query.ok) throw new Error(query.error.message);
    const { id, questions } = query.value;
    const answers = rdatas.map((rdata) => ({ owner: NAME, type: TYPE.DS, class: CLASS.IN, ttl: 60, rdata }));
    const flags = { qr: true, aa: false, tc: false, rd: true, ra: true, ad: validates, cd: false };
    const reply = { id, opcode: 0, flags, rcode, questions, answers, authorities: [], additionals: [] };
    socket.send(encodeMessage(reply), port, address);
  });
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  resolver = socket;
  return socket.address().port;
}

describe("a look-up of the parent's DS", () => {
  it.each([
    { what: "gives what is there", rcode: RCODE.NOERROR, rdatas: [DS], expected: [DS] },
    { what: "knows that there is none", rcode: RCODE.NOERROR, rdatas: [], expected: [] },
    { what: "knows that the name is not there", rcode: RCODE.NXDOMAIN, rdatas: [], expected: [] },
    { what: "knows nothing of a failure", rcode: RCODE.SERVFAIL, rdatas: [], expected: undefined },
  ])("$what", async ({ rcode, rdatas, expected }) => {
    const port = await startResolver(rcode, rdatas);
    const found = await (await makeDsLookup({ host: "127.0.0.1", port }))(NAME);
    expect(found?.records.map((rdata) => Uint8Array.from(rdata))).toEqual(expected);
  });

  it.each([true, false])("tells whether the resolver has validated it: %s", async (validates) => {
    const port = await startResolver(RCODE.NOERROR, [DS], validates);
    const found = await (await makeDsLookup({ host: "127.0.0.1", port }))(NAME);
    expect(found).toMatchObject({ authenticated: validates, ttlSeconds: 60 });
  });

  it("knows nothing where there is no way to the resolver", async () => {
    // Without leave to broadcast no socket is connected to this address.
    expect(await (await makeDsLookup({ host: "255.255.255.255", port: 53 }))(NAME)).toBeUndefined();
  });

  it("knows nothing where nobody answers, soon", async () => {
    const started = performance.now();
    expect(await (await makeDsLookup({ host: "127.0.0.1", port: 1 }))(NAME)).toBeUndefined();
    expect(performance.now() - started).toBeLessThan(10_000);
  });
});
