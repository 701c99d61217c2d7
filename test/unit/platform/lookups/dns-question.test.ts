import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { afterEach, expect, test } from "vitest";
import { nameFromStoredWire } from "../../../../services/core/dns/name.ts";
import { rcodeMnemonic, TYPE } from "../../../../services/core/dns/rr-types.ts";
import { askDns } from "../../../../services/platform/lookups/dns-question.ts";

const QUESTION = {
  qname: nameFromStoredWire(Buffer.from("\x07example\x03org\0", "latin1")),
  type: TYPE.SOA,
  dnssec: false,
};

let server: Socket | undefined;
afterEach(() => {
  server?.close();
  server = undefined;
});

/** A server that sends these for every query. */
async function startServer(replies: (query: Buffer) => readonly Buffer[]) {
  const socket = createSocket("udp4");
  socket.on("message", (query, { port, address }) => {
    for (const reply of replies(query)) socket.send(reply, port, address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  server = socket;
  return { host: "127.0.0.1", port: socket.address().port };
}

function answerTo(query: Buffer): Buffer {
  const answer = Buffer.from(query);
  answer[2]! |= 0x80;
  return answer;
}

function withId(answer: Buffer, id: number): Buffer {
  const other = Buffer.from(answer);
  other.writeUInt16BE(id & 0xffff, 0);
  return other;
}

test("what is no answer to the question is passed over", async () => {
  const at = await startServer((query) => {
    const answer = answerTo(query);
    return [Buffer.from("stray"), query, withId(answer, answer.readUInt16BE(0) + 1), answer];
  });
  expect(await askDns(at, QUESTION, 60_000)).toMatchObject({ ok: true, value: { transport: "udp" } });
});

test("a server that sends nothing else is no silent one", async () => {
  const at = await startServer(() => [Buffer.from("stray")]);
  expect(await askDns(at, QUESTION, 2_000)).toEqual({ ok: false, error: "malformed" });
});

test("nothing is heard where nobody answers, or there is no way to the server", async () => {
  const at = await startServer(() => []);
  expect(await askDns(at, QUESTION, 300)).toEqual({ ok: false, error: "timeout" });
  // Without leave to broadcast no socket is connected to this address.
  expect(await askDns({ host: "255.255.255.255", port: 53 }, QUESTION, 3_000)).toEqual({ ok: false, error: "timeout" });
});

test.each([
  [0, "NOERROR"],
  [5, "REFUSED"],
  [16, "BADVERS"],
  [24, "RCODE24"],
])("the response code %i is called %s", (rcode, mnemonic) => {
  expect(rcodeMnemonic(rcode)).toBe(mnemonic);
});
