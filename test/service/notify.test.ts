import { randomInt } from "node:crypto";
import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { decodeMessage } from "../../services/core/dns/message.ts";
import { OPCODE, RCODE, TYPE } from "../../services/core/dns/rr-types.ts";
import { type TsigKey, TsigSigner, verifyRequest } from "../../services/core/dns/tsig.ts";
import { start } from "../../services/dns-server/main.ts";
import { loadNotifyPolicy } from "../../services/dns-server/notify/policy.ts";
import type { RunningService } from "../../services/platform/service.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addZoneOwner, dnsServerContext, eventually, nameOf, putZone, SCOPE } from "../support/dns-server.ts";
import { operatorOf, printed } from "../support/operator.ts";
import { serialOf } from "../support/transfer-client.ts";

/** For a busy machine. */
const PATIENCE_MS = 60_000;

let database: TestDatabase;
let service: RunningService | undefined;
let secondary: Secondary;

beforeEach(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
  await putZone(database, "example.org", ["@ NS ns", "ns A 192.0.2.53"]);
  secondary = await Secondary.listen();
});

afterEach(async () => {
  await service?.stop();
  service = undefined;
  secondary.close();
  await database.drop();
});

/** Gives the secondary an ACL. */
async function permit(...permission: string[]) {
  const context = dnsServerContext(database, { env: { PALOMAR_DNS_UDP: "portable" } });
  const palomar = operatorOf(context);
  const shown = await printed(
    palomar("acl", "add", SCOPE.resellerId, "told", "--notify", `127.0.0.1:${secondary.port}`, ...permission),
  );
  return { context, shown };
}

async function startWith(...permission: string[]): Promise<string> {
  const { context, shown } = await permit(...permission);
  service = await start(context);
  return shown;
}

describe("NOTIFY", () => {
  it("tells of the zones at the start, and of each change, with the SOA", async () => {
    await startWith();
    await eventually(async () => secondary.serials.includes(1), PATIENCE_MS);
    await putZone(database, "example.org", ["@ NS ns", "ns A 192.0.2.54"]);
    await eventually(async () => secondary.serials.includes(2), PATIENCE_MS);
    const [first] = secondary.messages;
    expect(first).toMatchObject({ opcode: OPCODE.NOTIFY, flags: { aa: true, qr: false, rd: false } });
    expect(first!.questions).toMatchObject([{ type: TYPE.SOA }]);
    expect(first!.questions[0]!.name.key).toBe(nameOf("example.org").key);
  });

  it("tells of the zones at the start also where it is known late whom to tell", async () => {
    const { context } = await permit();
    await database.db.transaction(async (busy) => {
      await busy.raw("lock table transfer_access_version in access exclusive mode");
      service = await start(context);
    });
    await told(1);
  });

  it("is said once where it is acknowledged in time", async () => {
    await startWith();
    const timesTold = (wanted: number) => secondary.serials.filter((serial) => serial === wanted).length;
    let serial = 1;
    // An acknowledgement that a busy machine reads too late is one that did not come: it is the next change's turn.
    do {
      serial += 1;
      await putZone(database, "example.org", ["@ NS ns", `ns A 192.0.2.${serial}`]);
      await eventually(async () => timesTold(serial) > 0, PATIENCE_MS);
      await sleep((loadNotifyPolicy().waitSeconds[0]! + 1) * 1_000);
    } while (timesTold(serial) > 1 && serial < 6);
    expect(timesTold(serial)).toBe(1);
  });

  it("is said again until it is acknowledged", async () => {
    secondary.behaviour = "silent";
    await startWith();
    await told(2);
    secondary.behaviour = "acknowledge";
    const before = secondary.octets.length;
    await told(before + 1);
    await sleep(500);
    expect(secondary.serials).toEqual(Array(before + 1).fill(1));
  });

  it("does not wait for a server that is silent to tell it of newer changes", async () => {
    secondary.behaviour = "silent";
    await startWith();
    await told(1);
    await putZone(database, "example.org", ["@ NS ns", "ns A 192.0.2.54"]);
    await eventually(async () => secondary.serials.includes(2), PATIENCE_MS);
  });

  it("is not believed to be acknowledged by others", async () => {
    secondary.behaviour = "other-id";
    await startWith();
    await told(2);
  });

  it("tells of many changes together", async () => {
    await startWith();
    await eventually(async () => secondary.serials.includes(1), PATIENCE_MS);
    const started = performance.now();
    for (let change = 0; change < 60; change += 1) {
      await putZone(database, "example.org", ["@ NS ns", `ns A 192.0.2.${change}`]);
    }
    await eventually(async () => secondary.serials.at(-1) === 61, PATIENCE_MS);
    // One at once, and then one for each rest at most; how many that are is for the machine to say.
    const rests = (performance.now() - started) / loadNotifyPolicy().restMs;
    expect(new Set(secondary.serials).size).toBeLessThan(rests + 3);
  });

  it("is signed with the ACL's key, and its answer must be", async () => {
    secondary.behaviour = "silent";
    const shown = await startWith("--tsig", "told.example:hmac-sha384");
    const [, , algorithm, secret] = shown.split(" ");
    expect(algorithm).toBe("hmac-sha384");
    const key: TsigKey = {
      name: nameOf("told.example"),
      algorithm: "hmac-sha384",
      secret: Buffer.from(secret as string, "base64"),
    };
    await told(1);
    const verdict = verifyRequest(secondary.octets[0] as Buffer, () => key, Math.floor(Date.now() / 1000));
    expect(verdict.kind).toBe("valid");
    secondary.behaviour = "acknowledge";
    await told(secondary.octets.length + 2);
    secondary.key = key;
    const unsigned = secondary.octets.length;
    await told(unsigned + 1);
    await sleep(500);
    expect(secondary.octets).toHaveLength(unsigned + 1);
  });

  it("reaches whoever was given an ACL right before the change", async () => {
    const { context } = await permit();
    service = await start(context);
    await told(1);
    const palomar = operatorOf(context);
    const added = await Promise.all([1, 2, 3, 4].map(() => Secondary.listen()));
    try {
      const toldOf = (server: Secondary) => server.messages.map(({ questions }) => questions[0]!.name.key);
      const nameAt = (index: number) => nameOf(`z${index}.example.org`).key;
      const isTold = (server: Secondary, index: number) => toldOf(server).includes(nameAt(index));
      for (const [index, { port }] of added.entries()) {
        await printed(palomar("acl", "add", SCOPE.resellerId, `added${index}`, "--notify", `127.0.0.1:${port}`));
        await putZone(database, `z${index}.example.org`, ["@ NS ns.example.org."]);
        // The first change has been told of before others are given theirs.
        if (index === 0) await eventually(async () => isTold(added[0]!, 0), PATIENCE_MS);
      }
      await eventually(async () => added.every(isTold), PATIENCE_MS);
      // What had changed before is not told anew: a secondary asks for its zones when it is set up.
      expect(toldOf(added[3]!)).not.toContain(nameAt(0));
    } finally {
      for (const server of added) server.close();
    }
  });

  it("does not go out for what the ACL is not for", async () => {
    await startWith("--zone", "example.net");
    await putZone(database, "example.net", ["@ NS ns.example.org."]);
    await eventually(async () => secondary.messages.length > 0, PATIENCE_MS);
    await sleep(300);
    const names = secondary.messages.map(({ questions }) => questions[0]!.name.key);
    expect(new Set(names)).toEqual(new Set([nameOf("example.net").key]));
  });
});

/** Port 53 is that of name servers; of two runs of tests at once each has its own address. */
const NS_ADDRESS = `127.77.${randomInt(256)}.${randomInt(1, 255)}`;
const obstacle = (await canBind(NS_ADDRESS, 53)) ? "" : ` (skipped: port 53 of ${NS_ADDRESS} cannot be had)`;

it.skipIf(obstacle !== "")(`the zone's NS are told only when it is configured so${obstacle}`, async () => {
  const server = await Secondary.listen(53, NS_ADDRESS);
  try {
    await putZone(database, "example.org", ["@ NS ns1", "@ NS other", "ns1 A 192.0.2.53", `other A ${NS_ADDRESS}`]);
    service = await start(dnsServerContext(database, { env: { PALOMAR_DNS_UDP: "portable" } }));
    await sleep(500);
    expect(server.serials).toEqual([]);
    await service.stop();
    const env = { PALOMAR_DNS_UDP: "portable", PALOMAR_DNS_NOTIFY_NS: "true" };
    service = await start(dnsServerContext(database, { env }));
    await eventually(async () => server.serials.includes(2), PATIENCE_MS);
  } finally {
    server.close();
  }
});

it.skipIf(obstacle !== "")(`of many NS twenty addresses are told, eight of each${obstacle}`, async () => {
  const [network] = /^\d+\.\d+\.\d+\./.exec(NS_ADDRESS)!;
  const addresses = Array.from({ length: 36 }, (_, index) => `${network}${index + 1}`);
  const servers = await Promise.all(addresses.map((address) => Secondary.listen(53, address)));
  try {
    // Four names with nine addresses each.
    const lines = addresses.map((address, index) => `n${Math.floor(index / 9)} A ${address}`);
    await putZone(database, "example.org", ["@ NS n0", "@ NS n1", "@ NS n2", "@ NS n3", ...lines]);
    const env = { PALOMAR_DNS_UDP: "portable", PALOMAR_DNS_NOTIFY_NS: "true" };
    service = await start(dnsServerContext(database, { env }));
    const toldOf = () => servers.map(({ serials }) => (serials.length > 0 ? 1 : 0) as number);
    await eventually(async () => toldOf().filter(Boolean).length >= 20, PATIENCE_MS);
    await sleep(300);
    const told = [0, 1, 2, 3].map((name) => toldOf().slice(9 * name, 9 * name + 9));
    const counts = told.map((of) => of.reduce((sum, one) => sum + one, 0));
    expect(counts.toSorted()).toEqual([0, 4, 8, 8]);
  } finally {
    for (const server of servers) server.close();
  }
});

/** Waits until so many messages have come. */
const told = (times: number) => eventually(async () => secondary.octets.length >= times, PATIENCE_MS);

async function canBind(address: string, port: number): Promise<boolean> {
  const socket = createSocket("udp4");
  const bound = await new Promise<boolean>((resolve) => {
    socket.once("error", () => resolve(false));
    socket.bind(port, address, () => resolve(true));
  });
  socket.close();
  return bound;
}

/** A server that is told of changes, and does with them what a test wants. */
class Secondary {
  readonly octets: Buffer[] = [];
  behaviour: "acknowledge" | "silent" | "other-id" = "acknowledge";
  /** Signs its answers. */
  key: TsigKey | undefined;
  readonly #socket: Socket;

  static async listen(port = 0, address = "127.0.0.1"): Promise<Secondary> {
    const socket = createSocket("udp4");
    await new Promise<void>((resolve) => socket.bind(port, address, resolve));
    return new Secondary(socket);
  }

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("message", (octets, from) => this.#take(octets, from));
  }

  get port(): number {
    return this.#socket.address().port;
  }

  get messages() {
    return this.octets.map((octets) => {
      const message = decodeMessage(octets);
      if (!message.ok) throw new Error(message.error.message);
      return message.value;
    });
  }

  get serials(): number[] {
    return this.messages.map(({ answers }) => serialOf(answers[0]));
  }

  close(): void {
    this.#socket.close();
  }

  #take(octets: Buffer, { port, address }: RemoteInfo): void {
    this.octets.push(octets);
    if (this.behaviour === "silent") return;
    const header = Buffer.from(octets.subarray(0, 12));
    header[2] = 0x80 | (OPCODE.NOTIFY << 3);
    header[3] = RCODE.NOERROR;
    header.fill(0, 4);
    if (this.behaviour === "other-id") header[0] = header[0]! ^ 0xff;
    this.#socket.send(this.#signed(header, octets), port, address);
  }

  #signed(answer: Buffer, request: Buffer): Uint8Array {
    const { key } = this;
    if (!key) return answer;
    const now = Math.floor(Date.now() / 1000);
    const verdict = verifyRequest(request, () => key, now);
    if (verdict.kind !== "valid") throw new Error("the NOTIFY is not signed");
    return new TsigSigner(key, verdict.record.mac).sign(answer, now);
  }
}
