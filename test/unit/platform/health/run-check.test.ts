import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { createServer as createHttps } from "node:https";
import { createServer as createTcp, type Server, type Socket } from "node:net";
import { generate } from "selfsigned";
import { afterEach, describe, expect, test } from "vitest";
import { healthCheck } from "../../../../services/core/dns/follow/health-check.ts";
import { runCheck } from "../../../../services/platform/health/run-check.ts";
import { startAnsweringResolver } from "../../../support/answering-resolver.ts";
import { freePort } from "../../../support/peers-processes.ts";

const NAME = "www.example.org";
const servers: Server[] = [];
const sockets = new Set<Socket>();

afterEach(() => {
  for (const socket of sockets) socket.destroy();
  for (const server of servers.splice(0)) server.close();
});

async function listen(server: Server, address = "127.0.0.1"): Promise<number> {
  servers.push(server);
  server.on("connection", (socket) => sockets.add(socket));
  server.listen(0, address);
  await once(server, "listening");
  return (server.address() as { port: number }).port;
}

const say = (text: string | undefined) =>
  listen(
    createTcp((socket) => {
      socket.on("error", () => {});
      if (text !== undefined) socket.write(text);
    }),
  );
const web = (listener: RequestListener) => listen(createServer(listener));

/** The most that a check may take: all that answers does so within it, however busy the machine. */
const TIMEOUT_SECONDS = 30;
/** Seconds for a check that is to end like this. */
const timeFor = (code: string) => (code === "check-timeout" ? 1 : TIMEOUT_SECONDS);

/** The code of what is wrong, or `well`. */
async function check(fields: object, address = "127.0.0.1"): Promise<string> {
  const given = { interval: 2 * TIMEOUT_SECONDS, timeout: TIMEOUT_SECONDS, ...fields };
  const fault = await runCheck(healthCheck.parse(given), { address, name: NAME });
  return fault?.code ?? "well";
}

describe("TCP", () => {
  test("is well where something listens, by IPv4 and IPv6", async () => {
    expect(await check({ type: "tcp", port: await say(undefined) })).toBe("well");
    expect(await check({ type: "tcp", port: await listen(createTcp(), "::1") }, "::1")).toBe("well");
    const port = await say(undefined);
    servers[0]?.close();
    expect(await check({ type: "tcp", port }, "127.0.0.9")).toBe("check-away");
  });
});

describe("SMTP", () => {
  test.each([
    ["220 mail.example.org\r\n", "well"],
    ["220-mail.example.org\r\n220 ready\r\n", "well"],
    ["554 no\r\n", "check-greeting"],
    ["220-mail\r\n421 later\r\n", "check-greeting"],
    [`220-${"x".repeat(5_000)}`, "check-malformed"],
    [undefined, "check-timeout"],
  ])("greeting %j: %s", async (text, wanted) => {
    expect(await check({ type: "smtp", port: await say(text), timeout: timeFor(wanted) })).toBe(wanted);
  });
});

describe("HTTP", () => {
  test("asks the address for its own name, and judges status and text", async () => {
    const port = await web((request, response) => {
      response.statusCode = request.url === "/well" ? 200 : 503;
      response.end(`for ${request.headers.host}: fünf`);
    });
    expect(await check({ type: "http", port, path: "/well" })).toBe("well");
    expect(await check({ type: "http", port })).toBe("check-status");
    expect(await check({ type: "http", port, status: ["503"], text: `for ${NAME}: fünf` })).toBe("well");
    expect(await check({ type: "http", port, status: ["500-599"], text: "six" })).toBe("check-text");
    expect(await check({ type: "http", port, path: "/well", host: "other.example.org", text: "other" })).toBe("well");
  });

  test.each([
    ["HTTP/1.1 200 OK\r\n", "check-timeout"],
    ["SSH-2.0-OpenSSH\r\n", "check-malformed"],
    ["HTTP/1.1 100 Continue\r\n\r\n", "check-timeout"],
    ["HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "check-status"],
    [`HTTP/1.1 200 OK\r\nX: ${"x".repeat(100_000)}\r\n\r\n`, "check-malformed"],
    [undefined, "check-timeout"],
  ])("answer %j: %s", async (text, wanted) => {
    expect(await check({ type: "http", port: await say(text), timeout: timeFor(wanted) })).toBe(wanted);
  });

  test("judges a change of protocol as any status, and finds no text in it", async () => {
    const port = await say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nwell");
    expect(await check({ type: "http", port, status: ["101"] })).toBe("well");
    expect(await check({ type: "http", port, status: ["101"], text: "well" })).toBe("check-text");
  });

  test("looks through 64 KiB and no more, and waits no longer than it may", async () => {
    const endless = await web((_request, response) => {
      const timer = setInterval(() => response.write("x".repeat(10_000)), 1);
      response.on("close", () => clearInterval(timer));
    });
    expect(await check({ type: "http", port: endless, text: "never" })).toBe("check-text");
    const slow = await web((_request, response) => {
      const timer = setInterval(() => response.write("x"), 50);
      response.on("close", () => clearInterval(timer));
    });
    expect(await check({ type: "http", port: slow, text: "never", timeout: 1 })).toBe("check-timeout");
    expect(await check({ type: "http", port: await web((request) => request.socket.destroy()) })).toBe("check-away");
  });
});

test("HTTPS judges the certificate, and how long it is good still", async () => {
  const notAfterDate = new Date(Date.now() + 10 * 86_400_000);
  const pems = await generate([{ name: "commonName", value: NAME }], { notAfterDate, keySize: 2048 } as never);
  const server = createHttps({ key: pems.private, cert: pems.cert }, (_request, response) => response.end("well"));
  const port = await listen(server as unknown as Server);
  expect(await check({ type: "https", port })).toBe("check-certificate");
  expect(await check({ type: "https", port, verify: false })).toBe("well");
  expect(await check({ type: "https", port, verify: false, certificate_days: 5 })).toBe("well");
  expect(await check({ type: "https", port, verify: false, certificate_days: 30 })).toBe("check-certificate-expires");
});

test("DNS wants NOERROR and a record of the type", async () => {
  const resolver = await startAnsweringResolver();
  const port = Number(resolver.address.split(":")[1]);
  resolver.says
    .set("here.test", ["here.test 60 A 192.0.2.1"])
    .set("fails.test", "SERVFAIL")
    .set("silent.test", "silence");
  const ask = (question: string, question_type = "A", timeout = TIMEOUT_SECONDS) =>
    check({ type: "dns", port, question, question_type, timeout });
  expect(await ask("here.test")).toBe("well");
  expect(await ask("here.test", "MX")).toBe("check-no-records");
  expect(await ask("gone.test")).toBe("check-rcode");
  expect(await ask("fails.test")).toBe("check-rcode");
  expect(await ask("silent.test", "A", 1)).toBe("check-timeout");
  await resolver.stop();
});

test("DNS by TCP has no longer than the check, however slowly it answers", async () => {
  const truncates = createSocket("udp4");
  truncates.on("message", (query, { address, port }) => {
    const answer = Buffer.from(query);
    answer[2]! |= 0x82; // QR, TC
    truncates.send(answer, port, address);
  });
  const drips = createTcp((socket) => {
    socket.on("error", () => {});
    const timer = setInterval(() => socket.write("\x40"), 100);
    socket.on("close", () => clearInterval(timer));
  });
  // Free for both.
  const port = await freePort();
  servers.push(drips);
  drips.on("connection", (socket) => sockets.add(socket)).listen(port, "127.0.0.1");
  truncates.bind(port, "127.0.0.1");
  await once(truncates, "listening");
  const from = performance.now();
  expect(await check({ type: "dns", port, question: "here.test", timeout: 1 })).toBe("check-timeout");
  // The answer that it is told of takes half an hour.
  expect(performance.now() - from).toBeLessThan(60_000);
  truncates.close();
});
