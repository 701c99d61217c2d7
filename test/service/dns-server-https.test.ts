import { execFile } from "node:child_process";
import { type ClientHttp2Session, connect as connectHttp2, constants, type IncomingHttpHeaders } from "node:http2";
import { request as requestHttps } from "node:https";
import { connect as connectTcp, type Socket } from "node:net";
import { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { promisify } from "node:util";
import * as dnsPacket from "dns-packet";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { DNS_PATH, MOST_QUERY_OCTETS } from "../../services/dns-server/listeners/https-exchange.ts";
import { listenHttps } from "../../services/dns-server/listeners/listen-https.ts";
import {
  DEFAULT_TCP_LIMITS,
  type TcpLimits,
  type TcpListener,
  type TcpListenerOptions,
} from "../../services/dns-server/listeners/listen-tcp.ts";
import { eventually } from "../support/dns-server.ts";
import { isInstalled } from "../support/peers-processes.ts";
import { fc } from "../support/property.ts";
import { createCertificate } from "../unit/dns-server/test-certificate.ts";
import { pipelineOn, zoneDatabaseOf } from "../unit/dns-server/test-zone-database.ts";

const zoneDatabase = zoneDatabaseOf({
  origin: "example.org.",
  text: `$TTL 300\n@ SOA ns hostmaster 1 2 3 4 60\n@ NS ns\nns A 192.0.2.53\nwww 120 A 192.0.2.1\nalias 90 CNAME www\n`,
});
const PATIENCE_MS = 60_000;
const QUERY = queryOf("www.example.org", "A");

let certificate: { cert: string; key: string };
let listener: TcpListener;
let sessions: ClientHttp2Session[] = [];

beforeAll(async () => {
  certificate = await createCertificate();
});

afterEach(async () => {
  for (const session of sessions) session.destroy();
  sessions = [];
  await listener.stop();
});

async function listen(
  limits: Partial<TcpLimits> = {},
  // What is deferred is answered with what was asked, so that it can be told from all else.
  answer: TcpListenerOptions["authorised"]["answer"] = (packet, _client, send) => send(packet),
): Promise<void> {
  listener = await listenHttps(
    { host: "127.0.0.1", port: 0 },
    {
      pipeline: pipelineOn(zoneDatabase),
      authorised: { answer },
      limits: { ...DEFAULT_TCP_LIMITS, ...limits },
      nowSeconds: () => 1_700_000_000,
      tls: certificate,
    },
  );
}

interface HttpResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

interface HttpRequest {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Record<string, string>;
  readonly body?: Uint8Array;
}

/** The same request by both versions of HTTP. */
const VERSIONS = { "HTTP/2": askHttp2, "HTTP/1.1": askHttp1 } as const;

describe.each(Object.entries(VERSIONS))("DNS over HTTPS by %s (RFC 8484)", (_version, ask) => {
  it("answers GET and POST, and says how long the answer may be kept", async () => {
    await listen();
    for (const request of [get(QUERY), post(QUERY)]) {
      const { status, headers, body } = await ask(request);
      expect(status).toBe(200);
      expect(headers["content-type"]).toBe("application/dns-message");
      expect(headers["cache-control"]).toBe("max-age=120");
      expect(dnsPacket.decode(body)).toMatchObject({ id: 0, rcode: "NOERROR", answers: [{ data: "192.0.2.1" }] });
    }
  });

  it.each([
    ["alias.example.org", "A", "NOERROR", "max-age=90"],
    ["www.example.org", "AAAA", "NOERROR", "max-age=60"],
    ["none.example.org", "A", "NXDOMAIN", "max-age=60"],
    ["www.example.net", "A", "REFUSED", "no-store"],
    // One message of HTTP is no place for a transfer.
    ["example.org", "AXFR", "REFUSED", "no-store"],
    ["example.org", "IXFR", "REFUSED", "no-store"],
  ] as const)("%s %s is %s, %s", async (name, type, rcode, cacheControl) => {
    await listen();
    const { status, headers, body } = await ask(get(queryOf(name, type)));
    expect([status, headers["cache-control"]]).toEqual([200, cacheControl]);
    expect(dnsPacket.decode(body)).toMatchObject({ rcode });
  });

  it("takes HEAD as GET without a body, a media type with parameters, and the parameter in any place", async () => {
    await listen();
    const head = await ask({ ...get(QUERY), method: "HEAD" });
    expect([head.status, head.headers["content-type"], head.body.length]).toEqual([200, "application/dns-message", 0]);
    expect((await ask({ ...post(QUERY), headers: { "content-type": "Application/DNS-Message; x=y" } })).status).toBe(
      200,
    );
    expect((await ask({ path: `${DNS_PATH}?x=1&dns=${QUERY.toString("base64url")}` })).status).toBe(200);
  });

  it("pads the answer when it is asked to, and offers no keepalive of DNS", async () => {
    await listen();
    const options = [
      { code: 11, data: Buffer.alloc(0) },
      { code: 12, data: Buffer.alloc(8) },
    ] as unknown as dnsPacket.PacketOpt[];
    const { body } = await ask(post(queryOf("www.example.org", "A", options)));
    expect(body.length).toBe(468);
    const opt = dnsPacket.decode(body).additionals!.at(-1) as dnsPacket.OptAnswer;
    expect(opt.options.map(({ code }) => code)).toEqual([12]);
  });

  it("keeps from caches what was answered to one client alone", async () => {
    await listen();
    const signed = withTsig(QUERY);
    const { status, headers, body } = await ask(post(signed));
    expect([status, headers["cache-control"]]).toEqual([200, "no-store"]);
    expect(body).toEqual(signed);
  });

  it.each([
    ["another path", { path: "/" }, 404],
    ["another path with a query", { path: `/dns?dns=${QUERY.toString("base64url")}` }, 404],
    ["no query", { path: DNS_PATH }, 400],
    ["an empty query", { path: `${DNS_PATH}?dns=` }, 400],
    ["two queries", { path: `${DNS_PATH}?dns=AAAA&dns=AAAA` }, 400],
    ["what is no base64url", { path: `${DNS_PATH}?dns=AA*A` }, 400],
    ["padding", { path: `${DNS_PATH}?dns=${QUERY.toString("base64url")}=` }, 400],
    ["a short message", { path: `${DNS_PATH}?dns=AAAA` }, 400],
    ["an answer", { path: `${DNS_PATH}?dns=${answerOf(QUERY).toString("base64url")}` }, 400],
    ["a long query", { path: `${DNS_PATH}?dns=${Buffer.alloc(MOST_QUERY_OCTETS + 1).toString("base64url")}` }, 414],
    ["a method that asks nothing", { method: "PUT", path: DNS_PATH, body: QUERY }, 405],
    ["a body of JSON", { ...post(QUERY), headers: { "content-type": "application/dns-json" } }, 415],
    ["a body of no type", { ...post(QUERY), headers: {} }, 415],
    ["an empty body", post(Buffer.alloc(0)), 400],
    ["a long body", post(Buffer.alloc(MOST_QUERY_OCTETS + 1)), 413],
    [
      "a body without an end",
      { ...post(Buffer.alloc(2 * MOST_QUERY_OCTETS)), headers: { ...DNS_TYPE, "x-chunked": "1" } },
      413,
    ],
  ] as const)("says to %s what HTTP has for it", async (_what, request, status) => {
    await listen();
    const response = await ask(request as HttpRequest);
    expect(response.status).toBe(status);
    expect(response.headers["cache-control"]).toBeUndefined();
    if (status === 405) expect(response.headers.allow).toBe("GET, HEAD, POST");
    // The listener is as it was.
    expect((await ask(get(QUERY))).status).toBe(200);
  });
});

describe.each(Object.entries(VERSIONS))("a head with too many fields by %s", (version, ask) => {
  const fields = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, number) => [`x-${number}`, "b"]));

  it("is answered 431", async () => {
    await listen();
    expect((await ask({ ...get(QUERY), headers: fields(90) })).status).toBe(200);
    expect((await ask({ ...get(QUERY), headers: fields(101) })).status).toBe(431);
    const many = ask({ ...get(QUERY), headers: fields(1_000) });
    if (version === "HTTP/2") await expect(many).rejects.toThrow("NGHTTP2_ENHANCE_YOUR_CALM");
    else expect((await many).status).toBe(431);
    expect((await ask(get(QUERY))).status).toBe(200);
  });
});

describe("an answer by HTTP/2", () => {
  it.each([
    ["is one frame of data, which ends the stream", get(QUERY), ["200 END_STREAM"]],
    ["has none to HEAD", { ...get(QUERY), method: "HEAD" }, []],
    ["is one frame also where it refuses", { path: "/" }, ["404 END_STREAM"]],
  ])("%s", async (_what, { method = "GET", path }: HttpRequest, expected) => {
    await listen();
    const { session, received } = openWatchedHttp2();
    const stream = session.request({ ":method": method, ":path": path });
    let status: number | undefined;
    stream.on("response", (head) => {
      status = head[":status"];
    });
    await new Promise((resolve) => stream.resume().once("close", resolve));
    expect(framesOf(Buffer.concat(received)).map((flags) => `${status} ${flags}`)).toEqual(expected);
  });
});

it("carries out requests of HTTP/1.1 that were sent ahead one after the other, and closes who sends too many", async () => {
  await listen();
  const target = get(QUERY).path;
  const ask = async (count: number) => {
    const socket = secureSocket(["http/1.1"]);
    let received = "";
    socket.setEncoding("latin1").on("data", (text: string) => {
      received += text;
    });
    socket.write(`GET ${target} HTTP/1.1\r\nhost: x\r\n\r\n`.repeat(count - 1));
    socket.write(`GET ${target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`);
    await closed(socket);
    return received.match(/HTTP\/1\.1 200/g)?.length ?? 0;
  };
  expect(await ask(30)).toBe(30);
  expect(await ask(200)).toBeLessThan(200);
});

describe("the HTTPS listener", () => {
  it("closes connections that bring no whole query in time, whatever else they send", async () => {
    await listen({ idleMs: 1_500 });
    const silent = secureSocket(["http/1.1"]);
    const wrong = openHttp2();
    const chatter = setInterval(() => {
      if (!wrong.destroyed)
        wrong
          .request({ ":path": "/" })
          .on("error", () => {})
          .resume();
    }, 100);
    const half = secureSocket(["http/1.1"]);
    half.write(
      `POST ${DNS_PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/dns-message\r\ncontent-length: 9\r\n\r\n1`,
    );
    await Promise.all([closed(silent), closed(half), new Promise((resolve) => wrong.once("close", resolve))]);
    clearInterval(chatter);
  });

  it("caps connections for each client before their handshake, unless it is exempt", async () => {
    await listen({ connectionsPerClient: 2, limitLoopback: true, idleMs: 600_000 });
    const idle = Array.from({ length: 4 }, () => connectTcp(listener.port, "127.0.0.1").on("error", () => {}));
    await eventually(async () => idle.filter(({ closed }) => closed).length === 2, PATIENCE_MS);
    for (const socket of idle) socket.destroy();
    await eventually(async () => (await askHttp1(get(QUERY)).catch(() => undefined))?.status === 200, PATIENCE_MS);
  });

  it.each(Object.entries(VERSIONS))(
    "has room for whoever comes where all connections are open: %s",
    async (_version, ask) => {
      await listen({ connections: 2, idleMs: 600_000 });
      const idle = Array.from({ length: 4 }, () => connectTcp(listener.port, "127.0.0.1").on("error", () => {}));
      await eventually(async () => idle.filter(({ closed }) => closed).length === 2, PATIENCE_MS);
      for (let count = 0; count < 4; count += 1) expect((await ask(get(QUERY))).status).toBe(200);
    },
  );

  it.each(Object.entries(VERSIONS))("closes nobody whose query is under way for another: %s", async (_version, ask) => {
    let hasCome = false;
    let goOn = () => {};
    await listen({ connections: 1, idleMs: 600_000 }, async (packet, _client, send) => {
      hasCome = true;
      await new Promise<void>((resolve) => {
        goOn = resolve;
      });
      return send(packet);
    });
    const asked = ask(get(withTsig(QUERY)));
    await eventually(async () => hasCome, PATIENCE_MS);
    await closed(connectTcp(listener.port, "127.0.0.1").on("error", () => {}));
    goOn();
    expect((await asked).status).toBe(200);
    expect((await ask(get(QUERY))).status).toBe(200);
  });

  it("takes a new certificate for the connections to come", async () => {
    await listen();
    const renewed = await createCertificate();
    listener.renewCertificate(renewed);
    const socket = connectTls({ port: listener.port, host: "127.0.0.1", ca: renewed.cert, servername: "localhost" });
    await new Promise<void>((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
    expect(socket.authorized).toBe(true);
    socket.destroy();
  });

  it("is not impressed by random octets, before the handshake, behind it, and as queries", async () => {
    await listen();
    const property = fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 600 }), async (octets) => {
      const plain = connectTcp(listener.port, "127.0.0.1").on("error", () => {});
      plain.end(octets);
      for (const protocol of ["h2", "http/1.1"]) {
        const socket = secureSocket([protocol]);
        socket.end(octets);
        socket.resume();
        await closed(socket);
      }
      const { status } = await askHttp2(post(octets));
      expect([200, 400]).toContain(status);
    });
    await fc.assert(property, { numRuns: 12 });
    expect((await askHttp2(get(QUERY))).status).toBe(200);
  });

  it("keeps one connection to as many streams as it allows, and outlives a flood of cancelled ones", async () => {
    await listen();
    const session = openHttp2();
    const settings = new Promise<{ maxConcurrentStreams?: number }>((resolve) =>
      session.once("remoteSettings", resolve),
    );
    expect((await settings).maxConcurrentStreams).toBe(32);
    for (let index = 0; index < 1_000 && !session.closed; index += 1) {
      const stream = session.request({ ":method": "POST", ":path": DNS_PATH }).on("error", () => {});
      stream.close(constants.NGHTTP2_CANCEL);
      if (index % 100 === 0) await sleep(0);
    }
    expect((await askHttp2(get(QUERY))).status).toBe(200);
  });
});

describe("other people's clients", () => {
  const inKdig = it.skipIf(absence("kdig") !== "");
  const inCurl = it.skipIf(absence("curl") !== "");

  inKdig(`kdig +https, by POST and by GET${absence("kdig")}`, async () => {
    await listen();
    for (const way of ["+https", "+https-get"]) {
      const args = ["@127.0.0.1", "-p", String(listener.port), "+https", way, "+short", "www.example.org", "A"];
      expect((await promisify(execFile)("kdig", args)).stdout.trim()).toBe("192.0.2.1");
    }
  });

  inCurl.each(["--http2", "--http1.1"])(`curl %s, by POST and by GET${absence("curl")}`, async (version) => {
    await listen();
    const base = `https://127.0.0.1:${listener.port}${DNS_PATH}`;
    const ways = [
      ["-H", "content-type: application/dns-message", "--data-binary", "@-", base],
      [`${base}?dns=${QUERY.toString("base64url")}`],
    ];
    for (const way of ways) {
      const running = promisify(execFile)("curl", ["-sk", version, "-w", "%{stderr}%{http_version}", ...way], {
        encoding: "buffer",
      });
      running.child.stdin!.end(QUERY);
      const { stdout, stderr } = await running;
      expect(dnsPacket.decode(stdout).answers).toMatchObject([{ data: "192.0.2.1" }]);
      expect(stderr.toString()).toBe(version === "--http2" ? "2" : "1.1");
    }
  });
});

const DNS_TYPE = { "content-type": "application/dns-message" };

function get(query: Buffer): HttpRequest {
  return { path: `${DNS_PATH}?dns=${query.toString("base64url")}` };
}

function post(body: Uint8Array): HttpRequest {
  return { method: "POST", path: DNS_PATH, headers: DNS_TYPE, body };
}

/** With ID 0, which caches ask for (RFC 8484 §4.1). */
function queryOf(name: string, type: string, options: dnsPacket.PacketOpt[] = []): Buffer {
  const edns = { type: "OPT", name: ".", udpPayloadSize: 1232, flags: 0, options } as unknown as dnsPacket.OptAnswer;
  return dnsPacket.encode({
    type: "query",
    id: 0,
    questions: [{ name, type: type as dnsPacket.RecordType }],
    additionals: options.length > 0 ? [edns] : [],
  });
}

function answerOf(query: Buffer): Buffer {
  const answer = Buffer.from(query);
  answer[2]! |= 0x80;
  return answer;
}

/** A query with a TSIG record of no meaning behind it. */
function withTsig(query: Buffer): Buffer {
  const signed = Buffer.concat([query, Buffer.from([0, 0, 250, 0, 255, 0, 0, 0, 0, 0, 0])]);
  signed.writeUInt16BE(1, 10);
  return signed;
}

function openHttp2(): ClientHttp2Session {
  const session = connectHttp2(`https://127.0.0.1:${listener.port}`, { rejectUnauthorized: false });
  session.on("error", () => {});
  sessions.push(session);
  return session;
}

/** What it receives can be looked at as frames. */
function openWatchedHttp2() {
  const socket = secureSocket(["h2"]);
  const received: Buffer[] = [];
  const watched = new Duplex({
    read() {},
    write: (octets, encoding, done) => void socket.write(octets, encoding, done),
  });
  socket.on("data", (octets: Buffer) => {
    received.push(octets);
    watched.push(octets);
  });
  const session = connectHttp2("https://127.0.0.1", { createConnection: () => watched });
  session.on("error", () => {});
  sessions.push(session);
  return { session, received };
}

/** The flags of the frames of data (RFC 9113 §4.1, §6.1). */
function framesOf(octets: Buffer): string[] {
  const flags: string[] = [];
  for (let at = 0; at < octets.length; at += 9 + octets.readUIntBE(at, 3)) {
    if (octets[at + 3] === 0) flags.push((octets[at + 4]! & 1) === 1 ? "END_STREAM" : "");
  }
  return flags;
}

function askHttp2({ method = "GET", path = DNS_PATH, headers = {}, body }: HttpRequest): Promise<HttpResponse> {
  const session = openHttp2();
  return new Promise<HttpResponse>((resolve, reject) => {
    const { "x-chunked": _chunked, ...sent } = headers;
    const stream = session.request({ ":method": method, ":path": path, ...sent });
    let head: (IncomingHttpHeaders & { ":status"?: number }) | undefined;
    const chunks: Buffer[] = [];
    stream.on("response", (received) => {
      head = received;
    });
    stream.on("data", (chunk) => chunks.push(chunk));
    stream.on("error", reject);
    session.on("error", reject);
    stream.on("close", () => {
      if (head === undefined) reject(new Error("there was no response"));
      else resolve({ status: head[":status"]!, headers: head, body: Buffer.concat(chunks) });
    });
    stream.end(body);
  }).finally(() => session.destroy());
}

function askHttp1({ method = "GET", path = DNS_PATH, headers = {}, body }: HttpRequest): Promise<HttpResponse> {
  return new Promise((resolve, reject) => {
    const { "x-chunked": chunked, ...sent } = headers;
    const length: Record<string, number> = body && chunked === undefined ? { "content-length": body.length } : {};
    const request = requestHttps(
      { ...{ host: "127.0.0.1", port: listener.port, method, path, agent: false, rejectUnauthorized: false } },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk) => chunks.push(chunk));
        response.on("error", reject);
        response.on("end", () =>
          resolve({ status: response.statusCode!, headers: response.headers, body: Buffer.concat(chunks) }),
        );
      },
    );
    for (const [name, value] of Object.entries({ ...sent, ...length })) request.setHeader(name, value);
    // A response may come before all has been sent.
    request.on("error", reject);
    request.end(body);
  });
}

function secureSocket(protocols: readonly string[]): TLSSocket {
  return connectTls({
    ...{ port: listener.port, host: "127.0.0.1", rejectUnauthorized: false, ALPNProtocols: [...protocols] },
  }).on("error", () => {});
}

async function closed(socket: Socket): Promise<void> {
  if (!socket.closed) await new Promise((resolve) => socket.once("close", resolve));
}

function absence(program: string): string {
  return isInstalled(program) ? "" : ` (skipped: ${program} is not installed)`;
}
