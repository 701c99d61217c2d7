import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import * as dnsPacket from "dns-packet";
import { afterEach, describe, expect, it } from "vitest";
import {
  DEFAULT_TCP_LIMITS,
  listenTcp,
  type TcpLimits,
  type TcpListener,
  type TcpListenerOptions,
} from "../../services/dns-server/listeners/listen-tcp.ts";
import { eventually } from "../support/dns-server.ts";
import { createCertificate } from "../unit/dns-server/test-certificate.ts";
import { pipelineOn, zoneDatabaseOf } from "../unit/dns-server/test-zone-database.ts";

/** For a busy machine. */
const PATIENCE_MS = 60_000;
/** For tests in which nothing but what they are about closes a connection. */
const NEVER_IDLE_MS = 600_000;
const texts = Array.from({ length: 200 }, (_, index) => `big TXT "${String(index).padStart(240, "x")}"`).join("\n");
const zoneDatabase = zoneDatabaseOf({
  origin: "example.org.",
  text: `$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\nns A 192.0.2.53\nwww A 192.0.2.1\n${texts}\n`,
});

let listener: TcpListener;
const sockets: Socket[] = [];

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await listener.stop();
});

async function listen(
  limits: Partial<TcpLimits> = {},
  tls?: { cert: string; key: string },
  answer: TcpListenerOptions["authorised"]["answer"] = () => Promise.resolve(false),
): Promise<void> {
  listener = await listenTcp(
    { host: "127.0.0.1", port: 0 },
    {
      pipeline: pipelineOn(zoneDatabase),
      authorised: { answer },
      limits: { ...DEFAULT_TCP_LIMITS, ...limits },
      nowSeconds: () => 1_700_000_000,
      ...(tls ? { tls } : {}),
    },
  );
}

/** A connection that collects the messages it gets. */
class Peer {
  readonly socket: Socket;
  closed = false;
  #received = Buffer.alloc(0);

  constructor(socket: Socket) {
    this.socket = socket;
    sockets.push(socket);
    socket.on("data", (chunk) => {
      this.#received = Buffer.concat([this.#received, chunk]);
    });
    socket.on("close", () => {
      this.closed = true;
    });
    socket.on("error", () => {});
  }

  /** Whole messages received so far. */
  get messages(): Buffer[] {
    const messages: Buffer[] = [];
    for (let at = 0; at + 2 <= this.#received.length; ) {
      const end = at + 2 + this.#received.readUInt16BE(at);
      if (end > this.#received.length) break;
      messages.push(this.#received.subarray(at + 2, end));
      at = end;
    }
    return messages;
  }

  async until(holds: () => boolean, deadlineMs = PATIENCE_MS): Promise<void> {
    const deadline = Date.now() + deadlineMs;
    while (!holds()) {
      if (Date.now() > deadline) throw new Error("it did not come to that");
      await sleep(5);
    }
  }
}

const peer = () => new Peer(connect(listener.port, "127.0.0.1"));

function query(id: number, name = "www.example.org", type: dnsPacket.RecordType = "A"): Buffer {
  return dnsPacket.streamEncode({ type: "query", id, questions: [{ name, type }] });
}

/** Waits until so many of the connections are closed; the others are there to be used. */
async function refusedAmong(clients: readonly Peer[], count: number): Promise<void> {
  await eventually(async () => clients.filter(({ closed }) => closed).length === count, PATIENCE_MS);
  for (const client of clients.filter(({ closed }) => !closed)) {
    client.socket.write(query(1));
    await client.until(() => client.messages.length === 1);
  }
}

const idsOf = (messages: readonly Buffer[]) => messages.map((message) => message.readUInt16BE(0)).sort((a, b) => a - b);

describe("DNS over TCP (RFC 7766)", () => {
  it("answers pipelined queries, also when they come in pieces", async () => {
    await listen();
    const client = peer();
    const ids = Array.from({ length: 50 }, (_, index) => index);
    const octets = Buffer.concat(ids.map((id) => query(id)));
    for (let at = 0; at < octets.length; at += 7) client.socket.write(octets.subarray(at, at + 7));
    await client.until(() => client.messages.length === 50);
    expect(idsOf(client.messages)).toEqual(ids);
  });

  it("answers what a client asked before it closed its side, then closes", async () => {
    await listen();
    const client = peer();
    client.socket.end(Buffer.concat([query(1), query(2)]));
    await client.until(() => client.closed);
    expect(idsOf(client.messages)).toEqual([1, 2]);
  });

  it.each([
    ["a message of no octets", Buffer.from([0, 0])],
    ["a message shorter than a header", Buffer.from([0, 3, 1, 2, 3])],
    ["an answer", Buffer.from([0, 12, 0, 1, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0])],
  ])("closes the connection on %s", async (_what, octets) => {
    await listen();
    const client = peer();
    client.socket.write(octets);
    await client.until(() => client.closed);
    expect(client.messages).toEqual([]);
  });

  it("closes connections that bring no whole query in time, octet by octet or not at all", async () => {
    // Far longer than a busy machine holds this process up.
    await listen({ idleMs: 8_000 });
    const [silent, dripping, busy] = [peer(), peer(), peer()];
    const drip = setInterval(() => {
      dripping.socket.write(Buffer.from([0]));
      busy.socket.write(query(1));
    }, 50);
    await busy.until(() => silent.closed && dripping.closed);
    expect(busy.closed).toBe(false);
    clearInterval(drip);
    await busy.until(() => busy.closed);
  });

  it("caps connections for each client unless it is exempt", async () => {
    await listen({ connectionsPerClient: 3, limitLoopback: true, idleMs: NEVER_IDLE_MS });
    const clients = Array.from({ length: 5 }, () => peer());
    await refusedAmong(clients, 2);
    clients.find(({ closed }) => !closed)!.socket.destroy();
    await eventually(async () => {
      const next = peer();
      next.socket.write(query(9));
      await next.until(() => next.closed || next.messages.length === 1);
      return next.messages.length === 1;
    }, PATIENCE_MS);
    await listener.stop();

    await listen({ connectionsPerClient: 3, connections: 4, idleMs: NEVER_IDLE_MS });
    await refusedAmong(
      Array.from({ length: 4 }, () => peer()),
      0,
    );
  });

  it("caps connections in total: whoever comes then and asks is answered, and transfers go on", async () => {
    let goOn = () => {};
    const half = Buffer.alloc(1_000);
    const whole = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    await listen({ connections: 4, idleMs: NEVER_IDLE_MS }, undefined, async (_query, _client, send) => {
      await send(half);
      await whole;
      return send(half);
    });
    const transfer = peer();
    transfer.socket.write(query(1, "example.org", "AXFR" as dnsPacket.RecordType));
    await transfer.until(() => transfer.messages.length === 1);
    const holders = Array.from({ length: 12 }, () => peer());
    await refusedAmong(holders, 9);
    for (let id = 0; id < 8; id += 1) {
      const client = peer();
      client.socket.write(query(id));
      await client.until(() => client.messages.length === 1);
    }
    expect(transfer.closed).toBe(false);
    goOn();
    await transfer.until(() => transfer.messages.length === 2);
  });

  it("closes nobody to whom an answer is on its way", async () => {
    await listen({ connections: 1, idleMs: NEVER_IDLE_MS });
    const first = peer();
    first.socket.write(query(1, "big.example.org", "TXT"));
    await first.until(() => first.messages.length === 1);
    const answerOctets = 2 + first.messages[0]!.length;
    // More than the system takes for a client that does not read.
    const count = 400;
    const slow = connect(listener.port, "127.0.0.1").pause();
    sockets.push(slow);
    await first.until(() => first.closed);
    slow.write(Buffer.concat(Array.from({ length: count }, (_, id) => query(id, "big.example.org", "TXT"))));
    await sleep(500);
    const refused = peer();
    await refused.until(() => refused.closed);
    slow.resume();
    await first.until(() => slow.bytesRead === count * answerOctets);
    const next = peer();
    next.socket.write(query(9));
    await next.until(() => next.messages.length === 1);
  });

  it("stops reading from a client that does not read, and goes on when it does", async () => {
    await listen();
    const client = peer();
    client.socket.pause();
    const count = 200;
    for (let id = 0; id < count; id += 1) client.socket.write(query(id, "big.example.org", "TXT"));
    await sleep(300);
    client.socket.resume();
    await client.until(() => client.messages.length === count);
    expect(idsOf(client.messages)).toEqual(Array.from({ length: count }, (_, index) => index));
  });
});

describe("DNS over TLS (RFC 7858)", () => {
  it("answers over TLS, and to clear text with nothing", async () => {
    const certificate = await createCertificate();
    await listen({}, certificate);
    const secure = new Peer(
      connectTls({
        port: listener.port,
        host: "127.0.0.1",
        ca: certificate.cert,
        servername: "localhost",
        ALPNProtocols: ["dot"],
      }),
    );
    secure.socket.write(Buffer.concat([query(1), query(2)]));
    await secure.until(() => secure.messages.length === 2);
    const plain = peer();
    plain.socket.write(query(3));
    await plain.until(() => plain.closed);
    expect(plain.messages).toEqual([]);
  });

  it("has room for whoever comes, whether others have asked or not even shaken hands", async () => {
    const certificate = await createCertificate();
    await listen({ connections: 2, idleMs: NEVER_IDLE_MS }, certificate);
    const secure = () =>
      new Peer(connectTls({ port: listener.port, host: "127.0.0.1", ca: certificate.cert, servername: "localhost" }));
    const silent = [secure(), peer(), peer()];
    await eventually(async () => silent.filter(({ closed }) => closed).length === 1, PATIENCE_MS);
    const clients: Peer[] = [];
    for (let id = 0; id < 4; id += 1) {
      const client = secure();
      clients.push(client);
      client.socket.write(query(id));
      await client.until(() => client.messages.length === 1);
    }
    await eventually(async () => clients.filter(({ closed }) => closed).length >= 2, PATIENCE_MS);
  });

  it("takes a new certificate for the connections to come", async () => {
    const [old, renewed] = [await createCertificate(), await createCertificate()];
    await listen({}, old);
    listener.renewCertificate(renewed);
    const secure = new Peer(
      connectTls({ port: listener.port, host: "127.0.0.1", ca: renewed.cert, servername: "localhost" }),
    );
    secure.socket.write(query(1));
    await secure.until(() => secure.messages.length === 1);
  });
});
