import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import Koa from "koa";
import { expect, test } from "vitest";
import { ok } from "../../../../services/core/result.ts";
import { HeavyRequests } from "../../../../services/platform/http/heavy-requests.ts";
import { LastCallers } from "../../../../services/platform/http/last-callers.ts";
import { listenHttp, UPLOAD_TIMEOUTS } from "../../../../services/platform/http/listen.ts";
import { readBody } from "../../../../services/platform/http/request-body.ts";
import { readInTime } from "../../../../services/platform/http/slow-bodies.ts";

const LARGE = { "content-length": "1000000" };
const requestOf = (headers: Record<string, string>) => ({ headers }) as unknown as IncomingMessage;

/** Work that ends when it is told to. */
function bench(heavy: HeavyRequests) {
  const read: string[] = [];
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  return {
    read,
    begun,
    ask: (client: string, name: string, headers: Record<string, string> = LARGE) =>
      heavy.run(
        { key: client, group: client },
        requestOf(headers),
        async () => {
          read.push(name);
          return ok(name);
        },
        async () => {
          begun.push(name);
          await new Promise<void>((resolve) => ends.set(name, resolve));
          return ok(name);
        },
      ),
    settle: () => new Promise((resolve) => setImmediate(resolve)),
    end: async (name: string) => {
      ends.get(name)!();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

const LIMITS = { held: { atOnce: 4, perClient: 2 }, working: { atOnce: 2, perClient: 1 } };

test("one client's large requests are worked on one after the other, and no more of their bodies are read", async () => {
  const { ask, read, begun, settle, end } = bench(new HeavyRequests(LIMITS));
  for (const name of ["a1", "a2", "a3"]) void ask("a", name);
  void ask("b", "b1");
  await settle();
  expect(read).toEqual(["a1", "a2", "b1"]);
  expect(begun).toEqual(["a1", "b1"]);
  await end("a1");
  expect(begun).toEqual(["a1", "b1", "a2"]);
  await settle();
  expect(read).toEqual(["a1", "a2", "b1", "a3"]);
});

test.each([
  ["a small one", { "content-length": "100" }],
  ["one without a body", {}],
])("%s passes by", async (_, headers) => {
  const { ask, begun, settle } = bench(new HeavyRequests(LIMITS));
  for (const name of ["large 1", "large 2", "large 3"]) void ask("a", name);
  void ask("a", "small", headers as Record<string, string>);
  await settle();
  expect(begun).toContain("small");
});

test.each([
  ["has no length", { "transfer-encoding": "chunked" }],
  ["is compressed", { "content-length": "100", "content-encoding": "gzip" }],
])("what %s may come to anything", async (_, headers) => {
  const { ask, begun, settle } = bench(new HeavyRequests(LIMITS));
  void ask("a", "first");
  void ask("a", "second", headers as Record<string, string>);
  await settle();
  expect(begun).toEqual(["first"]);
});

test("a client that has a hundred waiting is told to come again", async () => {
  const { ask } = bench(new HeavyRequests(LIMITS));
  const asked = Array.from({ length: 103 }, (_, index) => ask("a", `a${index}`));
  expect(await asked.at(-1)).toEqual({ ok: false, error: { kind: "rate-limited", retryAfterSeconds: 5 } });
});

test("one client has another place while nobody else asks for anything, and takes it from nobody", async () => {
  let nowMs = 0;
  const limits = { held: { atOnce: 8, perClient: 4 }, working: { atOnce: 2, perClient: 1, moreAlone: 1 } };
  const { ask, begun, settle, end } = bench(new HeavyRequests(limits, new LastCallers(() => nowMs)));
  for (const name of ["a1", "a2", "a3"]) void ask("a", name);
  await settle();
  expect(begun).toEqual(["a1", "a2"]);
  void ask("b", "b1");
  await settle();
  expect(begun).toEqual(["a1", "a2", "b1"]);
  await end("a1");
  expect(begun).toEqual(["a1", "a2", "b1"]);
  await end("a2");
  expect(begun).toEqual(["a1", "a2", "b1", "a3"]);
  // Longer than others are waited for: b is there as long as its call.
  nowMs += 20_000;
  void ask("a", "a4");
  await settle();
  await end("b1");
  await end("a3");
  expect(begun.slice(4)).toEqual(["a4"]);
  void ask("b", "b2");
  await settle();
  expect(begun.slice(4)).toEqual(["a4", "b2"]);
  await end("b2");
  nowMs += 5_001;
  void ask("a", "a5");
  await settle();
  expect(begun.slice(6)).toEqual(["a5"]);
});

test("a body that comes slowly is ended when another client needs its place, and not before", async () => {
  const heavy = new HeavyRequests({ held: { atOnce: 2, perClient: 1 } });
  const app = Object.assign(new Koa(), { silent: true });
  app.use(async (ctx) => {
    const key = ctx.get("From");
    const read = () => readBody(ctx.req, 1_000_000);
    const { ok: isRead } = await heavy.run({ key, group: key }, ctx.req, read, async ({ length }) => ok(length));
    ctx.status = isRead ? 200 : 400;
  });
  const listener = (await listenHttp(app, [{ host: "127.0.0.1", port: 0 }], { observe: () => {} }))!;
  const octets = 500_000;
  const begin = (client: string) => {
    const socket = connect(Number(new URL(listener.url).port), "127.0.0.1");
    socket.on("error", () => {}).setEncoding("latin1");
    const head = `POST / HTTP/1.1\r\nHost: a\r\nFrom: ${client}\r\nContent-Length: ${octets}\r\n\r\n`;
    socket.write(head);
    const finish = () => socket.write("x".repeat(head.length + octets - socket.bytesWritten));
    return { socket, finish, answer: once(socket, "data").then(([text]) => String(text).split("\r\n")[0]) };
  };
  const drip = (socket: Socket) => setInterval(() => socket.write("x".repeat(100)), 100);
  const [slow, slower] = [begin("a"), begin("b")];
  slow.socket.write("x".repeat(100_000));
  const dripping = drip(slow.socket);
  try {
    // Who waits for its own place alone has nobody's ended.
    const own = begin("b");
    await sleep(5_500);
    expect(await Promise.race([slow.answer, slower.answer, own.answer, "none is ended"])).toBe("none is ended");
    own.socket.destroy();
    const fast = begin("c");
    fast.finish();
    expect(await slower.answer).toBe("HTTP/1.1 408 Request Timeout");
    expect(await fast.answer).toBe("HTTP/1.1 200 OK");
    clearInterval(dripping);
    slow.finish();
    expect(await slow.answer).toBe("HTTP/1.1 200 OK");
  } finally {
    clearInterval(dripping);
    await listener.close(0);
  }
});

test("a body that is no file has its time also where files have more", async () => {
  const app = Object.assign(new Koa(), { silent: true });
  app.use(async (ctx) => {
    const { ok: isRead } = await readInTime(ctx.req, () => readBody(ctx.req, 1_000), 200);
    ctx.status = isRead ? 200 : 400;
  });
  const listener = (await listenHttp(app, [{ host: "127.0.0.1", port: 0 }], {
    observe: () => {},
    timeouts: UPLOAD_TIMEOUTS,
  }))!;
  const ask = async (octets: string) => {
    const socket = connect(Number(new URL(listener.url).port), "127.0.0.1").setEncoding("latin1");
    socket.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n${octets}`);
    return String((await once(socket, "data"))[0]).split("\r\n")[0];
  };
  expect(await ask("0123456789")).toBe("HTTP/1.1 200 OK");
  expect(await ask("012")).toBe("HTTP/1.1 408 Request Timeout");
  await listener.close(0);
});
