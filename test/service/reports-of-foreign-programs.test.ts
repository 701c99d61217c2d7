import { createTransport } from "nodemailer";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { start as startBounce } from "../../services/bounce/main.ts";
import { reportAddresses } from "../../services/core/mail/reports/report-addresses.ts";
import { judgeByAuthheaders } from "../../services/platform/judges/authheaders.ts";
import type { JudgedMail } from "../../services/platform/judges/judge.ts";
import { type RunningRspamd, startRspamd } from "../../services/platform/judges/rspamd.ts";
import { listInstanceDomains } from "../../services/store/mail/instances/instances.ts";
import {
  configureRspamdReports,
  makeReporterFolder,
  missingFor,
  missingOfPerl,
  type ReporterSurroundings,
  removeReporterFolder,
  reportByMailDmarc,
  reportByOpenDmarc,
  reportByRspamd,
  startOpenDmarc,
  startRedis,
} from "../support/dmarc-reporters.ts";
import { BOUNCE_DOMAIN, type JudgedWorld, SENDING_ADDRESS, startJudgedWorld } from "../support/judges.ts";
import { type MailRelay, postfixMissing, startPostfixRelay } from "../support/mail-relays.ts";
import { MAIL_SERVICES, type MailStack, startMailStack, TEST_DOMAIN } from "../support/mail-stack.ts";
import { freePort, ownResolverMissing, type Peer } from "../support/peers-processes.ts";
import { type SmtpSink, type SunkMessage, startSmtpSink } from "../support/smtp-sink.ts";
import { sameInstance } from "../support/spread-tables.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";

// What receivers' own programs report of mail that we sent, and of mail that others sent in our name, is what was sent.
const PATIENCE_MS = 300_000;
const SENT = 7;
const FORGED = 3;
/** Where the resolver is asked at port 53, which these programs know alone. */
const RESOLVER = "127.0.0.78";
const CLIENT = "127.0.0.1";

const because = [missingFor("unbound", "opendkim", "opendmarc"), postfixMissing ?? "", ownResolverMissing]
  .filter(Boolean)
  .join(", ");
const title = because && ` (skipped: ${because})`;
const dataDir = makeDataDir();
let stack: MailStack;
let postfix: MailRelay;
let sink: SmtpSink;
let world: JudgedWorld;
let surroundings: ReporterSurroundings;
let history: string;
const closers: (() => Promise<unknown> | unknown)[] = [];

describe.skipIf(because !== "")(`mail that a receiver of foreign programs takes${title}`, () => {
  beforeAll(async () => {
    const ports = { opendkim: await freePort(), opendmarc: await freePort() };
    sink = await startSmtpSink();
    closers.unshift(() => sink.close());
    postfix = await startPostfixRelay({
      ...{ port: sink.port, offersDsn: false },
      milters: [ports.opendkim, ports.opendmarc],
    });
    closers.unshift(() => postfix.stop());
    stack = await startMailStack([MAIL_SERVICES.api, MAIL_SERVICES.delivery], {
      ...{ PALOMAR_DATA_DIR: dataDir, PALOMAR_BOUNCE_DOMAIN: BOUNCE_DOMAIN },
      ...{ PALOMAR_HOSTNAME: `mx.${BOUNCE_DOMAIN}`, PALOMAR_TRACKING_URL: `https://www.${TEST_DOMAIN}` },
      ...{ PALOMAR_DELIVERY: `smtp://127.0.0.1:${postfix.port}`, PALOMAR_SENDER_DOMAIN_CHECK: "false" },
    });
    closers.unshift(() => stack.stop());
    const { db, keyRing } = stack.context;
    const [domain] = await listInstanceDomains(db, stack.instanceId);
    const about = { instanceId: stack.instanceId, domain: TEST_DOMAIN };
    const { dmarc: rua } = reportAddresses(keyRing, about, { bounceDomain: BOUNCE_DOMAIN, tracking: "" });
    world = await startJudgedWorld(
      TEST_DOMAIN,
      { selector: domain!.dkimSelector, record: domain!.dkimRecord },
      { rua, senders: `ip4:${CLIENT}`, wellKnownAddress: RESOLVER },
    );
    closers.unshift(() => world.stop());
    const mx = (await stack.run(startBounce)).addresses.mx!;
    surroundings = { ...makeReporterFolder(RESOLVER), reportPort: Number(mx.split(":")[1]) };
    closers.unshift(() => removeReporterFolder(surroundings.folder));
    const opendmarc = await startOpenDmarc(surroundings, ports);
    closers.unshift(() => opendmarc.stop());
    history = opendmarc.history;
    await sendAll();
  }, PATIENCE_MS);
  afterAll(async () => {
    for (const close of closers) await close();
    removeDataDir(dataDir);
  }, PATIENCE_MS);

  async function sendAll(): Promise<void> {
    const numid = await stack.addCampaign();
    for (let number = 0; number < SENT; number++) {
      const contacto = { email: `r${number}@receiver.example.net` };
      const html = "<p>We have moved to a new office, and would like to show you around.</p>";
      const sent = await stack.call("POST", "/envio/send_one_inline/", {
        campana_id: numid,
        email: true,
        contacto,
        html,
      });
      expect(sent.body).toMatchObject({ sent: 1 });
    }
    const forger = createTransport({ host: CLIENT, port: postfix.port, tls: { rejectUnauthorized: false } });
    for (let number = 0; number < FORGED; number++) {
      await forger.sendMail({
        ...{
          from: `info@${TEST_DOMAIN}`,
          to: `forged${number}@receiver.example.net`,
          subject: "Your bill",
          text: "Pay.",
        },
        envelope: { from: "forger@elsewhere.example.net", to: [`forged${number}@receiver.example.net`] },
      });
    }
    forger.close();
    await eventually(
      async () => sink.messages.length,
      (count) => count === SENT + FORGED,
      PATIENCE_MS,
    );
  }

  const isForged = ({ rcptTo }: SunkMessage) => rcptTo[0]!.startsWith("forged");
  const mails = (clientAddress = CLIENT): JudgedMail[] =>
    sink.messages.map(({ octets, mailFrom, rcptTo }) => ({
      ...{ octets, mailFrom, rcptTo: rcptTo[0]!, clientAddress, helo: `mx.${BOUNCE_DOMAIN}` },
    }));

  /** What the report of a reporter came to, in the tables. */
  const sumsOf = (reporter: string) =>
    stack.context
      .db("dmarc_rows")
      .join("dmarc_reports", sameInstance("dmarc_reports.id", "dmarc_rows.dmarc_report"))
      .whereILike("reporter", `%${reporter}%`)
      .groupBy("dkim", "disposition", "source")
      .orderBy("dkim")
      .select("dkim", "disposition", stack.context.db.raw("host(source) as source"))
      .sum("dmarc_rows.messages as messages");

  async function expectSums(
    reporter: string,
    said: string,
    { source = CLIENT, disposition = "reject" }: { readonly source?: string; readonly disposition?: string } = {},
  ): Promise<void> {
    const found = await eventually(
      () => sumsOf(reporter),
      (rows) => rows.length === 2,
    ).catch((cause) => {
      throw new Error(said, { cause });
    });
    const sums = found.map((row) => ({ ...row, messages: Number(row.messages) }));
    expect(sums).toEqual([
      { dkim: false, disposition, source, messages: FORGED },
      { dkim: true, disposition: "none", source, messages: SENT },
    ]);
  }

  test(
    "OpenDMARC and python3-authheaders agree on alignment",
    async () => {
      for (const [number, message] of sink.messages.entries()) {
        const text = message.octets.toString("latin1");
        const byOpenDmarc = /^Authentication-Results: receiver\.example\.net; dmarc=(\w+)/m.exec(text)?.[1];
        const byAuthheaders = await judgeByAuthheaders(mails()[number]!, world);
        expect(byOpenDmarc).toBe(isForged(message) ? "fail" : "pass");
        expect(byAuthheaders).toMatchObject({ kind: "judged", authenticated: { dmarc: !isForged(message) } });
      }
    },
    PATIENCE_MS,
  );

  const noOpenDmarc = [
    missingFor("opendmarc-import", "opendmarc-reports", "mariadbd", "mariadb", "mariadb-install-db"),
    missingOfPerl("Switch", "DBD::mysql", "HTTP::Request", "JSON", "URI"),
  ]
    .filter(Boolean)
    .join(", ");
  test.skipIf(noOpenDmarc !== "")(
    `opendmarc-reports reports what was sent${noOpenDmarc && ` (skipped: ${noOpenDmarc})`}`,
    async () => {
      // It lets through what fails here, and says so.
      await expectSums("opendmarc", await reportByOpenDmarc(surroundings, history), { disposition: "none" });
    },
    PATIENCE_MS,
  );

  const noMailDmarc = missingFor("dmarc_send_reports") || missingOfPerl("Mail::DKIM", "Mail::SPF");
  test.skipIf(noMailDmarc !== "")(
    `dmarc_send_reports of Mail::DMARC reports what was sent${noMailDmarc && ` (skipped: ${noMailDmarc})`}`,
    async () => {
      await expectSums("mail-dmarc", await reportByMailDmarc(surroundings, mails(), TEST_DOMAIN));
    },
    PATIENCE_MS,
  );

  const noRspamd = missingFor("rspamd", "rspamadm", "redis-server", "redis-cli");
  test.skipIf(noRspamd !== "")(
    `rspamadm dmarc_report reports what was sent${noRspamd && ` (skipped: ${noRspamd})`}`,
    async () => {
      const redis: Peer = await startRedis();
      let rspamd: RunningRspamd | undefined;
      try {
        configureRspamdReports(world.folder, redis, surroundings.reportPort);
        // It reports about what lies directly below a public suffix.
        rspamd = await startRspamd(world, { suffixes: ["org", "net", "example.org", "example.net"] });
        // To what comes from its own machine it does not put DMARC.
        for (const mail of mails(SENDING_ADDRESS)) expect((await rspamd!.judge(mail)).kind).toBe("judged");
        const messages = SENT + FORGED;
        const said = await reportByRspamd(surroundings, world.folder, { redis, messages });
        await expectSums("rspamd", said, { source: SENDING_ADDRESS });
      } finally {
        await rspamd?.stop();
        await redis.stop();
      }
    },
    PATIENCE_MS,
  );
});
