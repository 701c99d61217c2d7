import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { OutcomeWriter } from "../../../services/delivery/outcome-writer.ts";
import type { Db } from "../../../services/platform/postgres/db.ts";
import type { DeliveryOutcome } from "../../../services/store/mail/queue/deliveries.ts";

test("a window that is full at once, as what could not be stored goes on, is stored at once", async () => {
  let transactions = 0;
  let letGo = () => {};
  const isHeld = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const transaction = async () => {
    transactions += 1;
    if (transactions === 1) throw new Error("away");
    if (transactions === 2) await isHeld;
  };
  let flushMs = 0;
  const writer = new OutcomeWriter({
    db: { client: { config: {} }, transaction } as unknown as Db,
    workerId: "w",
    placeOf: (instanceId) => instanceId,
    window: () => ({ flushMs, flushOutcomes: 3 }),
    rule: { hardBouncesToInvalidate: 1 },
    attempts: undefined,
    observe: () => {},
  });
  const add = (instanceId: number) => writer.add({ instanceId } as DeliveryOutcome);
  add(1);
  await expect.poll(() => transactions).toBe(2);
  // Longer than this test waits.
  flushMs = 60_000;
  add(2);
  for (let n = 0; n < 3; n++) add(1);
  letGo();
  expect(await Promise.race([writer.drain(), sleep(5_000, "it waits")])).toBeUndefined();
  expect(transactions).toBe(4);
});
