import { afterAll, beforeAll, expect, test } from "vitest";
import { start as startBounce } from "../../services/bounce/main.ts";
import { validateAddress } from "../../services/core/mail/address.ts";
import { eraseAddress } from "../../services/operations/mail/contact-erasure.ts";
import { registry } from "../../services/platform/observability/metrics.ts";
import { addInboundMessages } from "../../services/store/mail/inbound/inbound.ts";
import { dropQuarantined, listQuarantine, retryQuarantined } from "../../services/store/mail/inbound/quarantine.ts";
import { failureReport } from "../support/delivery-report.ts";
import { MAIL_SERVICES, type MailStack, startMailStack } from "../support/mail-stack.ts";
import { changeTriggers } from "../support/spread-tables.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";
import { findTraces } from "../support/traces.ts";

const dataDir = makeDataDir();
let stack: MailStack;

beforeAll(async () => {
  stack = await startMailStack([MAIL_SERVICES.api], { PALOMAR_DATA_DIR: dataDir });
});
afterAll(async () => {
  await stack?.stop();
  removeDataDir(dataDir);
});

test("what no worker copes with is put aside with its reason, holds up nobody, and may be tried again", async () => {
  const { db } = stack.context;
  const [poison, sound] = [await acceptMessage("poison@example.net"), await acceptMessage("sound@example.net")];
  await changeTriggers(
    db,
    `create function refuse_poison() returns trigger language plpgsql as $$
     begin
       if new.id = ${poison} then raise exception 'this delivery is poison'; end if;
       return new;
     end $$`,
    "create trigger poison before update on deliveries for each row execute function refuse_poison()",
  );
  await addInboundMessages(db, [reportOf(poison, "poison@example.net"), reportOf(sound, "sound@example.net")]);
  await stack.run(startBounce);

  await eventually(
    () => stack.call("GET", "/contacto/sound@example.net"),
    ({ body }) => body.contacto.eventos.some(({ evento }: { evento: string }) => evento === "rebote_hard"),
  );
  const [aside] = await eventually(
    () => listQuarantine(db, { limit: 10 }),
    (found) => found.length === 1,
  );
  expect(aside).toMatchObject({ deliveryId: poison, attempts: 5, mailFrom: "", clientAddress: "192.0.2.1" });
  expect(aside!.problem).toContain("this delivery is poison");
  expect(aside!.quarantinedAt.getTime()).toBeGreaterThanOrEqual(aside!.receivedAt.getTime());
  const exposition = await registry.metrics();
  expect(exposition).toContain('palomar_inbound_messages{state="quarantined"} 1');
  expect(exposition).toContain('palomar_inbound_messages{state="waiting"} 0');

  await changeTriggers(db, "drop trigger poison on deliveries");
  expect(await retryQuarantined(db, aside!.id)).toBe(true);
  expect(await retryQuarantined(db, aside!.id)).toBe(false);
  await eventually(
    () => stack.call("GET", "/contacto/poison@example.net"),
    ({ body }) => body.contacto.eventos.some(({ evento }: { evento: string }) => evento === "rebote_hard"),
  );
  expect(await listQuarantine(db, { limit: 10 })).toEqual([]);
  expect(await dropQuarantined(db, aside!.id)).toBe(false);
});

test("what no worker copes with is not kept when it is about somebody who was erased", async () => {
  const { db } = stack.context;
  const email = "erased@example.net";
  const gone = await acceptMessage(email);
  const address = validateAddress(email, { allowSmtputf8: false });
  await eraseAddress(db, stack.instanceId, address.ok ? address.value : expect.fail());
  const came = { mail_from: email, octets: Buffer.from(`To: ${email}`), attempts: 5 };
  await db("inbound_messages").insert([
    { ...came, delivery_id: gone },
    { ...came, feedback_address: "fbl@bounces.localhost", about_delivery_id: gone },
  ]);
  await eventually(
    () => db("inbound_messages").whereIn("state", ["waiting", "leased"]),
    (left) => left.length === 0,
  );
  expect(await findTraces(db, [email])).toEqual([]);
});

test("a database without room is no fault of the message, however often it says so", async () => {
  const { db } = stack.context;
  const unlucky = await acceptMessage("unlucky@example.net");
  await changeTriggers(
    db,
    `create function refuse_all() returns trigger language plpgsql as $$
     begin
       raise exception 'could not extend file' using errcode = 'disk_full';
     end $$`,
    "create trigger no_room before update on deliveries for each row execute function refuse_all()",
  );
  const failed = () => stack.failures.filter(({ kind }) => kind === "bounce-worker-failed").length;
  const before = failed();
  await addInboundMessages(db, [reportOf(unlucky, "unlucky@example.net")]);
  await eventually(
    async () => failed() - before,
    (times) => times > 5,
  );
  await changeTriggers(db, "drop trigger no_room on deliveries");
  await eventually(
    () => stack.call("GET", "/contacto/unlucky@example.net"),
    ({ body }) => body.contacto.eventos.some(({ evento }: { evento: string }) => evento === "rebote_hard"),
  );
  expect(await db("inbound_messages").where({ delivery_id: unlucky }).select("state", "attempts")).toEqual([
    { state: "applied", attempts: 1 },
  ]);
});

async function acceptMessage(email: string): Promise<number> {
  const campaign = await stack.addCampaign();
  const sent = await stack.call("POST", "/envio/send_one_inline/", {
    campana_id: campaign,
    email: true,
    contacto: { email },
    html: "<p>Hello</p>",
  });
  expect(sent.body.sent).toBe(1);
  return (await stack.context.db("deliveries").where({ recipient: email }).first("id")).id;
}

function reportOf(deliveryId: number, recipient: string) {
  return {
    deliveryId,
    feedbackAddress: null,
    mailFrom: "",
    clientAddress: "192.0.2.1",
    octets: failureReport(recipient),
  };
}
