import { expect, test } from "vitest";
import {
  accept,
  database,
  eventually,
  instanceId,
  makeWorker,
  numbered,
  recipientsOf,
  routes,
  run,
  setUpDelivery,
  sink,
} from "../support/delivery.ts";

setUpDelivery();

const RECIPIENTS = 90;
const BULK = Array.from({ length: 12 }, (_, index) => `d${index}.example.net`);

test.each([
  ["a lane, where all are at batches of its instance", "own.example.net"],
  ["a session, where its destination's are at them", BULK[0]!],
])("a message to one recipient soon has %s", async (_, destination) => {
  let taken = 0;
  const slow = await sink({
    onData: (stream, _session, done) => {
      stream.resume();
      stream.on("end", () => {
        taken += 1;
        setTimeout(done, 100);
      });
    },
  });
  const far = await sink();
  const ports = Object.fromEntries(BULK.map((name) => [name, slow.port]));
  const groups = { default: { connections: 1, messagesPerConnection: 1_000, messagesPerMinute: null } };
  await accept(BULK.flatMap((name) => numbered(RECIPIENTS, name)));
  const worker = run(makeWorker(routes({ "own.example.net": far.port, ...ports }), { lanes: 4, groups }));
  await eventually(
    async () => taken,
    (count) => count >= 8,
  );
  const before = taken;
  await accept([`one@${destination}`]);
  worker.wake([instanceId]);
  await eventually(
    () => database.db("deliveries").where({ recipient: `one@${destination}`, state: "delivered" }),
    ({ length }) => length === 1,
  );
  // The lanes take one partition each to its end unless they make room.
  expect(taken - before).toBeLessThan(2 * RECIPIENTS);
  expect(recipientsOf(far)).toHaveLength(destination === "own.example.net" ? 1 : 0);
});
