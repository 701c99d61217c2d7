import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openSmtpSession, type SmtpClientSession } from "../../../../services/platform/smtp/client.ts";
import { onTheWire } from "../../../../services/platform/smtp/transaction.ts";

const ENVELOPE = { mailFrom: "a@example.org", rcptTo: ["b@example.net"], needsSmtputf8: false };
const MESSAGE = Buffer.from("Subject: x\r\n\r\nHello\r\n.dot\r\n");
const GROUP = "MAIL FROM:<a@example.org>\r\nRCPT TO:<b@example.net>\r\nDATA\r\n";
const WIRE = "Subject: x\r\n\r\nHello\r\n..dot\r\n.\r\n";

/** What the server says to what it was sent in one write; undefined ends the connection. */
type Script = readonly (string | undefined)[];

const clients: Socket[] = [];
const noteClient = (message: unknown) => clients.push((message as { readonly socket: Socket }).socket);
beforeEach(() => subscribe("net.client.socket", noteClient));

const stops: (() => void)[] = [];
afterEach(() => {
  unsubscribe("net.client.socket", noteClient);
  for (const stop of stops.splice(0)) stop();
});

/** A server that answers each write with the next line of its script, and the writes that it had. */
async function open(
  script: Script,
  extensions: readonly string[] = ["PIPELINING"],
  name = "far.example.net",
): Promise<{ session: SmtpClientSession; writes: string[]; server: () => Socket }> {
  const writes: string[] = [];
  const answers = script.values();
  let client: Socket | undefined;
  const server = createServer((socket) => {
    client = socket;
    socket.on("error", () => {});
    socket.write("220 far.example.net\r\n");
    socket.on("data", (chunk) => {
      const text = chunk.toString("latin1");
      if (text.startsWith("EHLO")) {
        const lines = [name, ...extensions];
        socket.write(lines.map((line, index) => `250${index < lines.length - 1 ? "-" : " "}${line}\r\n`).join(""));
        return;
      }
      writes.push(text);
      const { value, done } = answers.next();
      if (value !== undefined) socket.write(value);
      else if (!done) socket.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const timeouts = { connectMs: 60_000, greetingMs: 60_000, commandMs: 60_000 };
  const opened = await openSmtpSession(
    { host: "127.0.0.1", port, name: "localhost", tls: "never" },
    { hostname: "client.example.org", timeouts },
  );
  if (!opened.ok) throw new Error("no session");
  const session = opened.value;
  stops.push(() => {
    session.close();
    client?.destroy();
    server.close();
  });
  return { session, writes, server: () => client! };
}

const failure = (stage: string, code: number) => ({
  ok: false,
  error: { kind: "reply", stage, reply: expect.objectContaining({ code }) },
});
const broken = (stage: string, text: RegExp) => ({
  ok: false,
  error: { kind: "broken", stage, text: expect.stringMatching(text) },
});
const taken = { ok: true, value: { code: 250 } };
const ACCEPTS = ["250 ok\r\n250 ok\r\n354 go\r\n", "250 2.0.0 taken\r\n"];

describe("with PIPELINING", () => {
  test("the envelope and DATA are one write, the message with its dot another", async () => {
    const { session, writes } = await open([...ACCEPTS, ...ACCEPTS]);
    expect(await session.send(ENVELOPE, MESSAGE)).toMatchObject(taken);
    expect(await session.send(ENVELOPE, MESSAGE)).toMatchObject(taken);
    expect(writes).toEqual([GROUP, WIRE, GROUP, WIRE]);
    expect(session.usable).toBe(true);
  });

  test("replies of several lines are read however they arrive", async () => {
    const { session, server, writes } = await open(["250-one\r\n250-two\r\nthree\r\n250 MAIL\r\n25"]);
    const sent = session.send(ENVELOPE, MESSAGE);
    const rest = "0-ok\r\n250 ok\r\n354 go\r\n";
    await expect.poll(() => writes.length).toBe(1);
    for (const octet of rest) {
      server().write(octet);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await expect.poll(() => writes.length).toBe(2);
    server().write("250-2.0.0 taken\r\n250 2.0.0 as 1\r\n");
    expect(await sent).toMatchObject({ ok: true, value: { code: 250, lines: ["taken", "as 1"] } });
  });

  test("RCPT refused and DATA taken: a lone dot, and RSET before the next (RFC 2920 §3.1)", async () => {
    const next = ["250 reset\r\n250 ok\r\n250 ok\r\n354 go\r\n", "250 taken\r\n"];
    const { session, writes } = await open(["250 ok\r\n550 5.1.1 nobody\r\n354 go\r\n", "554 nobody\r\n", ...next]);
    expect(await session.send(ENVELOPE, MESSAGE)).toMatchObject(failure("rcpt", 550));
    expect(session.usable).toBe(true);
    expect(await session.send(ENVELOPE, MESSAGE)).toMatchObject(taken);
    expect(writes).toEqual([GROUP, ".\r\n", `RSET\r\n${GROUP}`, WIRE]);
  });

  test.each([
    [
      "RCPT refused, and DATA with it",
      "250 ok\r\n550 5.1.1 nobody\r\n503 no recipients\r\n",
      failure("rcpt", 550),
      true,
    ],
    ["RCPT refused for now", "250 ok\r\n451 greylisted\r\n503 no recipients\r\n", failure("rcpt", 451), true],
    ["MAIL refused, and all that follows", "550 no\r\n503 no\r\n503 no\r\n", failure("mail", 550), true],
    ["DATA refused", "250 ok\r\n250 ok\r\n451 no room\r\n", failure("data", 451), true],
    ["421 to MAIL", "421 busy\r\n", failure("mail", 421), false],
    ["421 to RCPT", "250 ok\r\n421 busy\r\n", failure("rcpt", 421), false],
    ["421 to DATA", "250 ok\r\n250 ok\r\n421 busy\r\n", failure("data", 421), false],
    ["354 to MAIL", "354 go\r\n250 ok\r\n354 go\r\n", broken("mail", /out of step: 354/), false],
    ["250 to DATA", "250 ok\r\n250 ok\r\n250 ok\r\n", broken("data", /out of step: 250/), false],
    ["words that are no reply", "hello\r\n", broken("mail", /no intelligible reply: hello/), false],
    ["a reply without end", "250-more\r\n".repeat(10_000), broken("mail", /without end/), false],
  ])("%s", async (_name, said, expected, isUsable) => {
    const { session, writes } = await open([said]);
    expect(await session.send(ENVELOPE, MESSAGE)).toMatchObject(expected);
    expect(session.usable).toBe(isUsable);
    expect(writes[0]).toBe(GROUP);
  });

  test.each([
    ["before the reply to MAIL", [undefined], "mail"],
    ["after the final dot", [ACCEPTS[0], undefined], "message"],
  ])("a server that drops the connection %s", async (_name, script, stage) => {
    const { session } = await open(script);
    expect(await session.send(ENVELOPE, MESSAGE)).toMatchObject(broken(stage, /closed|reset/i));
    expect(session.usable).toBe(false);
  });

  test("421 to the final dot refuses the message and ends the session", async () => {
    const { session } = await open([ACCEPTS[0], "421 closing\r\n"]);
    expect(await session.send(ENVELOPE, MESSAGE)).toMatchObject(failure("message", 421));
    expect(session.usable).toBe(false);
  });

  test("a RSET that is refused ends the session before anything is sent", async () => {
    const { session } = await open(["250 ok\r\n550 no\r\n503 no\r\n", "500 no\r\n250 ok\r\n250 ok\r\n354 go\r\n"]);
    await session.send(ENVELOPE, MESSAGE);
    expect(await session.send(ENVELOPE, MESSAGE)).toMatchObject(broken("mail", /could not be reset/));
    expect(session.usable).toBe(false);
  });

  test("a reply that nobody asked for ends the session", async () => {
    const { session, server } = await open(ACCEPTS);
    await session.send(ENVELOPE, MESSAGE);
    server().write("250 and another\r\n");
    await expect.poll(() => session.usable).toBe(false);
    expect(await session.send(ENVELOPE, MESSAGE)).toMatchObject(broken("mail", /nobody asked for/));
  });

  test("of several recipients those that are taken get the message", async () => {
    const { session, writes } = await open(["250 ok\r\n550 nobody\r\n250 ok\r\n354 go\r\n", "250 taken\r\n"]);
    const envelope = { ...ENVELOPE, rcptTo: ["b@example.net", "c@example.net"] };
    expect(await session.send(envelope, MESSAGE)).toMatchObject(taken);
    expect(writes[1]).toBe(WIRE);
  });
});

describe("without PIPELINING", () => {
  test("each command waits for the reply to the one before", async () => {
    const { session, writes } = await open(["250 ok\r\n", "250 ok\r\n", "354 go\r\n", "250 taken\r\n"], []);
    expect(await session.send(ENVELOPE, MESSAGE)).toMatchObject(taken);
    expect(writes).toEqual(["MAIL FROM:<a@example.org>\r\n", "RCPT TO:<b@example.net>\r\n", "DATA\r\n", WIRE]);
  });

  test.each([
    ["MAIL", ["452 full\r\n"], failure("mail", 452)],
    ["RCPT", ["250 ok\r\n", "550 nobody\r\n"], failure("rcpt", 550)],
    ["DATA", ["250 ok\r\n", "250 ok\r\n", "554 no\r\n"], failure("data", 554)],
  ])("nothing follows when %s is refused", async (_name, script, expected) => {
    const { session, writes } = await open(script, []);
    expect(await session.send(ENVELOPE, MESSAGE)).toMatchObject(expected);
    expect(writes).toHaveLength(script.length);
  });
});

describe("extensions", () => {
  test("are used where they are offered and needed", async () => {
    const { session, writes } = await open(ACCEPTS, ["PIPELINING", "SIZE 1000", "8BITMIME", "SMTPUTF8"]);
    const eightBit = Buffer.from("Subject: x\r\n\r\nñ\r\n");
    await session.send({ ...ENVELOPE, needsSmtputf8: true }, eightBit);
    expect(writes[0]).toMatch(/^MAIL FROM:<a@example.org> SIZE=18 BODY=8BITMIME SMTPUTF8\r\n/);
  });

  test.each([
    ["a message above SIZE", ["PIPELINING", "SIZE 10"], ENVELOPE, "5.3.4"],
    ["an address beyond ASCII without SMTPUTF8", ["PIPELINING"], { ...ENVELOPE, needsSmtputf8: true }, "5.6.7"],
  ])("%s is not begun, and the session stays", async (_name, extensions, envelope, enhancedStatus) => {
    const { session, writes } = await open(ACCEPTS, extensions);
    expect(await session.send(envelope, MESSAGE)).toMatchObject({
      ok: false,
      error: { kind: "unsuited", reply: { enhancedStatus } },
    });
    expect(writes).toEqual([]);
    expect(session.usable).toBe(true);
  });

  test.each([
    ["of several lines", ["8BITMIME"]],
    ["of one line", []],
  ])("are not read from the server's name, in a greeting %s", async (_what, extensions) => {
    const { session, writes } = await open(
      ["250 ok\r\n", "250 ok\r\n", "354 go\r\n", "250 taken\r\n"],
      extensions,
      "size.example.net",
    );
    expect(await session.send(ENVELOPE, MESSAGE)).toMatchObject(taken);
    expect(writes[0]).toBe("MAIL FROM:<a@example.org>\r\n");
  });

  test("SIZE without a limit limits nothing", async () => {
    const { session } = await open(ACCEPTS, ["PIPELINING", "SIZE 0"]);
    expect(await session.send(ENVELOPE, MESSAGE)).toMatchObject(taken);
  });
});

test.each([
  ["", ".\r\n"],
  ["a\r\n", "a\r\n.\r\n"],
  ["a", "a\r\n.\r\n"],
  [".a\r\n", "..a\r\n.\r\n"],
  ["a\r\n.\r\n.\r\nb\r\n", "a\r\n..\r\n..\r\nb\r\n.\r\n"],
  ["a.\r\n", "a.\r\n.\r\n"],
])("%j goes over the wire as %j", (given, wire) => {
  expect(Buffer.concat([...onTheWire(Buffer.from(given))]).toString()).toBe(wire);
});

test("where a message is cut into blocks no dot is forgotten, and none is added", () => {
  const block = 256 * 1024;
  for (let shift = 0; shift < 4; shift += 1) {
    const text = `${"x".repeat(block - 2 + shift)}\r\n.\r\n..\r\ny`;
    const wire = `${text.replaceAll("\r\n.", "\r\n..")}\r\n.\r\n`;
    expect(Buffer.concat([...onTheWire(Buffer.from(text))]).toString() === wire).toBe(true);
  }
});

test("a message of lone dots waits in memory as one block, whatever its size", async () => {
  const { session, server } = await open(ACCEPTS);
  const client = clients.at(-1)!;
  const dots = Buffer.from(".\r\n".repeat(8 * 2 ** 20));
  const sent = session.send(ENVELOPE, dots);
  await once(server(), "data");
  server().removeAllListeners("data").pause();
  await expect.poll(() => client.writableLength).toBeGreaterThan(0);
  const wireOctets = (dots.length / 3) * 4 + 3;
  let waiting = client.writableLength;
  let received = 0;
  server().on("data", (chunk) => {
    received += chunk.length;
    waiting = Math.max(waiting, client.writableLength);
    if (received === wireOctets) server().write("250 taken\r\n");
  });
  server().resume();
  expect(await sent).toMatchObject(taken);
  expect(received).toBe(wireOctets);
  expect(waiting).toBeLessThan(2 * 256 * 1024);
});
