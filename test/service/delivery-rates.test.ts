import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import {
  accept,
  database,
  eventually,
  holdBatch,
  makeWorker,
  numbered,
  recipientsOf,
  routes,
  run,
  setUpDelivery,
  sink,
  untilSent,
} from "../support/delivery.ts";
import type { SmtpSink } from "../support/smtp-sink.ts";

setUpDelivery();

test("mail leaves from the addresses of its instance's pool, within the pool's limits", async () => {
  const from = new Map<string, number>();
  let open = 0;
  let most = 0;
  const far = await sink({
    onConnect: ({ remoteAddress }, done) => {
      from.set(remoteAddress, (from.get(remoteAddress) ?? 0) + 1);
      most = Math.max(most, ++open);
      done();
    },
    onClose: () => {
      open -= 1;
    },
  });
  const eeid = await accept(numbered(900, "pooled.example.net"));
  const addresses = ["127.0.0.9", "127.0.0.10"].map((address) => ({ address, weight: 1 }));
  const unlimited = { addresses: [], connections: null, messagesPerMinute: null };
  run(
    makeWorker(routes({ "pooled.example.net": far.port }), {
      pools: { default: unlimited, bulk: { addresses, connections: 3, messagesPerMinute: null } },
      poolOf: [{ instance: "test", pool: "bulk" }],
    }),
  );
  await untilSent(eeid);
  expect([...from.keys()].filter((address) => !["127.0.0.9", "127.0.0.10"].includes(address))).toEqual([]);
  expect(most).toBeLessThanOrEqual(3);
  expect(recipientsOf(far)).toHaveLength(900);
});

describe("a provider's messages a minute", () => {
  const PROVIDER = { id: 1, name: "big", domains: ["dead.example.net", "alive.example.net"], mxDomains: [] };
  const UNLIMITED = { connections: 9, messagesPerConnection: 100, messagesPerMinute: null };
  const RATE = 4;
  const groups = { default: UNLIMITED, big: { ...UNLIMITED, messagesPerMinute: RATE } };
  /** Within the minute: nothing comes back. */
  const frozen = { clock: { nowMs: () => 0 }, providers: [PROVIDER] };

  async function expectAllOfTheRate(far: SmtpSink): Promise<void> {
    await accept(numbered(RATE + 2, "alive.example.net"));
    await eventually(
      async () => far.messages.length,
      (count) => count === RATE,
    );
    await sleep(1_500);
    expect(far.messages).toHaveLength(RATE);
  }

  test("are not used up by a destination of it that is dead", async () => {
    const far = await sink();
    run(makeWorker(routes({ "dead.example.net": 1, "alive.example.net": far.port }), { groups }, [1], frozen));
    const eeid = await accept(numbered(3 * RATE, "dead.example.net"));
    await eventually(
      () => database.db("deliveries").min("attempts as least").first(),
      (found) => found!.least > 0,
    );
    await holdBatch(eeid);
    await expectAllOfTheRate(far);
  });

  test("are not used up by what its source's limit puts off", async () => {
    const far = await sink();
    const unlimited = { addresses: [], connections: null, messagesPerMinute: null };
    const worker = makeWorker(
      routes({ "alive.example.net": far.port }),
      {
        groups,
        pools: { default: unlimited, slow: { ...unlimited, messagesPerMinute: 1 } },
        poolOf: [{ instance: "test", campaign: 2, pool: "slow" }],
      },
      [1],
      frozen,
    );
    run(worker);
    for (let message = 0; message < RATE + 2; message += 1) {
      await accept(["slow@alive.example.net"], "<p>Hi</p>", false, [], 2);
    }
    await eventually(
      async () => far.messages.length,
      (count) => count === 1,
    );
    await sleep(2_500); // each is put off and taken again
    await expectAllOfTheRate(far);
  });
});
