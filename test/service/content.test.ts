import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { start as startConsole } from "../../services/console/main.ts";
import { hashPassword } from "../../services/core/password.ts";
import { sentence } from "../../services/core/sentences.ts";
import { ContentScanner } from "../../services/operations/mail/content-scan.ts";
import { endHeldContent } from "../../services/operations/mail/held-content.ts";
import { guardPolicy } from "../../services/platform/config/guard-policy.ts";
import { addUser } from "../../services/store/console/users.ts";
import { listHeldContent } from "../../services/store/mail/guard/content-verdicts.ts";
import { start as startSubmission } from "../../services/submission/main.ts";
import { callApi } from "../support/api-client.ts";
import { isClamavInstalled, startClamd, TEST_VIRUS } from "../support/clamav.ts";
import { MAIL_SERVICES, type MailStack, startMailStack, TEST_DOMAIN } from "../support/mail-stack.ts";
import type { Peer } from "../support/peers-processes.ts";
import { GTUBE, isRspamdInstalled, startRspamd, type TestRspamd } from "../support/rspamd.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";
import { submitMessage } from "../support/submit.ts";

const PASSWORD = "a password for tests";

describe.skipIf(!isRspamdInstalled)("with the real rspamd (needs the Debian package rspamd)", () => {
  const dataDir = makeDataDir();
  let clamd: Peer | undefined;
  let rspamd: TestRspamd;
  let stack: MailStack;
  let submissions: string;
  let numid: number;
  let key: string;
  let base: string;

  beforeAll(async () => {
    if (isClamavInstalled) clamd = await startClamd();
    rspamd = await startRspamd(clamd?.address);
    const environment = {
      PALOMAR_DATA_DIR: dataDir,
      PALOMAR_RSPAMD: rspamd.url,
      PALOMAR_CONSOLE_LISTEN: "127.0.0.1:0",
    };
    stack = await startMailStack(Object.values(MAIL_SERVICES), environment);
    submissions = (await stack.run(startSubmission)).addresses.submissions!;
    numid = await stack.addCampaign();
    key = (await stack.call("GET", `/campania_apikey?numid=${numid}`)).body.camp_apikey;
    base = `${(await stack.run(startConsole)).addresses.console}/admin/v1/instances/test/campaigns`;
    const passwordHash = await hashPassword(PASSWORD);
    await addUser(stack.context.db, { login: "ana", role: "instance", scope: "test", passwordHash });
  }, 300_000);
  afterAll(async () => {
    await stack?.stop();
    await rspamd?.stop();
    await clamd?.stop();
    removeDataDir(dataDir);
  });

  const submit = (recipient: string, subject: string, body = "x") =>
    submitMessage(
      submissions,
      { user: `test-${numid}`, key },
      {
        ...{ from: `info@${TEST_DOMAIN}`, recipients: [recipient], text: `Subject: ${subject}\r\n\r\n${body}\r\n` },
      },
    );
  const send = (email: string, asunto: string, html = "<p>Hi</p>", adjuntos: readonly object[] = []) =>
    stack.call("POST", "/envio/send_one_inline", {
      ...{ campana_id: numid, email: true, contacto: { email }, html, asunto, adjuntos },
    });
  const arrived = (email: string) =>
    eventually(
      () => stack.inbox(email),
      (found) => found.length > 0,
    );
  const held = () => listHeldContent(stack.context.db, stack.instanceId, 10);
  const change = () => ({
    ...{ instance: { id: stack.instanceId, name: "test" }, reason: sentence("guard-by-hand", { reason: "looked at" }) },
    ...{ by: "ana", address: "", audited: true, now: new Date() },
  });

  it("submission refuses GTUBE and high scores, marks what is doubtful, and lets the rest pass", async () => {
    expect(await submit("gtube@example.net", "x", GTUBE)).toBe("550 5.7.1 the content of the message is refused\r\n");
    expect(await submit("high@example.net", "score 15")).toMatch(/^550 5\.7\.1 /);
    expect(await submit("doubtful@example.net", "score 7")).toMatch(/^250 /);
    expect(await submit("fine@example.net", "fine")).toMatch(/^250 /);
    const [doubtful] = await arrived("doubtful@example.net");
    expect(doubtful!.octets.toString()).toMatch(/^X-Spam-Flag: YES\r\nX-Spam-Score: 7\.0\r\n/m);
    const [fine] = await arrived("fine@example.net");
    expect(fine!.octets.toString()).not.toContain("X-Spam");
    expect(await stack.inbox("gtube@example.net")).toEqual([]);
    const kept = await stack.context.db("content_verdicts").orderBy("scanned_at").select("action", "score", "symbols");
    expect(kept).toMatchObject([{ action: "mark", score: 7, symbols: { SANDBOX_SCORE: 7 } }, { action: "accept" }]);
  });

  it("the API holds back what submission would refuse, until somebody lets it go or takes it back", async () => {
    const gtube = await send("api-gtube@example.net", "x", `<p>${GTUBE}</p>`);
    const high = await send("api-high@example.net", "score 12");
    expect([gtube.status, high.status]).toEqual([200, 200]);
    expect((await send("api-fine@example.net", "fine")).status).toBe(200);
    await arrived("api-fine@example.net");
    expect((await held()).map(({ eeid }) => eeid)).toEqual([high.body.eeid, gtube.body.eeid]);
    const { db } = stack.context;
    // No worker takes what is held.
    for (const { body } of [gtube, high]) {
      expect((await stack.call("GET", `/eeid_info/${body.eeid}`)).body.envio_efectivo).toMatchObject({
        ...{ estado: "encolado", cant_particiones: 1, particiones_tomadas: 0 },
      });
    }
    expect(await endHeldContent(db, high.body.eeid, "release", change())).toBe(true);
    expect(await endHeldContent(db, gtube.body.eeid, "discard", change())).toBe(true);
    expect(await endHeldContent(db, gtube.body.eeid, "release", change())).toBe(false);
    await arrived("api-high@example.net");
    expect(await stack.inbox("api-gtube@example.net")).toEqual([]);
    expect((await stack.call("GET", `/eeid_info/${gtube.body.eeid}`)).body.envio_efectivo.estado).toBe("cancelado");
    const actions = await db("console_audit").orderBy("id").select("action", "actor", "object");
    expect(actions).toEqual([
      { action: "content.release", actor: "ana", object: high.body.eeid },
      { action: "content.discard", actor: "ana", object: gtube.body.eeid },
    ]);
  });

  const ana = (method: string, path: string, body?: unknown) =>
    callApi(method, base + path, { Authorization: `Basic ${Buffer.from(`ana:${PASSWORD}`).toString("base64")}` }, body);
  const writeNormal = async (asunto: string, grupos: readonly string[] = []) => {
    const normal = (await stack.call("POST", "/campania/", { tipo: "normal", nombre: asunto })).body.numid;
    const message = { remitente: `info@${TEST_DOMAIN}`, asunto, html: "<p>Hi</p>", grupos };
    expect((await ana("PUT", `/${normal}/message`, message)).status).toBe(200);
    return normal;
  };

  it("a campaign of type normal, with its unsubscribe link, is looked at when it starts", async () => {
    await stack.call("POST", "/contacto/", { email: "started@example.net", grupos: ["started"] });
    const fine = await writeNormal("fine", ["started"]);
    const high = await writeNormal("score 12", ["started"]);
    for (const one of [fine, high]) expect((await ana("POST", `/${one}/start`, {})).status).toBe(200);
    await arrived("started@example.net");
    const { body } = await eventually(
      () => ana("GET", `/${high}`),
      (answer) => answer.body.pausa !== null,
    );
    expect(body).toMatchObject({ estado: "pausado", pausa: { motivo: { code: "content-judged" } } });
    expect(await stack.inbox("started@example.net")).toHaveLength(1);
  });

  it("a send by API that carries an unsubscribe link is looked at too", async () => {
    const campana_id = await stack.addCampaign({ desusc: "si" });
    const contacto = { email: "leaves@example.net" };
    const call = { campana_id, email: true, contacto, html: "<p>Hi</p>", asunto: "fine" };
    expect((await stack.call("POST", "/envio/send_one_inline", call)).status).toBe(200);
    await arrived("leaves@example.net");
  });

  it("the console's test send of a campaign is held back as a send by API", async () => {
    const test = async (asunto: string, email: string) => ana("POST", `/${await writeNormal(asunto)}/test`, { email });
    const high = await test("score 12", "test-high@example.net");
    expect(high).toMatchObject({ status: 200, body: { sent: 1 } });
    expect((await test("fine", "test-fine@example.net")).status).toBe(200);
    await arrived("test-fine@example.net");
    expect((await held()).map(({ eeid }) => eeid)).toEqual([high.body.eeid]);
    expect(await endHeldContent(stack.context.db, high.body.eeid, "discard", change())).toBe(true);
    expect(await stack.inbox("test-high@example.net")).toEqual([]);
  });

  const noClamav = isClamavInstalled ? "" : " (skipped: clamd is not installed)";
  it.skipIf(!isClamavInstalled)(
    `what ClamAV finds in an attachment, by way of rspamd, is refused, and held back in API sends${noClamav}`,
    async () => {
      const attachment = Buffer.from(`%PDF-1.4 ${TEST_VIRUS}`).toString("base64");
      const mixed = [
        "Subject: papers\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n",
        "--b\r\nContent-Type: text/plain\r\n\r\nsee there",
        `--b\r\nContent-Type: application/pdf\r\nContent-Transfer-Encoding: base64\r\n\r\n${attachment}`,
        "--b--\r\n",
      ].join("\r\n");
      const credentials = { user: `test-${numid}`, key };
      const from = `info@${TEST_DOMAIN}`;
      const carrier = { from, recipients: ["virus@example.net"], text: mixed };
      expect(await submitMessage(submissions, credentials, carrier)).toMatch(/^550 5\.7\.1 /);
      const clean = { ...carrier, text: mixed.replace(attachment, Buffer.from("%PDF-1.4").toString("base64")) };
      expect(await submitMessage(submissions, credentials, clean)).toMatch(/^250 /);
      const sent = await send("api-virus@example.net", "papers", "<p>Hi</p>", [
        { filename: "papers.pdf", content: [attachment] },
      ]);
      expect(sent.status).toBe(200);
      expect((await held()).map(({ eeid }) => eeid)).toEqual([sent.body.eeid]);
      const [verdict] = await stack.context.db("content_verdicts").where({ eeid: sent.body.eeid }).select("symbols");
      expect(verdict.symbols).toHaveProperty("CLAM_VIRUS");
      expect(await endHeldContent(stack.context.db, sent.body.eeid, "discard", change())).toBe(true);
    },
  );
});

it.each(["accept", "hold", "refuse"] as const)(
  "while the filter is away messages are to %s, by the setting",
  async (away) => {
    const told: string[] = [];
    const scanner = new ContentScanner("http://127.0.0.1:9", { ...guardPolicy.content, away }, ({ kind }) =>
      told.push(kind),
    );
    const message = { octets: Buffer.from("x"), mailFrom: "", recipients: [], user: "", clientAddress: "" };
    expect(await scanner.judge(() => message)).toEqual({ action: away });
    expect(told).toContain("content-not-scanned");
  },
);

it("without a filter nothing is composed and nothing asked", async () => {
  const scanner = new ContentScanner(null, guardPolicy.content, () => {});
  const never = () => {
    throw new Error("composed");
  };
  expect(await scanner.judge(never)).toBeUndefined();
});
