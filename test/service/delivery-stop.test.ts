import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { MAIL_SERVICES, type MailStack, startMailStack } from "../support/mail-stack.ts";
import { listWaiting } from "../support/spread-tables.ts";
import { eventually } from "../support/stack.ts";

let stack: MailStack;
let numid: number;

beforeAll(async () => {
  stack = await startMailStack([MAIL_SERVICES.api, MAIL_SERVICES.sandbox]);
  numid = await stack.addCampaign();
});
afterAll(() => stack?.stop());

const send = (email: string) =>
  stack.call("POST", "/envio/send_one_inline/", {
    ...{ campana_id: numid, email: true, contacto: { email }, html: "<p>Hi</p>", asunto: "Hi" },
  });

test("the worker stops at once, although something else of the process takes longer", async () => {
  const { db } = stack.context;
  const blocker = await db.transaction();
  // Housekeeping waits for it, and so does the end of the service.
  await blocker.raw("lock table destination_backoffs in share mode");
  try {
    const delivery = await stack.run(MAIL_SERVICES.delivery);
    await send("before@example.net");
    await eventually(
      () => stack.inbox("before@example.net"),
      (found) => found.length === 1,
    );
    await eventually(
      () => listWaiting(db),
      (waiting) => waiting.length > 0,
    );
    let isStopped = false;
    const stopping = delivery.stop().then(() => {
      isStopped = true;
    });
    await sleep(500);
    expect((await send("after@example.net")).status).toBe(200);
    await sleep(1_500);
    expect(await stack.inbox("after@example.net")).toEqual([]);
    expect(isStopped).toBe(false);
    await blocker.commit();
    await stopping;
  } finally {
    if (!blocker.isCompleted()) await blocker.rollback();
  }
});
