import { afterAll, beforeAll, expect, test } from "vitest";
import { MAIL_SERVICES, type MailStack, startMailStack, TEST_DOMAIN } from "../support/mail-stack.ts";
import { fc } from "../support/property.ts";
import { eventually } from "../support/stack.ts";

let stack: MailStack;
let campaign: number;
beforeAll(async () => {
  stack = await startMailStack([MAIL_SERVICES.api, MAIL_SERVICES.sandbox, MAIL_SERVICES.delivery]);
  campaign = await stack.addCampaign();
});
afterAll(async () => {
  await stack.stop();
  expect(stack.failures).toEqual([]);
});

const OPERATIONS = ["send_one_inline", "send_one_uri", "send_many_inline", "send_many_uri", "send_one_form"];

const text = fc.oneof(
  fc.constantFrom(
    "",
    "a@b",
    "x@fuzz.example.net",
    "\ud800",
    "a\u0000b",
    "a\r\nb",
    "XYZNOMBREXYZ",
    "XYZTAG-CURLXYZ",
    "\u{1F600}",
    "=?x",
  ),
  fc.string({ unit: "binary", maxLength: 40 }),
);
const odd = fc.oneof(text, fc.constantFrom(null, 0, -1, 1e308, 2 ** 53, true, "true"), fc.jsonValue({ maxDepth: 2 }));
/** Mostly what is right, so that the fault of one field is reached. */
const mostly = (right: unknown) =>
  fc.oneof({ weight: 6, arbitrary: fc.constant(right) }, { weight: 1, arbitrary: odd });
const words = fc.oneof({ weight: 3, arbitrary: text }, { weight: 1, arbitrary: odd });
const contact = fc.record(
  { email: mostly("x@fuzz.example.net"), nombre: words, apellido: words },
  { requiredKeys: [] },
);

/** What each field may be instead of what is right. */
const strange = fc.record({
  campana_id: odd,
  email: odd,
  contacto: fc.oneof(contact, odd),
  contactos: fc.oneof(fc.array(contact, { maxLength: 4 }), odd),
  html: words,
  html_url: odd,
  remitente: odd,
  remitente_nombre: words,
  asunto: words,
  "reply-to": odd,
  copia: fc.oneof(
    fc.array(fc.record({ cc_email: mostly("c@fuzz.example.net"), cc_nombre: words }), { maxLength: 3 }),
    odd,
  ),
  copia_oculta: fc.oneof(fc.array(fc.record({ bcc_email: mostly("d@fuzz.example.net") }), { maxLength: 3 }), odd),
  adjuntos: fc.oneof(
    fc.array(fc.record({ filename: words, content: fc.array(fc.constantFrom("QUJD", "=", "A")) }), { maxLength: 2 }),
    odd,
  ),
  archive: odd,
  reuse_eeid: odd,
  eeid: odd,
});
const NAMES = [
  "campana_id",
  "email",
  "contacto",
  "contactos",
  "html",
  "remitente_nombre",
  "asunto",
  "copia",
  "adjuntos",
];

/** A right call with a few fields changed. */
const body = () =>
  fc
    .tuple(strange, fc.subarray([...NAMES, "reply-to", "copia_oculta", "archive", "eeid"], { maxLength: 3 }))
    .map(([values, changed]) => ({
      campana_id: campaign,
      email: true,
      contacto: { email: "x@fuzz.example.net" },
      contactos: [{ email: "x@fuzz.example.net" }, { email: "y@fuzz.example.net" }],
      html: "<p>XYZNOMBREXYZ</p>",
      remitente: `info@${TEST_DOMAIN}`,
      ...Object.fromEntries(Object.entries(values).filter(([name]) => changed.includes(name))),
    }));

test("whatever a call holds, it is answered, and what was accepted can be sent", async () => {
  let accepted = 0;
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...OPERATIONS), body(), async (operation, fields) => {
      const answer = await stack.call("POST", `/envio/${operation}`, fields);
      expect([200, 400, 403, 404, 409, 413]).toContain(answer.status);
      expect(answer.body.status).toBe(answer.status === 200 ? "ok" : "err");
      accepted += answer.body.sent ?? 0;
    }),
    { numRuns: 400 },
  );
  expect(accepted).toBeGreaterThan(10);
  const left = () => stack.context.db("deliveries").where({ state: "queued" });
  await eventually(left, (queued) => queued.length === 0);
  expect(await stack.context.db("deliveries").where({ state: "delivered" })).toHaveLength(accepted);
});

test("whatever stands in the path, reading a batch is answered", async () => {
  await fc.assert(
    fc.asyncProperty(text, text, async (eeid, email) => {
      const path = `/eeid_eml/${encodeURIComponent(wellFormed(eeid))}/${encodeURIComponent(wellFormed(email))}`;
      expect([400, 404]).toContain((await stack.call("GET", path)).status);
    }),
    { numRuns: 100 },
  );
});

const wellFormed = (text: string) => Buffer.from(text, "utf8").toString("utf8");
