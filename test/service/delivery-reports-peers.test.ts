import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { createTransport } from "nodemailer";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { start as startBounce } from "../../services/bounce/main.ts";
import { interpret } from "../../services/operations/mail/interpret.ts";
import { setInstanceSettings } from "../../services/store/mail/instances/instances.ts";
import { start as startSubmission } from "../../services/submission/main.ts";
import { dovecotMissing, startDovecot } from "../support/dovecot.ts";
import {
  eximMissing,
  type MailRelay,
  postfixMissing,
  type RelayPlan,
  startEximRelay,
  startPostfixRelay,
} from "../support/mail-relays.ts";
import { MAIL_SERVICES, type MailStack, startMailStack, TEST_DOMAIN } from "../support/mail-stack.ts";
import { freePort, isInstalled } from "../support/peers-processes.ts";
import { startSmtpSink } from "../support/smtp-sink.ts";
import { queuedDeliveries, sameInstance } from "../support/spread-tables.ts";
import { eventually } from "../support/stack.ts";

const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), "palomar-dsn-"));
let stack: MailStack;
let starttls: string;
let login: { readonly user: string; readonly password: string };

beforeAll(async () => {
  stack = await startMailStack();
  starttls = (await stack.run(startSubmission)).addresses.submission!;
  login = await loginOf(stack);
});
afterAll(async () => {
  await stack.stop();
  expect(stack.failures).toEqual([]);
  rmSync(folder, { recursive: true });
});

async function loginOf(of: MailStack) {
  const numid = await of.addCampaign();
  const { camp_apikey: password } = (await of.call("GET", `/campania_apikey?numid=${numid}`)).body;
  return { user: `test-${numid}`, password };
}

const portOf = (address: string) => Number(address.split(":")[1]);
const firstReport = async (of: MailStack, to: string) =>
  (
    await eventually(
      () => of.inbox(to),
      (found) => found.length > 0,
    )
  )[0]!.octets;
const requestOf = async (of: MailStack, recipient: string) =>
  (
    await eventually(
      () =>
        queuedDeliveries(of.context.db)
          .join("messages", sameInstance("messages.id", "partitions.message_id"))
          .where({ recipient })
          .select("messages.dsn as message", "deliveries.dsn as recipient"),
      (rows) => rows.length > 0,
    )
  )[0];
const message = (to: string) =>
  `From: info@${TEST_DOMAIN}\r\nTo: ${to}\r\nSubject: Hi\r\nMessage-ID: <1@${TEST_DOMAIN}>\r\n\r\nHi\r\n`;

describe("submitters", () => {
  it.skipIf(!isInstalled("swaks"))(
    "swaks, which says nothing of reports, hears of failures where its instance says so (needs the Debian packages swaks and libnet-ssleay-perl)",
    async () => {
      const [from, to] = [`swaks@${TEST_DOMAIN}`, "reject+1@swaks.example.net"];
      await setInstanceSettings(stack.context.db, stack.instanceId, { failureReports: true });
      await run("swaks", [
        ...[
          "--server",
          starttls,
          "--tls",
          "--auth",
          "PLAIN",
          "--auth-user",
          login.user,
          "--auth-password",
          login.password,
        ],
        ...["--from", from, "--to", to, "--ehlo", "client.example.org"],
        ...["--header", `From: ${from}`, "--h-Message-Id", `<swaks@${TEST_DOMAIN}>`],
      ]);
      await setInstanceSettings(stack.context.db, stack.instanceId, { failureReports: false });
      const report = await firstReport(stack, from);
      expect((await interpret(report)).results).toMatchObject([{ recipient: to, action: "failed", status: "5.1.1" }]);
      expect(await requestOf(stack, to)).toMatchObject({ recipient: null });
    },
  );

  it.skipIf(!isInstalled("/usr/bin/python3"))("Python's smtplib (needs /usr/bin/python3)", async () => {
    const [from, to] = [`smtplib@${TEST_DOMAIN}`, "reject+1@smtplib.example.net"];
    const program = `
import smtplib, ssl, sys
s = smtplib.SMTP("127.0.0.1", ${portOf(starttls)})
s.starttls(context=ssl._create_unverified_context())
s.login(sys.argv[1], sys.argv[2])
s.sendmail(sys.argv[3], [sys.argv[4]], sys.argv[5], ["RET=HDRS", "ENVID=python+2B1"], ["NOTIFY=FAILURE", "ORCPT=rfc822;x@example.org"])
s.quit()`;
    await run("/usr/bin/python3", ["-c", program, login.user, login.password, from, to, message(to)]);
    const text = (await firstReport(stack, from)).toString("latin1");
    expect(text).toMatch(/^Original-Recipient: rfc822; x@example.org\r$/m);
    expect(text).toMatch(/^Original-Envelope-Id: python\+1\r$/m);
  });

  it.skipIf(!isInstalled("msmtp"))("msmtp (needs the Debian package msmtp)", async () => {
    const [from, to] = [`msmtp@${TEST_DOMAIN}`, "reject+1@msmtp.example.net"];
    const sending = run("msmtp", [
      ...["--file=/dev/null", "--host=127.0.0.1", `--port=${portOf(starttls)}`, "--tls=on", "--tls-certcheck=off"],
      ...["--auth=plain", `--user=${login.user}`, `--passwordeval=echo ${login.password}`, `--from=${from}`],
      ...["--dsn-notify=failure,delay", "--dsn-return=full", to],
    ]);
    sending.child.stdin!.end(message(to).replaceAll("\r\n", "\n"));
    await sending;
    const report = await firstReport(stack, from);
    expect(report.toString("latin1")).toMatch(/^Content-Type: message\/rfc822\r$/m);
    expect(await requestOf(stack, to)).toMatchObject({
      message: { returns: "full" },
      recipient: { notify: ["failure", "delay"] },
    });
  });

  const relays: readonly (readonly [string, string | undefined, (plan: RelayPlan) => Promise<MailRelay>])[] = [
    ["Postfix", postfixMissing, startPostfixRelay],
    ["Exim", eximMissing, startEximRelay],
  ];
  for (const [name, missing, start] of relays) {
    it.skipIf(missing !== undefined)(
      `${name}, which relays through us with a login (${missing ?? "as root"})`,
      async () => {
        const [from, to] = [`${name.toLowerCase()}@${TEST_DOMAIN}`, `reject+1@${name.toLowerCase()}.example.net`];
        const relay = await start({ port: portOf(starttls), login, offersDsn: true });
        try {
          await submitTo(relay.port, {
            from,
            to,
            dsn: {
              id: "relayed-1",
              return: "headers",
              notify: "failure,success",
              recipient: "rfc822;orig@example.org",
            },
          });
          const report = await firstReport(stack, from);
          expect(report.toString("latin1")).toMatch(/^Original-Envelope-Id: relayed-1\r$/m);
          expect(report.toString("latin1")).toMatch(/^Original-Recipient: rfc822; orig@example.org\r$/m);
          expect(await requestOf(stack, to)).toMatchObject({
            message: { envelopeId: "relayed-1", returns: "headers" },
            recipient: { notify: ["success", "failure"] },
          });
        } catch (error) {
          throw new Error(relay.log(), { cause: error });
        } finally {
          await relay.stop();
        }
      },
    );
  }
});

interface Letter {
  readonly from: string;
  readonly to: string;
  readonly dsn: object;
}

async function submitTo(port: number, { from, to, dsn }: Letter): Promise<void> {
  const transport = createTransport({ host: "127.0.0.1", port, ignoreTLS: true });
  await transport.sendMail({ envelope: { from, to: [to] }, raw: message(to), dsn } as object);
  transport.close();
}

describe("next hops", () => {
  // What each calls a message that it has passed on to a server without DSN.
  const hops = [
    ["Postfix", postfixMissing, startPostfixRelay, "relayed"],
    ["Exim", eximMissing, startEximRelay, "delivered"],
  ] as const;
  for (const [name, missing, start, passedOn] of hops) {
    for (const offersDsn of [true, false]) {
      it.skipIf(missing !== undefined)(
        `${name} ${offersDsn ? "with" : "without"} DSN: the sender hears once of each recipient (${missing ?? "as root"})`,
        async () => {
          // What lies behind it takes one mailbox and not another, and offers nothing.
          const refused = "unknown@behind.example.net";
          const silent = "silent@behind.example.net";
          const behind = await startSmtpSink({
            onRcptTo: ({ address }, _session, done) =>
              done(
                [refused, silent].includes(address)
                  ? Object.assign(new Error("5.1.1 no such user"), { responseCode: 550 })
                  : null,
              ),
          });
          const mxPort = await freePort();
          const relay = await start({ port: behind.port, ports: { "bounces.example.org": mxPort }, offersDsn });
          // The relay stands where the sandbox does: nothing leaves the machine.
          const own = await startMailStack([MAIL_SERVICES.api, MAIL_SERVICES.delivery], {
            PALOMAR_MX_LISTEN: `127.0.0.1:${mxPort}`,
            PALOMAR_BOUNCE_DOMAIN: "bounces.example.org",
          });
          try {
            own.setAddress("sandbox", `127.0.0.1:${relay.port}`);
            await own.run(startBounce);
            const submissions = (await own.run(startSubmission)).addresses.submissions!;
            const auth = await loginOf(own);
            const transport = createTransport({
              ...{ host: "127.0.0.1", port: portOf(submissions), secure: true, tls: { rejectUnauthorized: false } },
              auth: { user: auth.user, pass: auth.password },
            });
            const from = `info@${TEST_DOMAIN}`;
            const to = ["known@behind.example.net", refused];
            await transport.sendMail({
              envelope: { from, to },
              raw: message(to[0]!),
              dsn: { notify: "success,failure" },
            } as object);
            // Nobody is to be told of this one; but we are not to mail it for ever.
            const never = { envelope: { from, to: [silent] }, raw: message(silent), dsn: { notify: "never" } };
            await transport.sendMail(never as object);
            transport.close();
            const reports = () =>
              Promise.all(
                behind.messages
                  .filter(({ rcptTo }) => rcptTo[0] === from)
                  .map(async ({ octets, mailFrom }) => ({ mailFrom, ...(await interpret(octets)) })),
              );
            const toldBy = (found: Awaited<ReturnType<typeof reports>>) =>
              found.flatMap(({ results }) => results.map(({ recipient, action }) => `${action} ${recipient}`));
            // Without DSN the relay is told of as the end of the way, and its report of failure comes later.
            const relayed = offersDsn ? [`${passedOn} known@behind.example.net`] : to.map((one) => `relayed ${one}`);
            const found = await eventually(reports, (some) => toldBy(some).length > relayed.length);
            const told = toldBy(found);
            expect([...new Set(told)].toSorted()).toEqual([`failed ${refused}`, ...relayed].toSorted());
            expect(told).toHaveLength(new Set(told).size);
            expect(found.every(({ mailFrom }) => mailFrom === "")).toBe(true);
            await eventually(
              () => own.context.db("deliveries").where({ recipient: silent, bounce: "hard" }),
              (rows) => rows.length === 1,
            );
            expect(await own.context.db("delivery_reports").where({ recipient: silent })).toEqual([]);
          } catch (error) {
            throw new Error(relay.log(), { cause: error });
          } finally {
            await own.stop();
            await relay.stop();
            await behind.close();
          }
        },
      );
    }
  }
});

describe("readers", () => {
  const has = (command: string, ...args: string[]) => spawnSync(command, args).status === 0;
  const flufl = has("/usr/bin/python3", "-c", "import flufl.bounce");
  const bounceParser = has("perl", "-MMail::DeliveryStatus::BounceParser", "-e", "1");
  let report: Buffer;
  let file: string;

  beforeAll(async () => {
    const from = `readers@${TEST_DOMAIN}`;
    const transport = createTransport({
      ...{ host: "127.0.0.1", port: portOf(starttls), requireTLS: true, tls: { rejectUnauthorized: false } },
      auth: { user: login.user, pass: login.password },
    });
    const to = "reject+1@readers.example.net";
    await transport.sendMail({ envelope: { from, to: [to] }, raw: message(to), dsn: { notify: "failure" } } as object);
    transport.close();
    report = await firstReport(stack, from);
    file = join(folder, "report.eml");
    writeFileSync(file, report);
  });

  it.skipIf(!flufl)("flufl.bounce of Mailman (needs the Debian package python3-flufl.bounce)", async () => {
    const program =
      "import sys, email; from flufl.bounce import all_failures; print(all_failures(email.message_from_binary_file(open(sys.argv[1], 'rb'))))";
    const { stdout } = await run("/usr/bin/python3", ["-c", program, file]);
    expect(stdout).toContain("reject+1@readers.example.net");
  });

  it.skipIf(!bounceParser)(
    "BounceParser (needs the Debian package libmail-deliverystatus-bounceparser-perl)",
    async () => {
      const program =
        'local $/; my $b = Mail::DeliveryStatus::BounceParser->new(<STDIN>); print join("|", map { $_->get("email") . " " . $_->get("std_reason") } $b->reports)';
      const reading = run("perl", ["-MMail::DeliveryStatus::BounceParser", "-e", program]);
      reading.child.stdin!.end(report);
      expect((await reading).stdout).toBe("reject+1@readers.example.net user_unknown");
    },
  );

  it.skipIf(dovecotMissing !== undefined)(
    `a program that reads Dovecot by IMAP (${dovecotMissing ?? "as root"})`,
    async () => {
      const dovecot = await startDovecot();
      try {
        await dovecot.append("INBOX", report);
        const program = `
import imaplib, sys, email
from email import policy
m = imaplib.IMAP4("127.0.0.1", ${dovecot.port}); m.login(sys.argv[1], sys.argv[2]); m.select("INBOX")
print(m.fetch("1", "(BODYSTRUCTURE)")[1][0].decode())
message = email.message_from_bytes(m.fetch("1", "(RFC822)")[1][0][1], policy=policy.default)
status = message.get_payload()[1]
print(status.get_content_type(), [dict(group.items()) for group in status.get_payload()][1]["Action"])`;
        const { stdout } = await run("/usr/bin/python3", ["-c", program, dovecot.user, dovecot.password]);
        expect(stdout).toMatch(/"message" "delivery-status"/i);
        expect(stdout).toMatch(/"report" .*"delivery-status"/i);
        expect(stdout).toMatch(/^message\/delivery-status failed$/m);
      } finally {
        await dovecot.stop();
      }
    },
  );

  const muttMissing = isInstalled("mutt") ? dovecotMissing : "needs the Debian package mutt";
  it.skipIf(muttMissing !== undefined)(`mutt, which reads Dovecot by IMAP (${muttMissing ?? "as root"})`, async () => {
    const dovecot = await startDovecot();
    try {
      await dovecot.append("INBOX", report);
      const mailbox = `imap://${dovecot.user}@127.0.0.1:${dovecot.port}/INBOX`;
      const configuration = [
        `set imap_pass="${dovecot.password}" folder="${mailbox}" spoolfile="${mailbox}" ssl_starttls=no ssl_force_tls=no`,
        "set imap_authenticators=login wait_key=no quit=yes mail_check=0",
        "unset header_cache mark_old confirmappend help",
        // The list of parts, each part as mutt decodes it, and the message as its pager shows it.
        `push "<view-attachments>${["notice", "status", "header"].map(toFile).join("<next-entry>")}<exit>${toShown}<quit>"`,
      ].join("\n");
      writeFileSync(join(folder, "muttrc"), `${configuration}\n`);
      const mutt = "mutt -n -F muttrc";
      const env = { PATH: process.env.PATH, HOME: folder, TERM: "vt100", LC_ALL: "C.UTF-8" };
      // mutt wants a terminal, which `script` is.
      await run("script", ["-qec", mutt, "/dev/null"], { cwd: folder, env, timeout: 60_000 });
      const read = (name: string) => readFileSync(join(folder, name), "utf8");
      expect(read("notice")).toContain("reject+1@readers.example.net");
      expect(read("status")).toMatch(/^Action: failed$/m);
      expect(read("header")).toMatch(new RegExp(`^Message-ID: <1@${TEST_DOMAIN}>$`, "m"));
      expect(read("shown")).toMatch(/^Subject: Your message could not be delivered$.*^Status: 5\.1\.1$/ms);
    } finally {
      await dovecot.stop();
    }
  });

  const toFile = (name: string) => `<pipe-entry>cat > ${name}<enter>`;
  const toShown = ":set pipe_decode<enter><pipe-message>cat > shown<enter>";
});
