import { afterAll, beforeAll, expect, it } from "vitest";
import { readInstanceGuard } from "../../services/store/mail/guard/holds.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { addTestInstance } from "../support/instances.ts";
import { MAIL_SERVICES, type MailStack, startMailStack, TEST_DOMAIN } from "../support/mail-stack.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";

/** Recipients of whoever misbehaves, one in three of which there is not. */
const MISDIRECTED = 6_000;

/** On a machine that has other work. */
const PATIENCE_MS = 180_000;

const dataDir = makeDataDir();
let stack: MailStack;
let numid: number;
let badId: number;
let badNumid: number;
const BAD_KEY = { Authorization: "key-of-bad" };

beforeAll(async () => {
  // Where mail goes to the sandbox nobody is judged unless it is said.
  stack = await startMailStack(Object.values(MAIL_SERVICES), { PALOMAR_DATA_DIR: dataDir, PALOMAR_GUARD: "on" });
  numid = await stack.addCampaign();
  const bad = { name: "bad", host: "bad.test", key: "key-of-bad", archive: false, domains: [TEST_DOMAIN] };
  await addTestInstance(stack.context.db, stack.context.keyRing, bad);
  badId = (await findInstanceByName(stack.context.db, "bad"))!.id;
  badNumid = await stack.addCampaign({}, BAD_KEY);
}, 120_000);
afterAll(async () => {
  await stack?.stop();
  removeDataDir(dataDir);
});

it("an instance that writes to nobody is held, and its neighbour's mail goes on", async () => {
  const contactos = Array.from({ length: MISDIRECTED }, (_, index) => ({
    email: `${index % 3 === 0 ? "reject+" : ""}v${index}@d${index % 50}.example.net`,
  }));
  const call = { campana_id: badNumid, email: true, html: "<p>Buy</p>", asunto: "Buy", contactos };
  expect((await stack.call("POST", "/envio/send_many_inline", call, BAD_KEY)).status).toBe(200);
  const isBadHeld = isHeld(badId);
  const deadlineMs = performance.now() + PATIENCE_MS;
  let meanwhile = 0;
  for (let sent = 0; !(await isBadHeld()); sent += 1) {
    expect(performance.now()).toBeLessThan(deadlineMs);
    await deliverOne(sent);
    if (!(await isBadHeld())) meanwhile += 1;
  }
  // All that was wrong was queued before: none of these came through by waiting for the end of it.
  expect(meanwhile).toBeGreaterThan(0);
  await deliverOne(meanwhile + 2);
  expect(await isHeld(stack.instanceId)()).toBe(false);
}, 600_000);

const isHeld = (instanceId: number) => async () =>
  (await readInstanceGuard(stack.context.db, instanceId)).hold !== null;

/** The neighbour sends a message, and waits until it is delivered. */
async function deliverOne(number: number): Promise<void> {
  const message = { campana_id: numid, email: true, contacto: { email: `n${number}@example.net` }, html: "<p>Hi</p>" };
  expect((await stack.call("POST", "/envio/send_one_inline", { ...message, asunto: "Hi" })).status).toBe(200);
  const undelivered = () =>
    stack.context
      .db("deliveries")
      .where({ instance_id: stack.instanceId })
      .whereNot({ state: "delivered" })
      .pluck("id");
  await eventually(undelivered, (ids) => ids.length === 0, PATIENCE_MS);
}
