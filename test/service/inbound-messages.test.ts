import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { Admission } from "../../services/bounce/admission.ts";
import { Intake } from "../../services/bounce/intake.ts";
import { loadInboundPolicy } from "../../services/bounce/policy.ts";
import { BounceWorker } from "../../services/bounce/worker.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import { addInboundMessages } from "../../services/store/mail/inbound/inbound.ts";
import { failureReport } from "../support/delivery-report.ts";
import { MAIL_SERVICES, type MailStack, startMailStack } from "../support/mail-stack.ts";
import { changeTriggers } from "../support/spread-tables.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";

const policy = loadInboundPolicy();
const dataDir = makeDataDir();
let stack: MailStack;
const observed: Observation[] = [];

beforeAll(async () => {
  stack = await startMailStack([MAIL_SERVICES.api], { PALOMAR_DATA_DIR: dataDir });
  Object.assign(stack.context, { observe: (observation: Observation) => observed.push(observation) });
});
afterAll(async () => {
  await stack?.stop();
  removeDataDir(dataDir);
});
beforeEach(async () => {
  observed.length = 0;
  await db()("inbound_messages").delete();
});

const db = () => stack.context.db;
const toldOf = (...kinds: Observation["kind"][]) => observed.filter(({ kind }) => kinds.includes(kind));

test("of a message for several each counts that was stored, and each is told of that was left out", async () => {
  const [full, other] = [await acceptMessage("full@example.net"), await acceptMessage("other@example.net")];
  const { returnPath } = policy;
  const one = { ...policy, returnPath: { ...returnPath, perDelivery: { ...returnPath.perDelivery, messages: 1 } } };
  const admission = new Admission({ db: db(), policy: one, mostOctets: 2 ** 20, isLimited: () => true });
  const counted = vi.spyOn(admission, "countStored");
  const intake = new Intake(stack.context, one, admission);
  const { octets } = messageFor(full);
  const message = { mailFrom: "", clientAddress: "192.0.2.1", octets };
  for (const targets of [[full], [full, other]]) {
    const each = targets.map((deliveryId) => ({ deliveryId }));
    expect(await intake.store(message, each, { isLimited: true })).toBe("stored");
  }
  expect(counted.mock.calls).toEqual(
    [full, other].map((about) => ["returnPath", { about, octets: octets.length, clientAddress: "192.0.2.1" }]),
  );
  expect(observed).toEqual([{ kind: "inbound-dropped", recipientClass: "returnPath", reason: "delivery" }]);
});

test("what PostgreSQL gives up and is done again is told of once, and takes one place of the sample", async () => {
  const [understood, strange] = [await acceptMessage("once@example.net"), await acceptMessage("strange@example.net")];
  await db().raw("create sequence given_up");
  await changeTriggers(
    db(),
    `create function give_up() returns trigger language plpgsql as $$
     begin
       if new.state = 'applied' and nextval('given_up') % 3 <> 0 then raise exception 'again' using errcode = '40001'; end if;
       return null;
     end $$`,
    `create constraint trigger give_up after update on inbound_messages deferrable initially deferred
       for each row execute function give_up()`,
  );
  await addInboundMessages(db(), [messageFor(understood, "once@example.net"), messageFor(strange)]);
  const worker = new BounceWorker(stack.context, {
    ...policy,
    unexplained: { ...policy.unexplained, messagesPerHour: 1 },
  });
  await eventually(
    () => db()("inbound_messages").whereNot({ state: "applied" }).select("id"),
    (left) => left.length === 0,
  );
  await worker.stop();
  await changeTriggers(db(), "drop trigger give_up on inbound_messages");
  expect(toldOf("inbound-applied", "inbound-dropped")).toMatchObject([
    { kind: "inbound-applied", deliveryId: understood, consequence: "bounce" },
    { kind: "inbound-applied", deliveryId: strange, consequence: "none" },
    { kind: "inbound-dropped", reason: "not-understood" },
  ]);
  expect(await db()("inbound_messages").orderBy("id").select("delivery_id", "attempts", "unexplained")).toEqual([
    { delivery_id: understood, attempts: 1, unexplained: null },
    { delivery_id: strange, attempts: 1, unexplained: "not-understood" },
  ]);
});

async function acceptMessage(email: string): Promise<number> {
  const sent = await stack.call("POST", "/envio/send_one_inline/", {
    campana_id: await stack.addCampaign(),
    email: true,
    contacto: { email },
    html: "<p>Hello</p>",
  });
  expect(sent.body.sent).toBe(1);
  return (await db()("deliveries").where({ recipient: email }).first("id")).id;
}

/** @param failed whom it says that the delivery failed for; nobody: it says nothing that is understood */
function messageFor(deliveryId: number, failed?: string) {
  const octets = failed === undefined ? Buffer.from("Subject: Hello\r\n\r\nJust words.\r\n") : failureReport(failed);
  return { deliveryId, feedbackAddress: null, mailFrom: "", clientAddress: "192.0.2.1", octets };
}
