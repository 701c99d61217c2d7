import { expect, test } from "vitest";
import { startHousekeeping } from "../../../services/delivery/housekeeping.ts";
import { systemClock } from "../../../services/platform/clock.ts";
import type { Observation } from "../../../services/platform/observability/observation.ts";
import type { Db } from "../../../services/platform/postgres/db.ts";

test("what fails is told, and what is still under way is waited for", async () => {
  const observed: Observation[] = [];
  let answer = () => {};
  const hanging = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const db = {
    raw: (sql: string) => {
      if (sql.includes("destination_backoffs")) return Promise.reject(new Error("away"));
      return hanging;
    },
    client: { acquireConnection: () => Promise.reject(new Error("away")) },
  } as unknown as Db;
  const housekeeping = startHousekeeping({
    ...{ db, clock: systemClock },
    observe: (observation) => observed.push(observation),
  });
  await expect
    .poll(() => observed.map((each) => each.kind === "maintenance-failed" && each.task).sort())
    .toEqual([...["back-offs", "report-counts", "sending-counts", "warm-ups"]]);
  let isStopped = false;
  const stopping = housekeeping.stop().then(() => {
    isStopped = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(isStopped).toBe(false);
  answer();
  await stopping;
});
