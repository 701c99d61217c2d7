import { EventEmitter, once } from "node:events";
import { connect, Server, type Socket } from "node:net";
import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import Koa from "koa";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { MOST_HEADER_FIELDS } from "../../../../services/platform/http/broken-requests.ts";
import {
  HTTP_TIMEOUTS,
  type HttpListener,
  type HttpTimeouts,
  listenHttp,
} from "../../../../services/platform/http/listen.ts";
import { MOST_AHEAD } from "../../../../services/platform/http/pipelined-requests.ts";
import type { Observation } from "../../../../services/platform/observability/observation.ts";
import { freePort } from "../../../support/peers-processes.ts";

/** More than the buffers of a connection take. */
const LARGE_OCTETS = 32 * 1024 * 1024;
const UNREAD_MS = 300;
const LARGE_TEXT = "añ😀".repeat(50_000);

/** Of what it is asked nothing is urgent, however busy the machine is. */
let listener: HttpListener;
let hurried: HttpListener;
/** The connection that asked for the large answer last. */
let asked: Socket | undefined;
let atWork = 0;
let mostAtWork = 0;
/** Tells of each connection that asked for the large answer and is closed. */
const closings = new EventEmitter();

beforeAll(async () => {
  const app = Object.assign(new Koa(), {
    describeRefusal: (refusal: unknown) => ({ status: 400, body: { on: (refusal as { message: string }).message } }),
  });
  app.silent = true;
  app.use(async (ctx) => {
    if (ctx.path === "/open") ctx.req.once("close", () => closings.emit("given-up"));
    if (ctx.path === "/refuse") {
      ctx.status = 403;
      return;
    }
    for await (const _ of ctx.path === "/pipe" ? ctx.req.pipe(new PassThrough()) : ctx.req);
    if (ctx.path === "/large") {
      asked = ctx.req.socket;
      asked.once("close", () => closings.emit("closed"));
    }
    if (ctx.path === "/turn") {
      atWork += 1;
      mostAtWork = Math.max(mostAtWork, atWork);
      await sleep(5);
      atWork -= 1;
    }
    if (ctx.path === "/late") await sleep(UNREAD_MS * 3);
    ctx.body =
      ctx.path === "/large" ? Buffer.alloc(LARGE_OCTETS) : ctx.path === "/where" ? ctx.hostname + ctx.url : "ok";
    if (ctx.path === "/text") ctx.body = LARGE_TEXT;
  });
  const listen = (timeouts: Partial<HttpTimeouts>) =>
    listenHttp(app, [{ host: "127.0.0.1", port: 0 }], {
      observe: () => {},
      timeouts: { ...HTTP_TIMEOUTS, checkEveryMs: 50, ...timeouts },
    });
  listener = (await listen({ unreadMs: UNREAD_MS, keepAliveMs: 100 }))!;
  hurried = (await listen({ requestMs: 300, headersMs: 200 }))!;
});
afterAll(() => Promise.all([listener?.close(), hurried?.close()]));

/** Sends octets and no more; resolves to what comes until the server closes. */
function sendAndWait(octets: string, { url } = listener): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(url).port), "127.0.0.1", () => socket.write(octets));
    let received = "";
    socket.setEncoding("utf8").on("data", (text: string) => {
      received += text;
    });
    socket.on("error", reject).on("close", () => resolve(received));
  });
}

describe("a client that takes its time", () => {
  it.each([
    ["with its headers", "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: "],
    ["with its body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"],
  ])("%s is answered 408 and closed", async (_, octets) => {
    const answer = await sendAndWait(octets, hurried);
    expect(answer).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n/);
    expect(JSON.parse(answer.split("\r\n\r\n")[1] as string)).toEqual({ on: "the request took too long" });
  });
});

describe("a client that", () => {
  it("was told so, and leaves its side open, keeps nothing of ours", async () => {
    const socket = connect({ host: "127.0.0.1", port: Number(new URL(hurried.url).port), allowHalfOpen: true });
    socket.on("error", () => {}).resume();
    const givenUp = once(closings, "given-up");
    socket.write("POST /open HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
    await once(socket, "end");
    await givenUp;
    socket.destroy();
  });

  it("says nothing is answered 408 and closed", async () => {
    expect(await sendAndWait("", hurried)).toMatch(/^HTTP\/1\.1 408 /);
  });

  it("asks for nothing more is closed", async () => {
    expect(await sendAndWait("GET / HTTP/1.1\r\nHost: a\r\n\r\n")).toMatch(/^HTTP\/1\.1 200 .*ok$/s);
  });

  it("takes nothing of its answer is closed", async () => {
    const socket = connect(Number(new URL(listener.url).port), "127.0.0.1");
    socket.on("error", () => {});
    socket.write("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    // Nothing is read until the server has given up: then comes what the buffers held, and an end before its time.
    await once(closings, "closed");
    expect(asked!.bytesWritten).toBeLessThan(LARGE_OCTETS);
    let octets = 0;
    socket.on("data", (chunk) => {
      octets += chunk.length;
    });
    await new Promise((resolve) => socket.once("close", resolve));
    expect(octets).toBeLessThan(LARGE_OCTETS);
  });

  it("does not read has little of its answer kept for it", async () => {
    const socket = connect(Number(new URL(hurried.url).port), "127.0.0.1");
    socket.write("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    await expect.poll(() => asked?.writableLength).toBeGreaterThan(0);
    expect(asked!.writableLength).toBeLessThanOrEqual(64 * 1024);
    let octets = 0;
    socket.on("data", (chunk: Buffer) => {
      octets += chunk.length;
    });
    await expect.poll(() => octets).toBeGreaterThan(LARGE_OCTETS);
    socket.destroy();
  });

  it.each(["GET", "HEAD"])("reads gets the whole of a large text: %s", async (method) => {
    const answer = await fetch(`${listener.url}/text`, { method });
    expect(answer.headers.get("content-length")).toBe(String(Buffer.byteLength(LARGE_TEXT)));
    expect(await answer.text()).toBe(method === "GET" ? LARGE_TEXT : "");
  });

  it("sends requests ahead has them carried out one after the other", async () => {
    const turn = "GET /turn HTTP/1.1\r\nHost: a\r\n";
    const answer = await sendAndWait(`${`${turn}\r\n`.repeat(MOST_AHEAD)}${turn}Connection: close\r\n\r\n`);
    expect(answer.match(/HTTP\/1\.1 200/g)).toHaveLength(MOST_AHEAD + 1);
    expect(mostAtWork).toBe(1);
  });

  it("sends more of them than may wait is closed", async () => {
    expect(await sendAndWait("GET /turn HTTP/1.1\r\nHost: a\r\n\r\n".repeat(MOST_AHEAD + 2))).toBe("");
    expect(mostAtWork).toBe(1);
  });

  it("waits for an answer that takes its time gets it", async () => {
    const answer = await sendAndWait("GET /late HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    expect(answer).toMatch(/^HTTP\/1\.1 200 .*ok$/s);
  });
});

describe("a client that waits to be told to send its body", () => {
  const head = (path: string) =>
    `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n`;

  it("is answered at once where nobody reads it, and closed", async () => {
    const answer = await sendAndWait(head("/refuse"));
    expect(answer).toMatch(/^HTTP\/1\.1 403 Forbidden\r\n/);
    expect(answer).toMatch(/^Connection: close\r$/m);
  });

  it.each(["/", "/pipe"])("is told so once where it is read (%s), and may go on", async (path) => {
    const socket = connect(Number(new URL(listener.url).port), "127.0.0.1");
    let received = "";
    socket.setEncoding("utf8").on("data", (text: string) => {
      received += text;
    });
    socket.write(head(path));
    await expect.poll(() => received).toBe("HTTP/1.1 100 Continue\r\n\r\n");
    socket.write(`abcGET / HTTP/1.1\r\nHost: a\r\n\r\n`);
    await once(socket, "close");
    expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 100", "HTTP/1.1 200", "HTTP/1.1 200"]);
  });
});

describe("what a proxy is asked for", () => {
  it.each([
    ["alone", "", /^HTTP\/1\.1 501 Not Implemented\r\nConnection: close\r\n/],
    ["behind another request", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", /^(?:HTTP\/1\.1 200 OK\r\n|$)/],
  ])("is refused, %s", async (_, before, expected) => {
    const answer = await sendAndWait(`${before}CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n`);
    expect(answer).toMatch(expected);
    if (before === "") {
      expect(JSON.parse(answer.split("\r\n\r\n")[1]!)).toEqual({ on: "CONNECT is for proxies, and this is none" });
    }
  });

  it("and the server itself (OPTIONS *) answers like any path", async () => {
    expect(await sendAndWait("OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).toMatch(/^HTTP\/1\.1 200 /);
  });
});

describe("the Host field (RFC 9112 §3.2)", () => {
  it.each([
    ["", 400],
    ["Host: a\r\nHost: a\r\n", 400],
    ["Host: a\r\nhost: b\r\n", 400],
    ["Host: a b\r\n", 400],
    ["Host: a, b\r\n", 400],
    ["Host: user@a\r\n", 400],
    ["Host: http://a/\r\n", 400],
    ["Host: a:b\r\n", 400],
    ["Host: \r\n", 200],
    ["Host: a_b.Example.:8025\r\n", 200],
    ["Host: xn--caf-dma.example\r\n", 200],
    ["Host: 127.0.0.1:1\r\n", 200],
    ["Host: [2001:db8::1]:1\r\n", 200],
  ])("%j is answered %i", async (host, status) => {
    const answer = await sendAndWait(`GET / HTTP/1.1\r\n${host}Connection: close\r\n\r\n`);
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    if (status === 400) expect(answer).toContain('{"on":"malformed HTTP request"}');
  });

  it("may be absent from a request of HTTP/1.0, but not be there twice", async () => {
    expect(await sendAndWait("GET / HTTP/1.0\r\n\r\n")).toMatch(/^HTTP\/1\.1 200 /);
    expect(await sendAndWait("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n")).toMatch(/^HTTP\/1\.1 400 /);
  });
});

it("two Authorization fields are two callers, and none of them is answered (RFC 9110 §5.3)", async () => {
  const request = (fields: string) => `GET / HTTP/1.1\r\nHost: a\r\n${fields}Connection: close\r\n\r\n`;
  expect(await sendAndWait(request("Authorization: a\r\n"))).toMatch(/^HTTP\/1\.1 200 /);
  expect(await sendAndWait(request("Authorization: a\r\nauthorization: b\r\n"))).toMatch(/^HTTP\/1\.1 400 /);
});

it.each([
  ["1.1", "chunked", 200],
  ["1.1", "Chunked", 200],
  ["1.1", "gzip, chunked", 400],
  ["1.0", "chunked", 400],
])(
  "HTTP/%s with the Transfer-Encoding %s is answered %i, and closed where others may read it otherwise",
  async (version, coding, status) => {
    const head = `POST /where HTTP/${version}\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: ${coding}\r\n\r\n`;
    const next = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    const answers = await sendAndWait(`${head}2\r\n{}\r\n0\r\n\r\n${next}`);
    expect(answers.match(/HTTP\/1\.1 \d+/g)).toEqual(status === 200 ? Array(2).fill("HTTP/1.1 200") : ["HTTP/1.1 400"]);
  },
);

describe("header fields", () => {
  const request = (fields: number, last: string) =>
    `GET /where HTTP/1.1\r\nHost: a\r\n${"W: b\r\n".repeat(fields - 2)}${last}\r\n\r\n`;

  it("are all read of a request that has as many as it may", async () => {
    const answer = await sendAndWait(request(MOST_HEADER_FIELDS, "Host: b"));
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
  });

  it.each([MOST_HEADER_FIELDS + 1, 2_001])(
    "are not read of one with %i: it is answered 431 and closed",
    async (fields) => {
      const answer = await sendAndWait(request(fields, "Connection: keep-alive"));
      expect(answer).toMatch(/^HTTP\/1\.1 431 Request Header Fields Too Large\r\nConnection: close\r\n/);
      expect(answer).toContain('{"on":"the header fields are too large"}');
    },
  );

  it.each(["Expect: 100-continue", "Expect: more"])("are counted before %s is heard", async (expectation) => {
    const answer = await sendAndWait(request(MOST_HEADER_FIELDS + 1, expectation));
    expect(answer).toMatch(/^HTTP\/1\.1 431 /);
  });
});

describe("a target that names its host (RFC 9112 §3.2.2)", () => {
  const ask = (target: string, fields: string) =>
    sendAndWait(`GET ${target} HTTP/1.1\r\n${fields}Connection: close\r\n\r\n`);

  it.each([
    ["http://other.example/where?a=b", "other.example/where?a=b"],
    ["HTTPS://other.example:8443/where", "other.example/where"],
    ["http://[2001:db8::1]:80/where", "[2001:db8::1]/where"],
  ])("counts for more than Host: %s", async (target, where) => {
    const answer = await ask(target, "Host: example.org\r\n");
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(answer.split("\r\n\r\n")[1]).toBe(where);
  });

  it.each(["http://other.example", "http://other.example?a=b"])("%s asks for the root", async (target) => {
    expect(await ask(target, "Host: example.org\r\n")).toMatch(/^HTTP\/1\.1 200 .*ok$/s);
  });

  it.each(["http://user@other.example/", "http:///where", "http://a b/"])("%s is answered 400", async (target) => {
    expect(await ask(target, "Host: example.org\r\n")).toMatch(/^HTTP\/1\.1 400 /);
  });

  it("needs a sound Host all the same", async () => {
    for (const fields of ["", "Host: a\r\nHost: b\r\n", "Host: a/b\r\n"]) {
      expect(await ask("http://other.example/where", fields)).toMatch(/^HTTP\/1\.1 400 /);
    }
  });
});

it("serves IPv4 and IPv6 on one port, each client with its own address", async () => {
  const app = new Koa();
  app.use((ctx) => {
    ctx.body = ctx.req.socket.remoteAddress;
  });
  const port = await freePort();
  const both = [
    { host: "0.0.0.0", port },
    { host: "::", port, ipv6Only: true },
  ];
  const listener = (await listenHttp(app, both, { observe: () => {} }))!;
  try {
    for (const [host, address] of [
      ["127.0.0.1", "127.0.0.1"],
      ["[::1]", "::1"],
    ]) {
      expect(await (await fetch(`http://${host}:${port}/`)).text()).toBe(address);
    }
  } finally {
    await listener.close(0);
  }
});

it("tells every address that it serves", async () => {
  const local = { host: "127.0.0.1", port: 0 };
  const app = Object.assign(new Koa(), { silent: true });
  const listener = (await listenHttp(app, [local, { ...local, host: "127.0.0.2" }], { observe: () => {} }))!;
  try {
    expect(listener.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+,http:\/\/127\.0\.0\.2:\d+$/);
    expect(listener.address).toBe(listener.url.replaceAll("http://", ""));
    for (const url of listener.url.split(",")) expect((await fetch(url)).status).toBe(404);
  } finally {
    await listener.close(0);
  }
});

it("goes on when a connection cannot be accepted", async () => {
  const listening = vi.spyOn(Server.prototype, "listen");
  const seen: Observation[] = [];
  const app = Object.assign(new Koa(), { silent: true });
  const local = [{ host: "127.0.0.1", port: 0 }];
  const served = (await listenHttp(app, local, { observe: (observation) => seen.push(observation) }))!;
  const [server] = listening.mock.contexts;
  listening.mockRestore();
  try {
    const err = Object.assign(new Error("accept EMFILE"), { code: "EMFILE" });
    // As node does when the process has no file descriptor left.
    (server as Server).emit("error", err);
    const listener = served.url.slice("http://".length);
    expect(seen).toEqual([{ kind: "http-listener-failed", level: "warn", listener, err }]);
    expect((await fetch(served.url)).status).toBe(404);
  } finally {
    await served.close(0);
  }
});
