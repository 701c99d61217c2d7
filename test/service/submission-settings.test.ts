import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { connect as connectTcp, type Socket } from "node:net";
import { join } from "node:path";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { dkimVerify } from "mailauth/lib/dkim/verify.js";
import { simpleParser } from "mailparser";
import { createTransport } from "nodemailer";
import { generate } from "selfsigned";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { listInstanceDomains } from "../../services/store/mail/instances/instances.ts";
import { start as startSubmission } from "../../services/submission/main.ts";
import { start as startTracking } from "../../services/tracking/main.ts";
import { MAIL_SERVICES, type MailStack, startMailStack, TEST_DOMAIN } from "../support/mail-stack.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";

const dataDir = makeDataDir();
const certPath = join(dataDir, "cert.pem");
const keyPath = join(dataDir, "key.pem");
let stack: MailStack;
let starttls: string;
let implicit: string;

beforeAll(async () => {
  await writeCertificate("first.example.org");
  stack = await startMailStack([], {
    PALOMAR_DATA_DIR: dataDir,
    PALOMAR_TLS_CERT: certPath,
    PALOMAR_TLS_KEY: keyPath,
    PALOMAR_TRACKING_LISTEN: "127.0.0.1:0",
    PALOMAR_MACHINE_SECONDS: "0",
  });
  for (const service of [startTracking, ...Object.values(MAIL_SERVICES)]) await stack.run(service);
  const { addresses } = await stack.run(startSubmission);
  starttls = addresses.submission!;
  implicit = addresses.submissions!;
});
afterAll(async () => {
  await stack?.stop();
  removeDataDir(dataDir);
  expect(stack.failures).toEqual([]);
});

describe("a message is treated as its campaign says", () => {
  const html = '<p>Hi</p><a href="https://example.org/offer?a=1&amp;b=2">offer</a>';

  test("tracked, archived, with a way to unsubscribe, signed as it leaves", async () => {
    const { eeid, octets } = await submit({ desusc: "si", archive: true }, { html, text: "Hi", to: "all@example.net" });
    const mail = await simpleParser(octets);
    const urls = [...String(mail.html).matchAll(/(?:href|src)="([^"]+)"/g)].map(([, url]) => url!);
    expect(urls.map((url) => new URL(url).pathname.slice(0, 3))).toEqual(["/c/", "/u/", "/o/"]);
    expect(mail.text).toBe("Hi");
    expect(octets.toString()).toMatch(/^List-Unsubscribe: <http[^>]*\/u\/[^>]+>\r\n/m);

    const answer = await fetch(urls[0]!, { redirect: "manual" });
    expect([answer.status, answer.headers.get("location")]).toEqual([302, "https://example.org/offer?a=1&b=2"]);
    expect((await fetch(urls[2]!)).headers.get("content-type")).toBe("image/gif");
    const events = await eventually(
      async () => (await stack.call("GET", "/contacto/all@example.net")).body.contacto.eventos,
      (found) => found.length >= 3,
    );
    expect(events.map(({ evento }: { evento: string }) => evento).sort()).toEqual(["click", "envio", "vista"]);

    const archived = (await keptOf(eeid, "all@example.net")).body.msg;
    expect(archived).toContain(new URL(urls[0]!).pathname.slice(0, 20));
    const [domain] = await listInstanceDomains(stack.context.db, stack.instanceId);
    const { results } = await dkimVerify(octets, { resolver: async () => [[domain!.dkimRecord]] });
    expect(results.map(({ status }) => status.result)).toEqual(["pass"]);
  });

  test("kept for a recipient whose address is beyond ASCII too", async () => {
    const { eeid } = await submit({ archive: true }, { html, to: "ñandú@example.net" });
    expect((await keptOf(eeid, "ñandú@example.net")).body.msg).toContain("ñandú@example.net");
    expect((await readKept(eeid, "ñu@example.net")).body).toEqual({
      status: "err",
      on: "nada enviado a este destinatario",
    });
  });

  test("untouched and not kept, where it says so", async () => {
    const { eeid, octets } = await submit({ desusc: "no", seguimiento: "no" }, { html, to: "none@example.net" });
    expect((await simpleParser(octets)).html).toBe(`${html}\n`);
    expect(octets.toString()).not.toMatch(/^List-Unsubscribe/im);
    expect((await stack.call("GET", `/eeid_eml/${eeid}/none@example.net`)).status).toBe(400);
  });

  test("an archive needs the licence", async () => {
    await stack.context.db("instances").update({ archive: false });
    const refused = stack.addCampaign({ archive: true });
    await expect(refused).rejects.toThrow("licencia de archivo requerida");
    await stack.context.db("instances").update({ archive: true });
  });
});

describe("the certificate", () => {
  test("is the new one for new connections when its files change; a broken pair changes nothing", async () => {
    expect(await namesShown()).toEqual(["first.example.org", "first.example.org"]);
    writeFileSync(certPath, "no certificate");
    await writeCertificate("second.example.org");
    expect(await eventually(namesShown, ([one, two]) => one !== "first.example.org" && two === one)).toEqual([
      "second.example.org",
      "second.example.org",
    ]);
  });
});

const readKept = (eeid: string, email: string) => stack.call("GET", `/eeid_eml/${eeid}/${encodeURIComponent(email)}`);
/** The archive's copy, which is stored once the message has left. */
const keptOf = (eeid: string, email: string) =>
  eventually(
    () => readKept(eeid, email),
    ({ status }) => status === 200,
  );

async function submit(campaign: object, message: object) {
  const numid = await stack.addCampaign({ ...campaign });
  const apikey = (await stack.call("GET", `/campania_apikey?numid=${numid}`)).body.camp_apikey;
  const [host, port] = implicit.split(":") as [string, string];
  const transport = createTransport({
    host,
    port: Number(port),
    secure: true,
    tls: { rejectUnauthorized: false },
    auth: { user: `test-${numid}`, pass: apikey },
  });
  const { response, envelope } = await transport.sendMail({ from: `a@${TEST_DOMAIN}`, subject: "x", ...message });
  transport.close();
  const [arrived] = await eventually(
    () => stack.inbox(envelope.to[0]!),
    (found) => found.length > 0,
  );
  return { eeid: /^250 2\.6\.0 (\S+) queued$/.exec(response)![1]!, octets: arrived!.octets };
}

async function writeCertificate(name: string): Promise<void> {
  const made = await generate([{ name: "commonName", value: name }], { algorithm: "sha256", keySize: 2048 });
  writeFileSync(certPath, made.cert);
  writeFileSync(keyPath, made.private);
}

/** Subjects of the certificates that the two listeners show. */
async function namesShown(): Promise<(string | undefined)[]> {
  const [tlsHost, tlsPort] = implicit.split(":") as [string, string];
  const direct = await nameOf(connectTls({ host: tlsHost, port: Number(tlsPort), rejectUnauthorized: false }));
  const [host, port] = starttls.split(":") as [string, string];
  const plain = connectTcp(Number(port), host);
  await heard(plain, /^220 /m);
  plain.write("EHLO client.example.net\r\n");
  await heard(plain, /^250 /m);
  plain.write("STARTTLS\r\n");
  await heard(plain, /^220 /m);
  return [direct, await nameOf(connectTls({ socket: plain, rejectUnauthorized: false }))];
}

async function heard(socket: Socket, reply: RegExp): Promise<void> {
  for (let text = ""; !reply.test(text); ) text += String((await once(socket, "data"))[0]);
}

async function nameOf(socket: TLSSocket): Promise<string | undefined> {
  await once(socket, "secureConnect");
  const { subject } = socket.getPeerCertificate();
  socket.destroy();
  return String(subject.CN);
}
