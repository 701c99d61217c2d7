import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TLSSocket } from "node:tls";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "rolldown";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { openSmtpSession } from "../../../../services/platform/smtp/client.ts";
import { makeAuthority, makeServerCertificate, type TestCertificate } from "../../../support/certificates.ts";

let folder: string;
let authority: TestCertificate;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "palomar-client-certificate-"));
  authority = await makeAuthority("An authority");
  writeFileSync(join(folder, "authority.pem"), authority.cert);
  const input = fileURLToPath(new URL("../../../../services/platform/smtp/client.ts", import.meta.url));
  await build({ input, platform: "node", output: { file: join(folder, "client.mjs") } });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** What an exchanger hears within TLS before the connection ends. */
async function startExchanger(certificate: TestCertificate) {
  let heard = "";
  const speak = (socket: Socket) => {
    socket.on("error", () => {});
    socket.on("data", (octets: Buffer) => {
      heard += octets.toString();
      if (!String(octets).startsWith("QUIT")) socket.write("250 far.example.org\r\n");
    });
  };
  const server = createServer((socket) => {
    socket.write("220 far.example.org\r\n");
    socket.once("data", () => {
      socket.write("250-far.example.org\r\n250 STARTTLS\r\n");
      socket.once("data", () => {
        socket.write("220 go\r\n");
        speak(new TLSSocket(socket, { isServer: true, ...certificate }));
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: (server.address() as { port: number }).port, heard: () => heard, stop: () => server.close() };
}

type Outcome = Awaited<ReturnType<typeof openSmtpSession>>;

/** A client in a process of its own: Node reads whom it believes when it starts. */
async function openSession(port: number, name: string): Promise<Outcome> {
  const peer = { host: "127.0.0.1", port, name, tls: "required" };
  const options = { hostname: "client.test", timeouts: { connectMs: 20_000, greetingMs: 20_000, commandMs: 20_000 } };
  const program = `
    import { openSmtpSession } from "./client.mjs";
    const outcome = await openSmtpSession(${JSON.stringify(peer)}, ${JSON.stringify(options)});
    const { connection } = outcome.value ?? outcome;
    console.log(JSON.stringify({ ok: outcome.ok, error: outcome.error, connection }));
    outcome.value?.close();
  `;
  writeFileSync(join(folder, "open.mjs"), program);
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: join(folder, "authority.pem") };
  const { stdout } = await promisify(execFile)(process.execPath, [join(folder, "open.mjs")], { env });
  return JSON.parse(stdout);
}

test.each([
  ["mail.example.org", "mail.example.org", "valid", undefined],
  ["mail.example.org", "mail.example.net", "ERR_TLS_CERT_ALTNAME_INVALID", /mail\.example\.net.*altnames/],
  ["over.example.org", "over.example.org", "CERT_HAS_EXPIRED", /^certificate: CERT_HAS_EXPIRED$/],
])("a certificate of %s, where %s is asked for and proof is owed, is %s", async (of, name, certificate, refusal) => {
  const daysLeft = certificate === "CERT_HAS_EXPIRED" ? -1 : 30;
  const exchanger = await startExchanger(await makeServerCertificate(of, { authority, daysLeft }));
  const outcome = await openSession(exchanger.port, name);
  const connection = { tls: "TLSv1.3", certificate };
  if (refusal === undefined) expect(outcome).toMatchObject({ ok: true, connection });
  else {
    const error = { kind: "broken", stage: "starttls", text: expect.stringMatching(refusal) };
    expect(outcome).toMatchObject({ ok: false, connection, error });
  }
  await expect.poll(exchanger.heard).toBe(refusal === undefined ? "EHLO client.test\r\nQUIT\r\n" : "QUIT\r\n");
  exchanger.stop();
});
