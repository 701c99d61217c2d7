import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { readInstanceGuard } from "../../services/store/mail/guard/holds.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import type { ApiAnswer } from "../support/api-client.ts";
import { addTestInstance } from "../support/instances.ts";
import { MAIL_SERVICES, type MailStack, startMailStack, TEST_DOMAIN } from "../support/mail-stack.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";

const OFFERED_PER_SECOND = 10;
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
  const before = await sendEvenly(async () => void (await sleep(10_000)));
  const begunAtMs = performance.now();
  let heldAfterMs = Number.POSITIVE_INFINITY;
  const meanwhile = await sendEvenly(async () => {
    const contactos = Array.from({ length: MISDIRECTED }, (_, index) => ({
      email: `${index % 3 === 0 ? "reject+" : ""}v${index}@d${index % 50}.example.net`,
    }));
    const call = { campana_id: badNumid, email: true, html: "<p>Buy</p>", asunto: "Buy", contactos };
    expect((await stack.call("POST", "/envio/send_many_inline", call, BAD_KEY)).status).toBe(200);
    await eventually(isHeld(badId), (held) => held, PATIENCE_MS);
    heldAfterMs = performance.now() - begunAtMs;
    await sleep(10_000);
  });
  process.stdout.write(
    `held after ${(heldAfterMs / 1_000).toFixed(1)} s, where 60 are to be enough; the neighbour's mail: ` +
      `${before.toFixed(2)} a second before and ${meanwhile.toFixed(2)} meanwhile, where a twentieth less is to be the most\n`,
  );
  // How fast is for a quiet machine to say; nothing of the neighbour's stays behind on any.
  const undelivered = () =>
    stack.context
      .db("deliveries")
      .where({ instance_id: stack.instanceId })
      .whereNot({ state: "delivered" })
      .pluck("id");
  await eventually(undelivered, (ids) => ids.length === 0, PATIENCE_MS);
  expect(await isHeld(stack.instanceId)()).toBe(false);
}, 600_000);

const isHeld = (instanceId: number) => async () =>
  (await readInstanceGuard(stack.context.db, instanceId)).hold !== null;

/** The neighbour sends a message now and then while something goes on. @returns how many were delivered a second */
async function sendEvenly(meanwhile: () => Promise<void>): Promise<number> {
  const from = performance.now();
  let isOver = false;
  const over = meanwhile().finally(() => {
    isOver = true;
  });
  const countDelivered = async () => {
    const found = await stack.context
      .db("deliveries")
      .where({ instance_id: stack.instanceId, state: "delivered" })
      .count("* as delivered")
      .first();
    return Number(found!.delivered);
  };
  const before = await countDelivered();
  const calls: Promise<ApiAnswer>[] = [];
  for (let sent = 0; !isOver; sent++) {
    const message = { campana_id: numid, email: true, contacto: { email: `n${sent}@example.net` }, html: "<p>Hi</p>" };
    calls.push(stack.call("POST", "/envio/send_one_inline", { ...message, asunto: "Hi" }));
    await sleep(Math.max(0, from + ((sent + 1) * 1_000) / OFFERED_PER_SECOND - performance.now()));
  }
  await over;
  const delivered = (await countDelivered()) - before;
  const seconds = (performance.now() - from) / 1_000;
  for (const { status } of await Promise.all(calls)) expect(status).toBe(200);
  return delivered / seconds;
}
