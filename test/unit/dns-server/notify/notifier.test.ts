import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { OPCODE, RCODE } from "../../../../services/core/dns/rr-types.ts";
import { type TsigKey, verifyRequest } from "../../../../services/core/dns/tsig.ts";
import { Notifier } from "../../../../services/dns-server/notify/notifier.ts";
import { AccessTable } from "../../../../services/dns-server/transfer/access-table.ts";
import type { HostPort } from "../../../../services/platform/config/config-values.ts";
import type { Resolver } from "../../../../services/platform/lookups/resolver.ts";
import type { ObservationKind } from "../../../../services/platform/observability/observation.ts";
import type { ZoneState } from "../../../../services/store/dns/zone-states.ts";
import { nameOf } from "../../../support/dns-server.ts";

const NOW_SECONDS = 1_800_000_000;
const KEY = { name: "told.example.", algorithm: "hmac-sha256" } as const;

let secondary: Socket;
let notifier: Notifier;
let access: AccessTable;
let listen: HostPort[];
let seen: ObservationKind[];

/** The ACL's key as it is from now on. */
function setSecret(text: string): TsigKey {
  const secret = Buffer.from(text);
  access = tableOf("127.0.0.1", secret);
  return { ...KEY, name: nameOf("told.example"), secret };
}

/** An ACL with one server to tell; signed where there is a secret. */
function tableOf(host: string, secret?: Buffer): AccessTable {
  const notify = [`${host}:${secondary.address().port}`];
  return new AccessTable({
    version: 1,
    keys: secret ? [{ ...KEY, secret }] : [],
    unopenedKeys: [],
    grants: [{ resellerId: "1", name: "told", blocks: [], keyName: secret ? KEY.name : null, zones: null, notify }],
    restricted: [],
  });
}

function publish(zone: string): void {
  const apex = Buffer.from(nameOf(zone).key, "latin1");
  const soaRdata = Buffer.concat([apex, apex, Buffer.alloc(20, 1)]);
  const state: ZoneState = {
    ...{ id: 1, apex, published: true, version: 1, soaTtlSeconds: 300, negativeTtlSeconds: 300, expireSeconds: 300 },
    ...{ soaRdata, resellerId: "1", restricted: false },
  };
  notifier.zonesPublished([state]);
}

const nextMessage = async (): Promise<Buffer> => (await once(secondary, "message"))[0];
const verdictOn = (message: Buffer, key: TsigKey) => verifyRequest(message, () => key, NOW_SECONDS).kind;

beforeEach(async () => {
  secondary = createSocket("udp4").bind(0, "127.0.0.1");
  await once(secondary, "listening");
  listen = [];
  seen = [];
  // Nobody acknowledges: what was told first is under way for as long as the test takes.
  notifier = makeNotifier(600);
});

function makeNotifier(waitSeconds: number): Notifier {
  return new Notifier({
    policy: { waitSeconds: [waitSeconds, waitSeconds], restMs: 0, inFlightPerServer: 10 },
    access: () => access,
    listen,
    notifyNs: false,
    db: undefined as never,
    resolver: {
      resolveA: async (host: string) =>
        host === "localhost" ? { kind: "nxdomain" } : { kind: "found", records: ["127.0.0.1"] },
      resolveAaaa: async () => ({ kind: "found", records: ["2001:db8::1"] }),
    } as unknown as Resolver,
    nowSeconds: () => NOW_SECONDS,
    observe: ({ kind }) => seen.push(kind),
  });
}

afterEach(async () => {
  await notifier.stop();
  secondary.close();
});

test("a key whose secret has changed signs what is told from then on", async () => {
  const before = setSecret("a secret of the first key");
  publish("example.org");
  expect(verdictOn(await nextMessage(), before)).toBe("valid");
  const after = setSecret("a secret of the second key");
  publish("example.net");
  expect(verdictOn(await nextMessage(), after)).toBe("valid");
});

test("localhost is this host, whatever the resolver says", async () => {
  notifier = makeNotifier(0.5);
  access = tableOf("localhost");
  publish("example.org");
  expect((await nextMessage())[2]! >> 3).toBe(OPCODE.NOTIFY);
});

/** An address that no host has: nothing is bound to it. */
const NOT_OURS = { host: "2001:db8::53", port: 53 };

test("an address family that cannot be had is no failure where the other has acknowledged", async () => {
  listen.push(NOT_OURS);
  notifier = makeNotifier(0.5);
  let told = 0;
  // RFC 1996 §4.7: the answer is the message with QR set; unsigned.
  secondary.on("message", (message, { address, port }) => {
    told += 1;
    message[2]! |= 0x80;
    secondary.send(message, port, address);
  });
  access = tableOf("both.example.net");
  publish("example.org");
  await sleep(1_500);
  expect({ told, seen }).toEqual({ told: 1, seen: [] });
});

test("a socket that could not be bound is made anew for the next message", async () => {
  listen.push({ host: "192.0.2.53", port: 53 });
  notifier = makeNotifier(600);
  access = tableOf("127.0.0.1");
  publish("example.org");
  await expect.poll(() => seen).toEqual(["notify-failed"]);
  listen.pop();
  publish("example.net");
  expect((await nextMessage())[2]! >> 3).toBe(OPCODE.NOTIFY);
});

/** The notice as an answer with a response code; by default with the opcode that Unbound's errors have. */
function answerTo(notice: Buffer, rcode: number, { opcode = OPCODE.QUERY as number, question = true } = {}): Buffer {
  const questionEnd = notice.indexOf(0, 12) + 5;
  const answer = Buffer.from(question ? notice.subarray(0, questionEnd) : notice.subarray(0, 12));
  answer[2] = 0x80 | (opcode << 3);
  answer[3] = rcode;
  answer.fill(0, 6);
  if (question) notice.copy(answer, 12, 12, questionEnd);
  else answer[5] = 0;
  return answer;
}

const kindsOf = (notices: readonly Buffer[], key: TsigKey) => notices.map((notice) => verdictOn(notice, key));

test.each([
  ["FORMERR", RCODE.FORMERR, {}],
  ["FORMERR without a question", RCODE.FORMERR, { question: false }],
  ["NOTIMP", RCODE.NOTIMP, { opcode: OPCODE.NOTIFY }],
])("a server that answers a signed notice with %s is told at once without", async (_, rcode, shape) => {
  notifier = makeNotifier(5);
  const notices: Buffer[] = [];
  const key = setSecret("a secret that it does not know");
  secondary.on("message", (notice, { address, port }) => {
    notices.push(notice);
    const isSigned = verdictOn(notice, key) === "valid";
    const answer = isSigned
      ? answerTo(notice, rcode, shape)
      : answerTo(notice, RCODE.NOERROR, { opcode: OPCODE.NOTIFY });
    secondary.send(answer, port, address);
  });
  publish("example.org");
  await expect.poll(() => kindsOf(notices, key)).toEqual(["valid", "unsigned"]);
  // Acknowledged: the next news are told at once, signed first.
  publish("example.org");
  await expect.poll(() => kindsOf(notices, key)).toEqual(["valid", "unsigned", "valid", "unsigned"]);
  expect(seen).toEqual([]);
});

test.each([
  ["of another zone", (notice: Buffer) => answerTo(setZone(notice), RCODE.FORMERR)],
  ["with another id", (notice: Buffer) => answerTo(setId(notice), RCODE.FORMERR)],
  ["with another error", (notice: Buffer) => answerTo(notice, RCODE.REFUSED, { opcode: OPCODE.NOTIFY })],
  ["that acknowledges it unsigned", (notice: Buffer) => answerTo(notice, RCODE.NOERROR, { opcode: OPCODE.NOTIFY })],
])("an unsigned answer %s has nothing told without a signature", async (_, answerOf) => {
  notifier = makeNotifier(0.3);
  const notices: Buffer[] = [];
  const key = setSecret("a secret that it does not know");
  secondary.on("message", (notice, { address, port }) => {
    notices.push(notice);
    secondary.send(answerOf(notice), port, address);
  });
  publish("example.org");
  await expect.poll(() => seen).toEqual(["notify-given-up"]);
  expect(kindsOf(notices, key)).toEqual(["valid", "valid"]);
});

function setId(notice: Buffer): Buffer {
  const other = Buffer.from(notice);
  other[1]! ^= 1;
  return other;
}

/** The question is for `axample.org.` instead. */
function setZone(notice: Buffer): Buffer {
  const other = Buffer.from(notice);
  other[13] = "a".charCodeAt(0);
  return other;
}
