import { createTransport, type SendMailOptions } from "nodemailer";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { judgeByAuthheaders } from "../../services/platform/judges/authheaders.ts";
import type { JudgedMail, Verdict } from "../../services/platform/judges/judge.ts";
import { type RunningRspamd, startRspamd } from "../../services/platform/judges/rspamd.ts";
import { judgeAllBySpamAssassin, judgeBySpamAssassin } from "../../services/platform/judges/spamassassin.ts";
import { listInstanceDomains } from "../../services/store/mail/instances/instances.ts";
import { start as startSubmission } from "../../services/submission/main.ts";
import { type JudgedWorld, SENDING_ADDRESS, startJudgedWorld } from "../support/judges.ts";
import { MAIL_SERVICES, type MailStack, startMailStack, TEST_DOMAIN } from "../support/mail-stack.ts";
import { isInstalled } from "../support/peers-processes.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";

const PATIENCE_MS = 300_000;
/** Of the sender's own organisation: another one costs a point at SpamAssassin, see the last test but one. */
const BOUNCE_DOMAIN = "bounces.example.org";
const SENDING_NAME = `mx.${BOUNCE_DOMAIN}`;
const MISSING = ["rspamd", "spamassassin", "unbound"].filter((program) => !isInstalled(program));

const dataDir = makeDataDir();
let stack: MailStack;
let submission: string;
let campaign: number;
let apikey: string;
let world: JudgedWorld;
let rspamd: RunningRspamd;

describe.skipIf(MISSING.length > 0)(
  `mail that leaves here${MISSING.map((program) => `: ${program} is not installed`)}`,
  () => {
    beforeAll(async () => {
      stack = await startMailStack(Object.values(MAIL_SERVICES), {
        PALOMAR_DATA_DIR: dataDir,
        PALOMAR_BOUNCE_DOMAIN: BOUNCE_DOMAIN,
        PALOMAR_HOSTNAME: SENDING_NAME,
        PALOMAR_TRACKING_URL: `https://www.${TEST_DOMAIN}`,
      });
      submission = (await stack.run(startSubmission)).addresses.submissions!;
      campaign = await stack.addCampaign({ desusc: "si" });
      apikey = (await stack.call("GET", `/campania_apikey?numid=${campaign}`)).body.camp_apikey;
      const [domain] = await listInstanceDomains(stack.context.db, stack.instanceId);
      world = await startJudgedWorld(
        TEST_DOMAIN,
        { selector: domain!.dkimSelector, record: domain!.dkimRecord },
        { bounceDomain: BOUNCE_DOMAIN },
      );
      // Its own list of public suffixes takes minutes to compile on a busy machine.
      rspamd = (await startRspamd(world, { suffixes: ["org", "net", "com"] }))!;
    }, PATIENCE_MS);
    afterAll(async () => {
      await rspamd?.stop();
      await world?.stop();
      await stack?.stop();
      removeDataDir(dataDir);
    });

    /** The message as it arrived, and the judges' words of it. */
    async function arrived(email: string): Promise<JudgedMail> {
      const [message] = await eventually(
        () => stack.inbox(email),
        (found) => found.length > 0,
      );
      const { octets } = message!;
      const token = /^X-Delivery-Token: (\S+)/m.exec(octets.toString("latin1"))![1];
      const mailFrom = `${token}@${BOUNCE_DOMAIN}`;
      return { octets, clientAddress: SENDING_ADDRESS, helo: SENDING_NAME, mailFrom, rcptTo: email };
    }

    async function sendByApi(email: string, fields: Readonly<Record<string, unknown>>): Promise<JudgedMail> {
      const { contacto = {}, ...rest } = fields as { contacto?: object };
      const body = { campana_id: campaign, email: true, contacto: { email, ...contacto }, ...rest };
      const sent = await stack.call("POST", "/envio/send_one_inline/", body);
      expect(sent.body).toMatchObject({ sent: 1 });
      return arrived(email);
    }

    async function expectTrusted(mail: JudgedMail): Promise<void> {
      const [byRspamd, byAuthheaders] = await Promise.all([rspamd.judge(mail), judgeByAuthheaders(mail, world)]);
      const trusted = { spf: true, dkim: true, dmarc: true };
      expect(byRspamd, told(byRspamd)).toMatchObject({ kind: "judged", authenticated: trusted });
      expect(byRspamd.kind === "judged" && byRspamd.score!, told(byRspamd)).toBeLessThan(1);
      expect(byAuthheaders, told(byAuthheaders)).toMatchObject({
        kind: "judged",
        authenticated: trusted,
        objections: [],
      });
      trustedMail.push(mail);
    }

    const rulesOf = (verdict: Verdict | undefined) => (verdict?.kind === "judged" ? verdict.rules : []);
    const told = (verdict: Verdict | undefined) => JSON.stringify(verdict, null, 1);
    /** What the other judge, which takes its time to begin, looks at in the end. */
    const trustedMail: JudgedMail[] = [];

    const PARAGRAPH = "We have moved to a new office, and would like to show you around next week.";
    const CELL =
      "padding:12px 24px;font-family:Georgia,'Times New Roman',serif;font-size:16px;line-height:24px;color:#333333";
    const row = (content: string, style = CELL) =>
      `<tr><td align="left" valign="top" style="${style}">${content}</td></tr>`;
    /** As large as the pages of real campaigns are: head, styles for phones, a table that frames the text, and who sends it. */
    const page = (body: string) => `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>News from the office</title><style>
  body { margin: 0; padding: 0; width: 100%; background-color: #f4f4f2; -webkit-text-size-adjust: 100%; }
  table { border-collapse: collapse; border-spacing: 0; mso-table-lspace: 0; mso-table-rspace: 0; }
  h1 { margin: 0; font-family: Georgia, 'Times New Roman', serif; font-size: 28px; line-height: 34px; color: #224466; }
  p { margin: 0 0 16px; } a { color: #224466; text-decoration: underline; }
  .frame { width: 600px; max-width: 100%; background-color: #ffffff; }
  @media only screen and (max-width: 620px) {
    .frame { width: 100% !important; } td { padding-left: 16px !important; padding-right: 16px !important; }
    h1 { font-size: 24px !important; line-height: 30px !important; }
  }
  @media (prefers-color-scheme: dark) { body, .frame { background-color: #1c1c1a; } td, p { color: #e8e8e4; } }
</style></head><body><table role="presentation" width="100%"><tr><td align="center" style="padding:24px 0">
<table role="presentation" class="frame">
${row("<h1>News</h1>")}
${row(body)}
${row("<p>Since we moved in March, the workshop, the showroom and the office are under one roof. The entrance is at the back of the yard, next to the bakery; two places for visitors' cars are kept free, and the stop of the tram lies across the street.</p>")}
${row("<p>We are there from Monday to Friday between eight and five, and on the first Saturday of each month until noon. Should you want to see something in particular, write to us some days before, so that somebody who knows about it is there for you.</p>")}
${row("<p>With kind regards,<br>your people of the workshop</p>")}
${row(`<p>You get this message because you asked us for news when you visited us. The Sender, 12 Long Street, 12345 Sampletown, telephone 0123 456 789. Answers to this message reach us as well.</p>`, "padding:12px 24px;font-family:Arial,Helvetica,sans-serif;font-size:12px;line-height:18px;color:#666666")}
</table></td></tr></table></body></html>`;
    const base64 = (text: string) => [Buffer.from(text).toString("base64")];
    const byApi: readonly (readonly [string, Readonly<Record<string, unknown>>])[] = [
      ["plain", { html: page(`<p>${PARAGRAPH}</p>`) }],
      [
        "with links and a picture",
        {
          html: page(
            `<p>${PARAGRAPH}</p><p><a href="https://www.${TEST_DOMAIN}/visit">Visit us</a></p><p>${PARAGRAPH}</p><img src="https://www.${TEST_DOMAIN}/office.png" alt="Office" width="40" height="40">`,
          ),
        },
      ],
      [
        "laid out in tables",
        { html: page(`<table><tr><td>${PARAGRAPH}</td></tr><tr><td>${PARAGRAPH}</td></tr></table>`) },
      ],
      [
        "in Spanish",
        {
          asunto: "Nuestra nueva oficina, y cómo llegar",
          html: page("<p>Nos hemos mudado a una nueva oficina, y quisiéramos enseñársela la próxima semana.</p>"),
        },
      ],
      [
        "in Japanese",
        {
          asunto: "来週のご案内",
          html: page("<p>新しい事務所に移転しました。来週ぜひお越しください。お待ちしております。</p>"),
        },
      ],
      [
        "in Russian",
        {
          asunto: "Приглашение",
          html: page("<p>Мы переехали в новый офис и будем рады показать его вам на следующей неделе.</p>"),
        },
      ],
      ["of one long line", { html: page(`<p>${`${PARAGRAPH} `.repeat(60)}</p>`) }],
      [
        "with attachments",
        {
          html: page(`<p>${PARAGRAPH}</p>`),
          adjuntos: [
            { filename: "Pläne.csv", content: base64("a,b\n1,2\n") },
            { filename: "notes.txt", content: base64("Some notes.\n") },
          ],
        },
      ],
      ["personalised", { html: page(`<p>Dear XYZNOMBREXYZ,</p><p>${PARAGRAPH}</p>`), contacto: { nombre: "Ana" } }],
    ];
    test.each(byApi)(
      "by the API, %s",
      async (name, fields) => {
        const email = `api-${byApi.findIndex(([one]) => one === name)}@example.net`;
        await expectTrusted(await sendByApi(email, fields));
      },
      PATIENCE_MS,
    );

    const bySmtp: readonly (readonly [string, SendMailOptions])[] = [
      ["text alone", { text: `${PARAGRAPH}\n\n${PARAGRAPH}\n` }],
      ["text and HTML", { text: `${PARAGRAPH}\n`, html: page(`<p>${PARAGRAPH}</p>`) }],
      [
        "quoted-printable",
        {
          text: "Übermorgen öffnen wir um acht Uhr für Sie. Schöne Grüße aus dem Büro.\n",
          textEncoding: "quoted-printable",
        },
      ],
      [
        "base64",
        { text: "Übermorgen öffnen wir um acht Uhr für Sie. Schöne Grüße aus dem Büro.\n", textEncoding: "base64" },
      ],
      [
        "with an attachment and a picture within",
        {
          html: page(`<p>${PARAGRAPH}</p><p>${PARAGRAPH}</p>`),
          text: `${PARAGRAPH}\n\n${PARAGRAPH}\n`,
          attachments: [{ filename: "notes.txt", content: "Some notes.\n" }],
        },
      ],
      [
        "with an invitation",
        {
          text: `${PARAGRAPH}\n`,
          icalEvent: { method: "REQUEST", content: "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nEND:VCALENDAR\r\n" },
        },
      ],
    ];
    test.each(bySmtp)(
      "by SMTP, %s",
      async (name, options) => {
        const email = `smtp-${bySmtp.findIndex(([one]) => one === name)}@example.net`;
        const [host, port] = submission.split(":") as [string, string];
        const auth = { user: `test-${campaign}`, pass: apikey };
        const transport = createTransport({
          host,
          port: Number(port),
          secure: true,
          tls: { rejectUnauthorized: false },
          auth,
        });
        await transport.sendMail({
          from: `The Sender <info@${TEST_DOMAIN}>`,
          to: email,
          subject: "Our new office",
          ...options,
        });
        transport.close();
        await expectTrusted(await arrived(email));
      },
      PATIENCE_MS,
    );

    test(
      "has in SpamAssassin less than 1 point, each of them, and what a sender chooses costs more by name",
      async () => {
        expect(trustedMail).toHaveLength(byApi.length + bySmtp.length);
        const short = await sendByApi("short@example.net", { html: `<p>${PARAGRAPH}</p>` });
        const ofOthers = { ...trustedMail[0]!, mailFrom: "b+1@bounces.example.net" };
        const verdicts = await judgeAllBySpamAssassin([...trustedMail, short, ofOthers], world);
        const [byShort, byOthers] = verdicts.splice(-2);
        const isFine = (verdict: Verdict) =>
          verdict.kind === "judged" &&
          verdict.authenticated.spf === true &&
          verdict.authenticated.dkim === true &&
          verdict.score! < 1;
        expect(verdicts.filter((verdict) => !isFine(verdict))).toEqual([]);
        // A page of less than 3,200 octets with a picture, such as the one that counts opens.
        expect(rulesOf(byShort).filter((rule) => /^HTML_IMAGE_ONLY_\d+$/.test(rule))).toHaveLength(1);
        // A return path whose last two labels are others than the sender's.
        expect(rulesOf(byOthers)).toContain("HEADER_FROM_DIFFERENT_DOMAINS");
      },
      PATIENCE_MS,
    );

    test(
      "is told from what another machine sends in its name",
      async () => {
        const { octets, ...envelope } = await arrived("api-0@example.net");
        const altered = Buffer.from(octets.toString("latin1").replace("new office", "old office"), "latin1");
        const forged = { ...envelope, octets: altered, clientAddress: "198.51.100.7" };
        const byRspamd = await rspamd.judge(forged);
        expect(byRspamd).toMatchObject({ authenticated: { spf: false, dkim: false, dmarc: false } });
        expect(byRspamd.kind === "judged" && byRspamd.rules).toContain("DMARC_POLICY_REJECT");
        expect(await judgeByAuthheaders(forged, world)).toMatchObject({
          authenticated: { spf: false, dkim: false, dmarc: false },
        });
        expect(await judgeBySpamAssassin(forged, world)).toMatchObject({ authenticated: { spf: false, dkim: false } });
      },
      PATIENCE_MS,
    );
  },
);
