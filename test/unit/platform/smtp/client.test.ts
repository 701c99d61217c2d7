import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import net, { type AddressInfo, createServer, type Server, Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { TlsEvidence } from "../../../../services/core/mail/reports/tls-session.ts";
import { openSmtpSession, type SeenTls, type SmtpPeer } from "../../../../services/platform/smtp/client.ts";
import { makeServerCertificate } from "../../../support/certificates.ts";

const TIMEOUTS = { connectMs: 30_000, greetingMs: 60_000, commandMs: 100_000 };
const SET_UP_MS = 450_000;

let server: Server;
let peer: SmtpPeer;
let clients: Socket[];
const noteClient = (message: unknown) => clients.push((message as { readonly socket: Socket }).socket);

beforeEach(async () => {
  clients = [];
  server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  peer = { host: "127.0.0.1", port, name: "localhost", tls: "never" };
  subscribe("net.client.socket", noteClient);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
});
afterEach(() => {
  vi.useRealTimers();
  unsubscribe("net.client.socket", noteClient);
  for (const socket of clients) socket.destroy();
  server.close();
});

/** Both ends of a connection that has just come about, and the session that is to come of it. */
async function connect(hearOfTls?: (evidence: TlsEvidence) => void) {
  const accepted = once(server, "connection") as Promise<[Socket]>;
  const onTls = ({ evidence }: SeenTls) => hearOfTls?.(evidence);
  const opened = openSmtpSession(peer, { hostname: "client.example.org", timeouts: TIMEOUTS, onTls });
  const [far] = await accepted;
  far.on("error", () => {});
  const near = clients[0]!;
  if (near.connecting) await once(near, "connect");
  return { far, opened };
}

test("a greeting may come later than a connection", async () => {
  const { far, opened } = await connect();
  await vi.advanceTimersByTimeAsync(TIMEOUTS.greetingMs - 1);
  far.write("220 far.example.net\r\n");
  await once(far, "data");
  far.write("250 far.example.net\r\n");
  const session = await opened;
  expect(session).toMatchObject({ ok: true });
  if (session.ok) session.value.close();
});

test("a greeting that does not come at all is no session", async () => {
  const { opened } = await connect();
  await vi.advanceTimersByTimeAsync(TIMEOUTS.greetingMs);
  expect(await opened).toMatchObject({ ok: false, error: { kind: "broken", stage: "connect" } });
});

test("a server that never comes to the end of its extensions does not keep the client", async () => {
  const { far, opened } = await connect();
  far.write("220 far.example.net\r\n");
  await once(far, "data");
  far.write("250-far.example.net\r\n");
  await vi.advanceTimersByTimeAsync(SET_UP_MS);
  expect(await opened).toMatchObject({ ok: false, error: { kind: "broken", stage: "ehlo" } });
  await vi.advanceTimersByTimeAsync(10_000);
  expect(clients[0]!.destroyed).toBe(true);
});

test("a connection that does not come about is given up in its time", async () => {
  const near = new Socket();
  const connecting = vi.spyOn(net, "connect").mockReturnValue(near);
  const opened = openSmtpSession(peer, { hostname: "client.example.org", timeouts: TIMEOUTS });
  await vi.advanceTimersByTimeAsync(TIMEOUTS.connectMs);
  expect(connecting).toHaveBeenCalledOnce();
  connecting.mockRestore();
  expect(await opened).toMatchObject({ ok: false, error: { stage: "connect", text: "Connection timeout" } });
  expect(near.destroyed).toBe(true);
});

/** A session in clear, with a server that does the rest itself. */
async function introduced() {
  const { far, opened } = await connect();
  far.write("220 far.example.net\r\n");
  await once(far, "data");
  far.write("250 far.example.net\r\n");
  const session = await opened;
  if (!session.ok) throw new Error("no session");
  return { far, session: session.value, near: clients[0]! };
}

test("a server that goes on talking after QUIT is left all the same", async () => {
  const { far, session, near } = await introduced();
  far.allowHalfOpen = true;
  session.close();
  expect(String((await once(far, "data"))[0])).toBe("QUIT\r\n");
  for (let said = 0; said < 5; said += 1) {
    expect(near.destroyed).toBe(false);
    const read = near.bytesRead;
    far.write("2");
    await expect.poll(() => near.bytesRead).toBeGreaterThan(read);
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(near.destroyed).toBe(true);
  far.destroy();
});

test("of a session that is over what waits to be sent is not held", async () => {
  const { far, session, near } = await introduced();
  const sent = session.send(
    { mailFrom: "a@example.org", rcptTo: ["b@example.net"], needsSmtputf8: false },
    Buffer.alloc(32 * 2 ** 20, "x\r\n"),
  );
  for (const reply of ["250 ok", "250 ok", "354 go"]) {
    await once(far, "data");
    far.write(`${reply}\r\n`);
  }
  await once(far, "data");
  far.pause();
  let outcome: unknown;
  void sent.then((result) => (outcome = result));
  // Each block that the system's buffers still take has three minutes of its own.
  await expect
    .poll(async () => {
      await vi.advanceTimersByTimeAsync(180_000);
      return outcome;
    })
    .toMatchObject({ ok: false, error: { kind: "broken", stage: "message" } });
  session.close();
  expect([near.destroyed, session.usable]).toEqual([true, false]);
});

test.each([
  [
    "451 4.3.0 try again later",
    { ok: false, error: { kind: "reply", stage: "ehlo", reply: { code: 451 } } },
    ["QUIT\r\n"],
  ],
  ["502 5.5.1 what is that", { ok: true }, ["HELO client.example.org\r\n"]],
])("EHLO answered with %s", async (refusal, expected, heard) => {
  const { far, opened } = await connect();
  const commands: string[] = [];
  far.write("220 far.example.net\r\n");
  await once(far, "data");
  far.on("data", (chunk) => {
    commands.push(String(chunk));
    far.write("250 far.example.net\r\n");
  });
  far.write(`${refusal}\r\n`);
  const session = await opened;
  expect(session).toMatchObject(expected);
  await expect.poll(() => commands).toEqual(heard);
  if (session.ok) session.value.close();
});

test.each(["required", "dane"] as const)(
  "%s: STARTTLS is not said to who does not offer it, and the session is none",
  async (tls) => {
    peer = { ...peer, tls };
    const seen: TlsEvidence[] = [];
    const { far, opened } = await connect((evidence) => seen.push(evidence));
    let heard = "";
    far.on("data", (octets: Buffer) => {
      heard += octets.toString();
      if (octets.toString().startsWith("EHLO")) far.write("250-far.example.net\r\n250 SIZE 1000\r\n");
    });
    far.write("220 far.example.net\r\n");
    expect(await opened).toMatchObject({
      ok: false,
      error: { kind: "broken", stage: "starttls", text: "STARTTLS is not offered" },
    });
    expect(seen).toEqual([{ kind: "not-offered" }]);
    await expect.poll(() => heard).toBe("EHLO client.example.org\r\nQUIT\r\n");
  },
);

test.each([
  ["QUIT\r\n", ["554 no"]],
  ["QUIT\r\n", ["421 not now"]],
  ["", ["what?"]],
  ["EHLO client.example.org\r\nHELO client.example.org\r\nQUIT\r\n", ["220 far", "550 no", "550 no"]],
  ["EHLO client.example.org\r\nSTARTTLS\r\nQUIT\r\n", ["220 far", "250-far\r\n250 STARTTLS", "454 no"]],
  ["EHLO client.example.org\r\nSTARTTLS\r\n", ["220 far", "250-far\r\n250 STARTTLS", "220 go\r\n250 more"]],
])("a server without a session hears %j, having said %j, and is not waited for", async (words, replies) => {
  peer = { ...peer, tls: "required" };
  const { far, opened } = await connect();
  far.allowHalfOpen = true;
  let heard = "";
  const said = replies.map((reply) => `${reply}\r\n`);
  far.on("data", (octets: Buffer) => {
    heard += octets.toString();
    far.write(said.shift() ?? "");
  });
  far.write(said.shift()!);
  const ended = once(far, "end");
  const connection = { address: "127.0.0.1", source: "127.0.0.1", tls: "", cipher: "", certificate: "" };
  expect(await opened).toMatchObject({ ok: false, connection });
  await ended;
  expect(heard).toBe(words);
  far.destroy();
});

test.each(["required", "dane"] as const)("%s: whose certificate is refused hears QUIT within TLS", async (tls) => {
  const dane = { records: [{ usage: 3, selector: 1, matchingType: 1, association: Buffer.alloc(32) }], names: [] };
  peer = { ...peer, tls, ...(tls === "dane" ? { dane } : {}) };
  const seen: TlsEvidence[] = [];
  const { far, opened } = await connect((evidence) => seen.push(evidence));
  const doubts = {
    required: "certificate: DEPTH_ZERO_SELF_SIGNED_CERT",
    dane: "DANE: the certificate matches no TLSA record",
  };
  far.write("220 far.example.net\r\n");
  await once(far, "data");
  far.write("250-far.example.net\r\n250 STARTTLS\r\n");
  await once(far, "data");
  const secured = new TLSSocket(far, { isServer: true, ...(await makeServerCertificate("localhost")) });
  let heard = "";
  secured.on("data", (octets: Buffer) => {
    heard += octets.toString();
  });
  far.write("220 go\r\n");
  const code = doubts[tls].replace("certificate: ", "");
  expect(await opened).toMatchObject({
    ok: false,
    error: { kind: "broken", stage: "starttls", text: doubts[tls] },
    connection: { address: "127.0.0.1", source: "127.0.0.1", tls: "TLSv1.3", certificate: code },
  });
  expect(seen).toEqual([{ kind: "failed", code }]);
  await once(secured, "close");
  expect(heard).toBe("QUIT\r\n");
});
