import { afterAll, beforeAll, expect, it } from "vitest";
import { start as startBounce } from "../../services/bounce/main.ts";
import { makeBounceToken } from "../../services/core/mail/tokens.ts";
import { listUnknownWordings, makeWording, tryWording } from "../../services/operations/mail/bounce-wordings.ts";
import { removeWording } from "../../services/store/mail/inbound/wordings.ts";
import { MAIL_SERVICES, type MailStack, startMailStack } from "../support/mail-stack.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";

const dataDir = makeDataDir();
let stack: MailStack;
const DAY_MS = 86_400_000;

beforeAll(async () => {
  stack = await startMailStack(Object.values(MAIL_SERVICES), { PALOMAR_DATA_DIR: dataDir });
  await stack.run(startBounce);
});

afterAll(async () => {
  await stack?.stop();
  removeDataDir(dataDir);
});

/** A report of these words about a delivery, as the MX listener stores it. @returns what was understood */
async function understood(
  recipient: string,
  words: string,
  type = "smtp; ",
): Promise<{ reason: string; hard: boolean }[]> {
  const { db, keyRing } = stack.context;
  const deliveryId = await sentTo(recipient);
  const token = makeBounceToken(keyRing, { deliveryId, expiresAt: new Date(Date.now() + DAY_MS) });
  const octets = Buffer.from(
    [
      "From: mailer-daemon@mx.example.net",
      `To: <${token}@bounces.localhost>`,
      "Subject: Delivery report",
      'Content-Type: multipart/report; report-type=delivery-status; boundary="cut"',
      "",
      "--cut",
      "Content-Type: message/delivery-status",
      "",
      "Reporting-MTA: dns; mx.example.net",
      "",
      `Final-Recipient: rfc822; ${recipient}`,
      "Action: failed",
      "Status: 5.0.0",
      `Diagnostic-Code: ${type}${words}`,
      "",
      "--cut--",
      "",
    ].join("\r\n"),
  );
  const [row] = await db("inbound_messages").insert({ delivery_id: deliveryId, mail_from: "", octets }).returning("id");
  const [stored] = await eventually(
    () => db("inbound_messages").where({ id: row!.id, state: "applied" }).select("finding"),
    (found) => found.length > 0,
  );
  return stored!.finding.results;
}

async function sentTo(email: string): Promise<number> {
  const { db } = stack.context;
  const sent = await stack.call("POST", "/envio/send_one_inline/", {
    campana_id: campaign,
    email: true,
    contacto: { email },
    html: "<p>Hello</p>",
  });
  expect(sent.body.sent).toBe(1);
  return eventually(
    async () => (await db("deliveries").where({ recipient: email, state: "delivered" }).max("id as id"))[0]?.id ?? 0,
    (id) => id > 0,
  );
}

let campaign: number;

it("what nobody understood is grouped by its shape, tried, and understood as soon as it has a meaning", async () => {
  const { db } = stack.context;
  campaign = await stack.addCampaign();
  expect(await understood("jane@example.org", "550 Zorblax <jane@example.org> frobnicated (4711)")).toMatchObject([
    { reason: "rejected", hard: false },
  ]);
  await understood("joe@example.org", "550 Zorblax <joe@example.org> frobnicated (123456)");
  await understood("jim@example.org", "550 5.1.1 <jim@example.org>: user unknown");

  expect(await listUnknownWordings(db)).toMatchObject([
    { shape: "smtp; 550 zorblax <*> frobnicated (*)", count: 2, sample: expect.stringContaining("joe@example.org") },
  ]);
  const wording = { words: "Zorblax * frobnicated", reason: "userunknown" } as const;
  const trial = { messages: 3, matches: 2, changes: [{ from: "rejected", to: "userunknown", count: 2, newlyHard: 2 }] };
  expect(await tryWording(db, { ...wording, words: "zorblax * frobnicated" })).toEqual(trial);
  const made = await makeWording(db, wording, "operator");
  expect(made).toMatchObject({ ok: true, value: { trial } });
  expect(await makeWording(db, wording, "operator")).toMatchObject({ ok: false, error: { code: "wording-known" } });
  expect(await listUnknownWordings(db)).toEqual([]);

  expect(await understood("jil@example.org", "550 Zorblax <jil@example.org> frobnicated (7)")).toMatchObject([
    { reason: "userunknown", hard: true },
  ]);
  expect(made.ok && (await removeWording(db, made.value.id))).toBe(true);
  expect(await understood("jon@example.org", "550 Zorblax <jon@example.org> frobnicated (7)")).toMatchObject([
    { reason: "rejected", hard: false },
  ]);
});

it("what has no letter beside an address is no wording to learn", async () => {
  const { db } = stack.context;
  const before = await listUnknownWordings(db);
  await understood("jud@example.org", "<jud@example.org>:", "");
  expect(await listUnknownWordings(db)).toEqual(before);
  await understood("jan@example.org", "<jan@example.org>: ไม่", "");
  expect(await listUnknownWordings(db)).toHaveLength(before.length + 1);
});
