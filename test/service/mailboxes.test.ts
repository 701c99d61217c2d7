import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Command } from "commander";
import { ImapFlow } from "imapflow";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { start as startBounce } from "../../services/bounce/main.ts";
import { loadInboundPolicy } from "../../services/bounce/policy.ts";
import { CommandRefused } from "../../services/cli/command-errors.ts";
import { registerMailboxCommand } from "../../services/cli/commands/mailbox.ts";
import type { CommandRuntime } from "../../services/cli/runtime.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { makeBounceToken } from "../../services/core/mail/tokens.ts";
import { dovecotMissing, startDovecot, type TestDovecot } from "../support/dovecot.ts";
import { MAIL_SERVICES, type MailStack, startMailStack } from "../support/mail-stack.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";

const title = dovecotMissing === undefined ? "mailboxes at providers" : `mailboxes at providers (${dovecotMissing})`;

describe.skipIf(dovecotMissing !== undefined)(title, () => {
  const dataDir = makeDataDir();
  let stack: MailStack;
  let imap: TestDovecot;
  let campaign: number;

  beforeAll(async () => {
    imap = await startDovecot();
    stack = await startMailStack(Object.values(MAIL_SERVICES), { PALOMAR_DATA_DIR: dataDir });
    await stack.run(startBounce);
    campaign = await stack.addCampaign();
  });
  afterAll(async () => {
    await stack?.stop();
    await imap?.stop();
    removeDataDir(dataDir);
    expect(stack.failures).toEqual([]);
  });

  const db = () => stack.context.db;
  const pollNow = (name: string) =>
    db()("mailboxes")
      .where({ name })
      .update({ next_poll_at: new Date(0) });
  const stateOf = async (name: string) =>
    (await palomar("mailbox", "list")).find((found: { readonly name: string }) => found.name === name);
  const polled = (name: string, after: Date) =>
    eventually(
      () => stateOf(name),
      ({ polled, problem }) => (polled !== null && new Date(polled) >= after) || problem !== null,
    );

  test("a report is stored before it is moved, and applied to whom its return path names", async () => {
    const token = await deliver("moved@example.net");
    await imap.append("INBOX", report(`b+x@elsewhere.example.net`, token, "moved@example.net"));
    await palomar("mailbox", "add", "moving", ...server(), "--processed", "Taken");
    await eventually(
      () => eventsOf("moved@example.net"),
      (events) => events.includes("rebote_hard"),
    );
    await polled("moving", new Date(0));
    expect(await imap.count("INBOX")).toEqual({ messages: 0, unseen: 0 });
    expect((await imap.count("Taken")).messages).toBe(1);
    await palomar("mailbox", "remove", "moving");
  });

  test("where nothing is to be moved messages stay, flagged; taken twice they are stored once", async () => {
    const token = await deliver("flagged@example.net");
    await imap.append("INBOX", report(`${token}@${stack.context.config.bounceDomain}`, "", "flagged@example.net"));
    const passwordFile = join(dataDir, "password");
    writeFileSync(passwordFile, `${imap.password}\n`);
    await palomar("mailbox", "add", "flagging", ...server({ password: ["--password-file", passwordFile] }));
    await eventually(
      () => eventsOf("flagged@example.net"),
      (events) => events.includes("rebote_hard"),
    );
    expect(await polled("flagging", new Date(0))).toMatchObject({ problem: null, host: "127.0.0.1" });
    expect(await imap.count("INBOX")).toEqual({ messages: 1, unseen: 0 });

    await forgetThatAnybodySaw("INBOX");
    const again = new Date();
    await pollNow("flagging");
    await polled("flagging", again);
    expect(await imap.count("INBOX")).toEqual({ messages: 1, unseen: 0 });
    const stored = await db()("inbound_messages").where("source", "like", "flagging/%").select("source", "delivery_id");
    expect(stored).toHaveLength(1);
    expect((await eventsOf("flagged@example.net")).filter((event) => event === "rebote_hard")).toHaveLength(1);
    await palomar("mailbox", "remove", "flagging");
  });

  test("a message that arrives between two polls is not kept waiting for the next", async () => {
    await imap.append("Idle", Buffer.from("Subject: makes the folder\r\n\r\nx\r\n"));
    await palomar(
      "mailbox",
      "add",
      "idling",
      ...server({ host: "localhost" }),
      "--folder",
      "Idle",
      "--processed",
      "Taken",
    );
    expect(await polled("idling", new Date(0))).toMatchObject({ problem: null });
    // The first may have come before anybody idled there; the second cannot have.
    for (const email of ["prompt@example.net", "prompter@example.net"]) {
      const token = await deliver(email);
      const nextPoll = new Date(Date.now() + 3_600_000);
      await db()("mailboxes").where({ name: "idling" }).update({ next_poll_at: nextPoll });
      await imap.append("Idle", report(`${token}@${stack.context.config.bounceDomain}`, "", email));
      await eventually(
        () => eventsOf(email),
        (events) => events.includes("rebote_hard"),
      );
    }
    await palomar("mailbox", "remove", "idling");
  });

  test("a forged token names nobody, whatever field it stands in", async () => {
    const token = await deliver("safe@example.net");
    const forged = makeBounceToken(KeyRing.ofSecret("another secret"), {
      deliveryId: 1,
      expiresAt: new Date(Date.now() + 86_400_000),
    });
    const bounceDomain = stack.context.config.bounceDomain;
    await imap.append("Forged", report(`${forged}@${bounceDomain}`, "", "safe@example.net"));
    const altered = token.slice(0, -1) + (token.endsWith("x") ? "y" : "x");
    await imap.append("Forged", report(`${altered}@${bounceDomain}`, forged, "safe@example.net"));
    await palomar("mailbox", "add", "forged", ...server(), "--folder", "Forged", "--processed", "Taken");
    await polled("forged", new Date(0));
    await eventually(
      () => db()("inbound_messages").where("source", "like", "forged/%").where({ state: "applied" }),
      (applied) => applied.length === 2,
    );
    expect(await eventsOf("safe@example.net")).toEqual(["envio"]);
    const inbound = await db()("inbound_messages").where("source", "like", "forged/%").select("feedback_address");
    expect(inbound).toEqual(Array(2).fill({ feedback_address: imap.user }));
    await palomar("mailbox", "remove", "forged");
  });

  test("of what is large the beginning is looked at, and what is nothing of ours is put aside", async () => {
    const token = await deliver("huge@example.net");
    const large = Buffer.concat([
      Buffer.from(`Subject: b+x\r\n\r\n`),
      Buffer.alloc(3 * 2 ** 20, "x".repeat(70).concat("\r\n")),
    ]);
    await imap.append("Huge", large);
    // A report may bring a whole message back: its beginning counts.
    const bounce = report(`${token}@${stack.context.config.bounceDomain}`, "", "huge@example.net");
    await imap.append("Huge", Buffer.concat([bounce, large]));
    await palomar("mailbox", "add", "huge", ...server(), "--folder", "Huge", "--processed", "Taken");
    await eventually(
      () => eventsOf("huge@example.net"),
      (events) => events.includes("rebote_hard"),
    );
    await polled("huge", new Date(0));
    expect((await imap.count("Huge")).messages).toBe(0);
    const stored = await db()("inbound_messages")
      .where("source", "like", "huge/%")
      .whereNull("unexplained")
      .select("octets");
    expect(stored.map(({ octets }) => octets.length)).toEqual([2 ** 20]);
    await palomar("mailbox", "remove", "huge");
  });

  test("where there is no room messages stay in the mailbox, and bounces are taken all the same", async () => {
    const waiting = {
      state: "leased",
      lease_until: new Date(Date.now() + 3_600_000),
      mail_from: "",
      feedback_address: "x",
    };
    const { waiting: room } = loadInboundPolicy().feedback;
    await db().raw(
      `insert into inbound_messages (state, lease_until, mail_from, feedback_address, octets)
       select ?, ?, ?, ?, '' from generate_series(1, ?)`,
      [waiting.state, waiting.lease_until, waiting.mail_from, waiting.feedback_address, room.messages],
    );
    const token = await deliver("full@example.net");
    const complaint = `Content-Type: message/feedback-report\r\n\r\nFeedback-Type: abuse\r\nUser-Agent: x\r\nOriginal-Mail-From: <${token}@x>\r\n`;
    await imap.append("Full", Buffer.from(complaint));
    await imap.append("Full", report(`${token}@${stack.context.config.bounceDomain}`, "", "full@example.net"));
    await palomar("mailbox", "add", "full", ...server(), "--folder", "Full", "--processed", "Taken");
    await eventually(
      () => eventsOf("full@example.net"),
      (events) => events.includes("rebote_hard"),
    );
    await polled("full", new Date(0));
    expect((await imap.count("Full")).messages).toBe(1);
    await db()("inbound_messages").where({ feedback_address: "x" }).delete();
    const again = new Date();
    await sleep(1_100);
    await pollNow("full");
    await polled("full", again);
    await eventually(
      () => eventsOf("full@example.net"),
      (events) => events.includes("queja"),
    );
    await palomar("mailbox", "remove", "full");
  });

  test("what goes wrong is told to the operator, and nothing is taken", async () => {
    await imap.append("INBOX", Buffer.from("Subject: waits\r\n\r\nx\r\n"));
    const { messages } = await imap.count("INBOX");
    await palomar("mailbox", "add", "locked", ...server({ password: ["--password", "wrong"] }));
    await palomar("mailbox", "add", "untrusted", ...server({ security: "tls", port: imap.tlsPort }));
    await palomar("mailbox", "add", "away", ...server({ port: 9 }));
    for (const [name, problem] of [
      ["locked", /auth/i],
      ["untrusted", /certificate|self.signed/i],
      ["away", /ECONNREFUSED|connect/i],
    ] as const) {
      const state = await polled(name, new Date(0));
      expect(state.problem, name).toMatch(problem);
      expect(state.polled, name).toBeNull();
      await palomar("mailbox", "remove", name);
    }
    expect((await imap.count("INBOX")).messages).toBe(messages);
  });

  test("the password is sealed, and no command shows it", async () => {
    await palomar("mailbox", "add", "sealed", ...server());
    const row = await db()("mailboxes").where({ name: "sealed" }).first();
    expect(JSON.stringify(row)).not.toContain(imap.password);
    expect(JSON.stringify(await palomar("mailbox", "list"))).not.toContain("assword");
    await palomar("mailbox", "remove", "sealed");
    await expect(palomar("mailbox", "remove", "sealed")).rejects.toThrow("there is no mailbox sealed");
  });

  test.each([
    [["--host", "imap.example.net", "--security", "none"], "for servers on this machine"],
    [["--host", "imap.example.net", "--port", "0"], "is no port"],
  ])("mailbox add %j is refused: %s", async (options, text) => {
    await expect(palomar("mailbox", "add", "x", ...options, "--user", "u", "--password", "p")).rejects.toThrow(text);
  });

  function server({
    host = "127.0.0.1",
    security = "none",
    port = imap.port,
    password = ["--password", imap.password],
  } = {}): string[] {
    return ["--host", host, "--port", String(port), "--security", security, "--user", imap.user, ...password];
  }

  /** Sends to a quiet mailbox and waits until it is there. @returns the return path's token, as the far side saw it */
  async function deliver(email: string): Promise<string> {
    await stack.call("POST", "/envio/send_one_inline/", {
      campana_id: campaign,
      email: true,
      contacto: { email },
      html: "<p>Hello</p>",
    });
    const inbox = await eventually(
      () => stack.inbox(email),
      (found) => found.length > 0,
    );
    return /^X-Delivery-Token: (\S+)/m.exec(inbox.at(-1)!.octets.toString("latin1"))![1]!;
  }

  /** A delivery report as a provider keeps it: with the envelope's recipient in a field of the header. */
  function report(to: string, originalTo: string, recipient: string): Buffer {
    const text = `Return-Path: <>
Delivered-To: ${imap.user}
X-Original-To: ${originalTo === "" ? to : `${originalTo}@${stack.context.config.bounceDomain}`}
From: mailer-daemon@mta.example.net
To: <${to}>
Subject: Delivery report
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary=cut

--cut
Content-Type: text/plain

It could not be delivered.
--cut
Content-Type: message/delivery-status

Reporting-MTA: dns; mta.example.net

Final-Recipient: rfc822; ${recipient}
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550 5.1.1 no such user
--cut--
`;
    return Buffer.from(text.replaceAll("\n", "\r\n"));
  }

  async function eventsOf(email: string): Promise<string[]> {
    const { body } = await stack.call("GET", `/contacto/${email}`);
    return body.contacto.eventos.map(({ evento }: { evento: string }) => evento);
  }

  async function forgetThatAnybodySaw(folder: string): Promise<void> {
    const client = new ImapFlow({
      ...{ host: "127.0.0.1", port: imap.port, secure: false, doSTARTTLS: false, logger: false },
      auth: { user: imap.user, pass: imap.password },
    });
    await client.connect();
    await client.mailboxOpen(folder);
    await client.messageFlagsRemove("1:*", ["\\Seen"]);
    await client.logout();
  }

  /** Runs `palomar …` on the test's database. @returns what it prints as JSON */
  // biome-ignore lint/suspicious/noExplicitAny: each command prints something else
  async function palomar(...args: string[]): Promise<any> {
    let printed: unknown;
    const refuse = (text: string): never => {
      throw new CommandRefused(text);
    };
    const { keyRing, config } = stack.context;
    const runtime: CommandRuntime = {
      config,
      withDatabase: (use) => use({ db: db(), keyRing, config }),
      print: (json) => {
        printed = json;
      },
      printEach: () => Promise.reject(new Error("not used")),
      note: () => {},
      refuse,
      misused: refuse,
      exitWith: () => {},
    };
    const program = new Command("palomar").exitOverride();
    registerMailboxCommand(program, runtime);
    await program.parseAsync(args, { from: "user" });
    return printed;
  }
});
