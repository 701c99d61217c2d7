import { execFile, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { dkimVerify } from "mailauth/lib/dkim/verify.js";
import { simpleParser } from "mailparser";
import { createTransport } from "nodemailer";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fieldValue, joinMessage, splitMessage } from "../../services/core/mail/message.ts";
import { listInstanceDomains } from "../../services/store/mail/instances/instances.ts";
import { start as startSubmission } from "../../services/submission/main.ts";
import { toSevenBit } from "../../services/submission/to-seven-bit.ts";
import { MAIL_SERVICES, type MailStack, startMailStack, TEST_DOMAIN } from "../support/mail-stack.ts";
import { isInstalled } from "../support/peers-processes.ts";
import { playDialogue, readDialogue } from "../support/smtp-dialogue.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";

const MAX_OCTETS = 64 * 1024;
const dataDir = makeDataDir();
let stack: MailStack;
let starttls: string;
let implicit: string;
let numid: number;
let apikey: string;

beforeAll(async () => {
  stack = await startMailStack(Object.values(MAIL_SERVICES), {
    PALOMAR_MAX_MESSAGE_SIZE: String(MAX_OCTETS),
    PALOMAR_SUBMISSION_MAX_RECIPIENTS: "20",
    PALOMAR_DATA_DIR: dataDir,
  });
  const { addresses } = await stack.run(startSubmission);
  starttls = addresses.submission!;
  implicit = addresses.submissions!;
  numid = await stack.addCampaign();
  apikey = (await stack.call("GET", `/campania_apikey?numid=${numid}`)).body.camp_apikey;
});

afterAll(async () => {
  await stack?.stop();
  removeDataDir(dataDir);
});

const plain = (user: string, password: string) => Buffer.from(`\0${user}\0${password}`).toString("base64");
const actingFor = (whom: string, user: string, password: string) =>
  Buffer.from(`${whom}\0${user}\0${password}`).toString("base64");
const values = () => ({
  plain: plain(`test-${numid}`, apikey),
  actingForItself: actingFor(`test-${numid}`, `test-${numid}`, apikey),
  actingForAnother: actingFor("test-999999", `test-${numid}`, apikey),
  wrong: plain(`test-${numid}`, "wrong"),
  octets998: "x".repeat(998),
  octets999: "x".repeat(999),
  octets3000: "x".repeat(3_000),
  parts2001: "--a\r\n\r\n".repeat(2_001),
  octets101: "x".repeat(101),
  octets500: "x".repeat(500),
  // A line is written octet by octet.
  rene: Buffer.from("rené", "utf8").toString("latin1"),
});

function transportTo(address: string, options: object = {}) {
  const [host, port] = address.split(":") as [string, string];
  return createTransport({
    host,
    port: Number(port),
    secure: address === implicit,
    requireTLS: address === starttls,
    tls: { rejectUnauthorized: false },
    auth: { user: `test-${numid}`, pass: apikey },
    ...options,
  });
}

describe("dialogues", () => {
  it("accepts messages over STARTTLS", () => playDialogue(starttls, readDialogue("submission-accepts"), values()));
  it("refuses what it must", () => playDialogue(starttls, readDialogue("submission-refuses"), values()));
  it("refuses bare line ends and NUL", () =>
    playDialogue(implicit, readDialogue("submission-line-ends"), values(), true));
  it("refuses lines too long and headers that are none", () =>
    playDialogue(implicit, readDialogue("submission-malformed"), values(), true));
  it("refuses commands that say more or less than they may", () =>
    playDialogue(implicit, readDialogue("submission-syntax"), values(), true));
  it("takes what clients want to be told to the letter, or not at all", () =>
    playDialogue(implicit, readDialogue("submission-dsn"), values(), true));
  it("does not listen to nonsense for long", async () => {
    await playDialogue(implicit, readDialogue("submission-nonsense"), values(), true);
    await playDialogue(implicit, readDialogue("submission-long-line"), values(), true);
  });
  it("does not hear plaintext behind STARTTLS", () =>
    playDialogue(starttls, readDialogue("submission-injection"), values()));
  it("ends a connection that guesses", () =>
    playDialogue(implicit, readDialogue("submission-guessing"), { wrong: plain("test-999999", "wrong") }, true));
});

describe("a submitted message", () => {
  it("leaves signed, traced, and without what must not leave", async () => {
    const transport = transportTo(implicit);
    const info = await transport.sendMail({
      from: `Info <info@${TEST_DOMAIN}>`,
      to: "whole@example.net",
      bcc: "blind@example.net",
      subject: "Grüße",
      text: "one\n.two\n",
      headers: { "Return-Path": "<forged@example.net>" },
    });
    transport.close();
    const eeid = /^250 2\.6\.0 (\S+) queued$/.exec(info.response)?.[1];
    expect(eeid).toBeDefined();
    const [arrived] = await eventually(
      () => stack.inbox("whole@example.net"),
      (found) => found.length > 0,
    );
    const text = arrived!.octets.toString("utf8");
    expect(text).toMatch(/^DKIM-Signature: /m);
    expect(text).toMatch(/^Received: from .*authenticated as test-1\)/ms);
    expect(text).not.toMatch(/^Bcc:/im);
    expect(text).not.toMatch(/forged@example\.net/);
    expect(text).toContain("\r\n.two\r\n");
    const batch = (await stack.call("GET", `/eeid_info/${eeid}`)).body.envio_efectivo;
    expect(batch.creador_id).toBe("smtp");
    expect(batch.contactos.map(({ email }: { email: string }) => email).sort()).toEqual([
      "blind@example.net",
      "whole@example.net",
    ]);
  });

  it("is refused when its header begins with a folded line", async () => {
    const transport = transportTo(implicit);
    const envelope = { from: `a@${TEST_DOMAIN}`, to: "one@example.net" };
    const raw = ` folded\r\nFrom: a@${TEST_DOMAIN}\r\n\r\nx\r\n`;
    await expect(transport.sendMail({ envelope, raw })).rejects.toThrow(
      /550 5\.6\.0 the header has a line that is no field/,
    );
    transport.close();
  });

  it("leaves without the blanks that stood between names of fields and their colons", async () => {
    const transport = transportTo(implicit);
    const envelope = { from: `a@${TEST_DOMAIN}`, to: "blank@example.net" };
    const raw = `From : a@${TEST_DOMAIN}\r\nSubject\t: a : b\r\n\r\nbody : x\r\n`;
    await transport.sendMail({ envelope, raw });
    transport.close();
    const [arrived] = await eventually(
      () => stack.inbox("blank@example.net"),
      (found) => found.length > 0,
    );
    expect(arrived!.octets.toString()).toMatch(
      new RegExp(`^From: a@${TEST_DOMAIN}\r\nSubject: a : b\r\n\r\nbody : x\r\n`, "m"),
    );
  });

  it("is refused when a field that stands once stands twice", async () => {
    const transport = transportTo(implicit);
    const envelope = { from: `a@${TEST_DOMAIN}`, to: "one@example.net" };
    for (const [name, doubled] of [
      ["subject", "Subject: a\r\nsubject: b"],
      ["Subject", "Subject: a\r\nSubject: a"],
      ["Date", "Date: x\r\nDate: y"],
      ["To", "To: a@b.test\r\nTo: c@d.test"],
      ["Content-type", "Content-Type: text/plain\r\nContent-type: text/html"],
      ["MIME-Version", `MIME-Version: 1.0\r\nMIME-Version: 1.0\r\n${signatureOf("Mime-Version")}`.trimEnd()],
      ["List-Unsubscribe", "List-Unsubscribe: <https://a.example.org/>\r\nList-Unsubscribe: <https://b.example.org/>"],
      ["list-unsubscribe-post", "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\nlist-unsubscribe-post: x"],
    ]) {
      const raw = `From: a@${TEST_DOMAIN}\r\n${doubled}\r\n\r\nx\r\n`;
      await expect(transport.sendMail({ envelope, raw })).rejects.toThrow(`550 5.6.0 ${name} stands more than once`);
    }
    transport.close();
  });

  it("leaves with one of the MIME fields that say the same, as Tcl's mail library writes them", async () => {
    const transport = transportTo(implicit);
    const envelope = { from: `a@${TEST_DOMAIN}`, to: "said-again@example.net" };
    const mime = "MIME-Version: 1.0\r\nContent-Type: text/plain;\r\n charset=utf-8\r\n";
    const encoding = "Content-Transfer-Encoding: quoted-printable\r\n";
    const again = `content-type : text/plain; charset=utf-8\r\n${encoding}`;
    const raw = `From: a@${TEST_DOMAIN}\r\n${mime}${encoding}${again}\r\n=C3=B1\r\n`;
    await transport.sendMail({ envelope, raw });
    transport.close();
    const [arrived] = await eventually(
      () => stack.inbox(envelope.to),
      (found) => found.length > 0,
    );
    expect(arrived!.octets.toString()).toContain(`From: a@${TEST_DOMAIN}\r\n${mime}${encoding}\r\n=C3=B1\r\n`);
  });

  const OWN = "List-Unsubscribe: <https://own.example.org/>\r\n";
  const POST = "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n";
  const signatureOf = (names: string) => `DKIM-Signature: v=1; d=${TEST_DOMAIN}; h=From:\r\n  ${names}; b=eA==\r\n`;

  /** The fields of unsubscription that leave of a message with some. */
  async function unsubscriptionOf(desusc: "si" | "no", given: string): Promise<string[]> {
    const campaign = await stack.addCampaign({ desusc });
    const { camp_apikey: pass } = (await stack.call("GET", `/campania_apikey?numid=${campaign}`)).body;
    const transport = transportTo(implicit, { auth: { user: `test-${campaign}`, pass } });
    const to = `unsubscription-${campaign}@example.net`;
    const raw = `${given}From: a@${TEST_DOMAIN}\r\nSubject: x\r\n\r\nx\r\n`;
    await transport.sendMail({ envelope: { from: `a@${TEST_DOMAIN}`, to }, raw });
    transport.close();
    const [arrived] = await eventually(
      () => stack.inbox(to),
      (found) => found.length > 0,
    );
    const fields = splitMessage(arrived!.octets).fields.filter(({ name }) => name.startsWith("list-"));
    return fields.map((field) => `${field.name} ${fieldValue(field).replace(/<http.*\/u\/.*>/, "ours")}`);
  }

  const OURS = ["list-unsubscribe ours", "list-unsubscribe-post List-Unsubscribe=One-Click"];
  const ITS = ["list-unsubscribe <https://own.example.org/>", "list-unsubscribe-post List-Unsubscribe=One-Click"];

  it.each<[string, "si" | "no", string, string[]]>([
    ["ours stand for its own", "si", OWN + POST, OURS],
    ["ours stand for several of its own", "si", OWN + OWN + POST + POST, OURS],
    ["ours stand for an empty one", "si", "List-Unsubscribe:\r\n", OURS],
    ["ours stand for half of the two", "si", POST, OURS],
    ["ours stand for what its author's signature does not cover", "si", signatureOf("Subject") + OWN, OURS],
    [
      "its own stay, signed by its author",
      "si",
      signatureOf("List-Unsubscribe :\r\n list-unsubscribe-post") + OWN + POST,
      ITS,
    ],
    ["ours come once beside what its author signed", "si", signatureOf("List-Unsubscribe-Post") + POST, OURS],
    ["ours replace what its author did not sign", "si", signatureOf("List-Unsubscribe-Post") + OWN + POST, OURS],
    ["its own stay where the campaign wants none", "no", OWN + POST, ITS],
  ])("has each field of unsubscription once: %s", async (_, desusc, given, left) => {
    expect((await unsubscriptionOf(desusc, given)).sort()).toEqual(left);
  });

  it("may not double a field of unsubscription that its author signed", async () => {
    const doubled = unsubscriptionOf("si", signatureOf("List-Unsubscribe") + OWN + OWN);
    await expect(doubled).rejects.toThrow("550 5.6.0 List-Unsubscribe stands more than once");
  });

  it("is MIME where its author says what it has, and forgets the version", async () => {
    const campaign = await stack.addCampaign({ desusc: "si" });
    const { camp_apikey: pass } = (await stack.call("GET", `/campania_apikey?numid=${campaign}`)).body;
    const transport = transportTo(implicit, { auth: { user: `test-${campaign}`, pass } });
    const raw = `From: a@${TEST_DOMAIN}\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<p>ñandú XYZDESUSCXYZ</p>\r\n`;
    await transport.sendMail({ envelope: { from: `a@${TEST_DOMAIN}`, to: "html@example.net" }, raw });
    transport.close();
    const [arrived] = await eventually(
      () => stack.inbox("html@example.net"),
      (found) => found.length > 0,
    );
    const { headerLines, html } = await simpleParser(arrived!.octets);
    expect(headerLines.filter(({ key }) => key === "mime-version")).toHaveLength(1);
    expect(html).toMatch(/http/);
    expect(html).not.toContain("XYZDESUSCXYZ");
  });

  it("has the unsubscribe URL in its plain text where its author put the tag, signed as it is", async () => {
    const transport = transportTo(implicit);
    const raw = `From: a@${TEST_DOMAIN}\r\nSubject: x\r\n\r\nbaja: XYZDESUSCXYZ\r\n`;
    await transport.sendMail({ envelope: { from: `a@${TEST_DOMAIN}`, to: "plain-tag@example.net" }, raw });
    transport.close();
    const [arrived] = await eventually(
      () => stack.inbox("plain-tag@example.net"),
      (found) => found.length > 0,
    );
    const { text } = await simpleParser(arrived!.octets);
    expect(text).toMatch(/^baja: http\S+\/u\/\S+\n$/);
    const [domain] = await listInstanceDomains(stack.context.db, stack.instanceId);
    const { results } = await dkimVerify(arrived!.octets, { resolver: async () => [[domain!.dkimRecord]] });
    expect(results.map(({ status }) => status.result)).toEqual(["pass"]);
  });

  it("leaves as 7-bit lines that say the same, signed as they are", async () => {
    const transport = transportTo(implicit);
    const latin1 = Buffer.from("caf\xe9 = \u0020\r\nFrom here\r\n", "latin1");
    const header = [
      `From: a@${TEST_DOMAIN}`,
      "MIME-Version: 1.0",
      'Content-Type: multipart/mixed; boundary="a b"',
      "Content-Transfer-Encoding: 8bit",
    ];
    const raw = Buffer.concat([
      Buffer.from(`${header.join("\r\n")}\r\n\r\npreamble\r\n--a b\r\n`),
      Buffer.from(
        "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\nEl ñandú corre lejos\r\n--a b \r\n",
      ),
      Buffer.from("Content-Type: text/plain; charset=iso-8859-1\r\n\r\n"),
      latin1,
      Buffer.from("\r\n--a b\r\nContent-Type: text/plain\r\n\r\nuntouched =3D\r\n--a b--\r\nepilogue\r\n"),
    ]);
    const envelope = { from: `a@${TEST_DOMAIN}`, to: "seven@example.net" };
    await transport.sendMail({ envelope, raw });
    transport.close();
    const [arrived] = await eventually(
      () => stack.inbox("seven@example.net"),
      (found) => found.length > 0,
    );
    const text = arrived!.octets.toString("latin1");
    expect(text).toMatch(/^[\x00-\x7f]*$/);
    expect(text).toContain("\r\nContent-Transfer-Encoding: 7bit\r\n");
    expect(text).toContain("El =C3=B1and=C3=BA corre lejos\r\n--a b \r\n");
    expect(text).toContain(latin1.toString("base64"));
    expect(text).toContain("\r\n\r\nuntouched =3D\r\n--a b--\r\nepilogue\r\n");
    const [domain] = await listInstanceDomains(stack.context.db, stack.instanceId);
    const { results } = await dkimVerify(arrived!.octets, { resolver: async () => [[domain!.dkimRecord]] });
    expect(results.map(({ status }) => status.result)).toEqual(["pass"]);
  });

  it("is not sent to an invalid contact, and the session is not told", async () => {
    await stack.call("POST", "/contacto/", { email: "gone@example.net" });
    await stack.call("GET", "/invalidar/gone@example.net");
    const transport = transportTo(starttls);
    const info = await transport.sendMail({ from: `a@${TEST_DOMAIN}`, to: "gone@example.net", text: "x" });
    transport.close();
    expect(info.response).toMatch(/^250 2\.6\.0/);
    const { contacto } = (await stack.call("GET", "/contacto/gone@example.net")).body;
    expect(contacto.eventos.map(({ evento }: { evento: string }) => evento)).toContain("unknown");
    expect(await stack.inbox("gone@example.net")).toEqual([]);
  });

  it("is refused above the size limit, told before or noticed during DATA", async () => {
    const tooBig = { from: `a@${TEST_DOMAIN}`, to: "big@example.net", text: "x".repeat(MAX_OCTETS + 1_000) };
    const transport = transportTo(starttls);
    await expect(transport.sendMail(tooBig)).rejects.toThrow(/552 5\.3\.4/);
    transport.close();
    const filler = Array.from({ length: 1_200 }, () => `C: ${"x".repeat(70)}`).join("\n");
    const script = readDialogue("submission-line-ends").split("C: DATA")[0];
    await playDialogue(
      implicit,
      `${script}C: DATA\nS: 354\n${filler}\nC: .\nS: 552 5.3.4\nC: NOOP\nS: 250`,
      values(),
      true,
    );
  });

  it("takes so many recipients and no more", async () => {
    const script = readDialogue("submission-line-ends").split("C: RCPT")[0];
    const accepted = Array.from({ length: 20 }, (_, n) => `C: RCPT TO:<r${n}@example.net>\nS: 250 2.1.5`).join("\n");
    const more = "C: RCPT TO:<r99@example.net>\nS: 452 4.5.3";
    await playDialogue(implicit, `${script}${accepted}\n${more}`, values(), true);
  });

  it("goes to addresses that differ in the case of their local parts only, and once to each", async () => {
    const transport = transportTo(implicit);
    const to = ["Case@example.net", "case@example.net", "case@EXAMPLE.net", "Case@example.net"];
    const { response } = await transport.sendMail({
      envelope: { from: `a@${TEST_DOMAIN}`, to },
      raw: `From: a@${TEST_DOMAIN}\r\n\r\nx\r\n`,
    });
    transport.close();
    const eeid = /^250 2\.6\.0 (\S+) queued$/.exec(response)?.[1];
    const batch = (await stack.call("GET", `/eeid_info/${eeid}`)).body.envio_efectivo;
    expect(batch.contactos.map(({ email }: { email: string }) => email).sort()).toEqual([
      "Case@example.net",
      "case@example.net",
    ]);
  });
});

describe("8-bit bodies", () => {
  const encode = (...lines: readonly string[]) =>
    joinMessage(toSevenBit(splitMessage(Buffer.from(lines.join("\r\n")))));

  it("that nobody declared are declared and encoded", async () => {
    const octets = encode("Subject: x", "", "El ñandú corre", "");
    expect(octets.toString("latin1")).toMatch(/^[\x00-\x7f]*\r\nMIME-Version: 1\.0\r\n/);
    expect((await simpleParser(octets)).text).toBe("El ñandú corre\n");
  });

  it("are encoded within enclosed messages, whose own type is never", async () => {
    const octets = encode(
      ...["MIME-Version: 1.0", "Content-Type: message/rfc822", "Content-Transfer-Encoding: 8bit", ""],
      ...["Subject: inner", "Content-Type: text/plain; charset=utf-8", "", "El ñandú corre", ""],
    );
    expect(octets.toString("latin1").split("\r\n")).toEqual([
      ...["MIME-Version: 1.0", "Content-Type: message/rfc822", "Content-Transfer-Encoding: 7bit", ""],
      ...["Subject: inner", "Content-Type: text/plain; charset=utf-8"],
      ...["Content-Transfer-Encoding: quoted-printable", "", "El =C3=B1and=C3=BA corre", ""],
    ]);
  });

  it.each([
    ["signed by the author", 'Content-Type: multipart/signed; boundary="b"'],
    ["signed by the author's domain", "DKIM-Signature: v=1"],
    ["of a type that may not be encoded", "Content-Type: message/delivery-status"],
    ["of an encoding that they are not", "Content-Transfer-Encoding: base64"],
    ["of a multipart without a boundary", "Content-Type: multipart/mixed"],
  ])("%s stay as they are", (_what, field) => {
    const lines = [field, "", "--b", "", "ñ", "--b--", ""];
    expect(encode(...lines)).toEqual(Buffer.from(lines.join("\r\n")));
  });
});

describe("logins", () => {
  it("follow the campaign's key", async () => {
    const campaign = await stack.addCampaign();
    const changed = await stack.call("POST", "/campania_apikey", { numid: campaign, apikey: "a-new-key-of-mine" });
    expect(changed.body).toMatchObject({ status: "ok", camp_apikey: "a-new-key-of-mine" });
    const transport = transportTo(implicit, { auth: { user: `test-${campaign}`, pass: "a-new-key-of-mine" } });
    await expect(transport.verify()).resolves.toBe(true);
    transport.close();
  });

  it("end with the key that they were made with, also in a session that goes on", async () => {
    const campaign = await stack.addCampaign();
    const changeKey = (key: string) => stack.call("POST", "/campania_apikey", { numid: campaign, apikey: key });
    await changeKey("the-first-key");
    const transport = transportTo(implicit, {
      auth: { user: `test-${campaign}`, pass: "the-first-key" },
      pool: true,
      maxConnections: 1,
    });
    const message = {
      envelope: { from: `a@${TEST_DOMAIN}`, to: "rotated@example.net" },
      raw: `From: a@${TEST_DOMAIN}\r\n\r\nx\r\n`,
    };
    await transport.sendMail(message);
    await changeKey("the-second-key");
    // The session ends with 421; the client opens another, and is told there.
    await expect(transport.sendMail(message)).rejects.toThrow(/421 4\.7\.0|535 5\.7\.8/);
    await changeKey("the-first-key");
    await transport.sendMail(message);
    transport.close();
  });

  it("are locked after ten failures for an address and user, right password or not", async () => {
    const campaign = await stack.addCampaign();
    const key = (await stack.call("GET", `/campania_apikey?numid=${campaign}`)).body.camp_apikey;
    const login = (password: string) =>
      transportTo(implicit, { auth: { user: `test-${campaign}`, pass: password }, authMethod: "PLAIN" })
        .verify()
        .then(
          () => "accepted",
          (error: Error) => error.message,
        );
    for (let failure = 0; failure < 10; failure++) expect(await login("wrong")).toMatch(/535|421/);
    expect(await login(key)).toMatch(/454 4\.7\.0/);
  });

  it("guesses at one campaign from many addresses come to one a second; its owner waits a little, or not at all", async () => {
    const campaign = await stack.addCampaign();
    const key = (await stack.call("GET", `/campania_apikey?numid=${campaign}`)).body.camp_apikey;
    const login = (localAddress: string, password: string) =>
      transportTo(implicit, {
        ...{ auth: { user: `test-${campaign}`, pass: password }, authMethod: "PLAIN", localAddress },
      })
        .verify()
        .then(
          () => "accepted",
          (error: Error) => error.message,
        );
    expect(await login("127.0.0.1", key)).toBe("accepted");
    const startedAt = performance.now();
    let answered = 0;
    const guess = async (bot: number) => {
      for (let failure = 0; failure < 9; failure++) {
        expect(await login(`127.7.${bot}.1`, `guess ${bot} ${failure}`)).toMatch(/535|421|454/);
        answered += 1;
      }
    };
    const guessing = Promise.all(Array.from({ length: 8 }, (_, bot) => guess(bot)));
    while (answered < 62) await Promise.race([sleep(50), guessing]);
    const askedAt = performance.now();
    expect(await login("127.0.0.1", key)).toBe("accepted");
    const knownMs = performance.now() - askedAt;
    expect(await login("127.8.0.1", key)).toBe("accepted");
    expect(performance.now() - askedAt).toBeLessThan(31_000);
    await guessing;
    const seconds = (performance.now() - startedAt) / 1_000;
    expect(seconds).toBeGreaterThan(8 * 9 - 60 - 2);
    expect(knownMs).toBeLessThan(5_000);
  });
});

describe("other people's clients", () => {
  const run = promisify(execFile);

  const swaksKnowsTls = /TLS supported/.test(spawnSync("swaks", ["--support"]).stdout?.toString());
  it.skipIf(!swaksKnowsTls)("swaks (needs the Debian packages swaks and libnet-ssleay-perl)", async () => {
    const options = `--server ${starttls} --tls --auth LOGIN --auth-user test-${numid} --auth-password ${apikey}`;
    const { stdout } = await run("swaks", [
      ...options.split(" "),
      ...["--from", `a@${TEST_DOMAIN}`, "--to", "swaks@example.net"],
    ]);
    expect(stdout).toMatch(/250 2\.6\.0 \S+ queued/);
  });

  it.skipIf(!isInstalled("smtp-source"))("smtp-source (needs the Debian package postfix)", async () => {
    // It knows neither TLS nor AUTH: what it learns is that it must have both.
    const refused = run("smtp-source", ["-c", "-m", "1", "-f", `a@${TEST_DOMAIN}`, "-t", "b@example.net", starttls]);
    await expect(refused).rejects.toThrow(/530 5\.7\.0/);
  });

  it.skipIf(!isInstalled("/usr/bin/python3"))("Python's smtplib (needs /usr/bin/python3)", async () => {
    const [host, port] = implicit.split(":");
    const program = `
import smtplib, ssl
c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
s = smtplib.SMTP_SSL("${host}", ${port}, context=c)
s.login("test-${numid}", "${apikey}")
print(s.sendmail("a@${TEST_DOMAIN}", ["python@example.net"], "From: a@${TEST_DOMAIN}\\r\\nSubject: x\\r\\n\\r\\ny\\r\\n"))
s.quit()`;
    const { stdout } = await run("/usr/bin/python3", ["-c", program]);
    expect(stdout.trim()).toBe("{}");
  });
});

it("survives random octets and connections that just go", async () => {
  for (const address of [starttls, implicit]) {
    const [host, port] = address.split(":") as [string, string];
    await Promise.all(
      Array.from({ length: 30 }, async (_, n) => {
        const socket = connect(Number(port), host);
        socket.on("error", () => {});
        // Whoever speaks before the greeting is not listened to.
        if (address === starttls) await new Promise((resolve) => socket.once("data", resolve));
        socket.write(randomBytes(1 + n * 700));
        await sleep(50 + n * 10);
        socket.destroy();
      }),
    );
  }
  await expect(transportTo(starttls).verify()).resolves.toBe(true);
  expect(stack.failures).toEqual([]);
});
