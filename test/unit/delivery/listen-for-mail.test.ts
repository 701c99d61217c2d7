import { EventEmitter } from "node:events";
import type pg from "pg";
import { expect, test } from "vitest";
import { listenForMail } from "../../../services/delivery/listen-for-mail.ts";
import type { Observation } from "../../../services/platform/observability/observation.ts";

/** A connection that ends when it is told to. */
class FakeClient extends EventEmitter {
  query = async () => ({});
  end = async () => {};
}

async function timeOf(work: () => Promise<void>): Promise<number> {
  const since = performance.now();
  await work();
  return performance.now() - since;
}

test("tells what notices call for, and all of it after its connection was lost; stops at once", async () => {
  const clients: FakeClient[] = [];
  const openListenConnection = async () => {
    clients.push(new FakeClient());
    return clients.at(-1) as unknown as pg.Client;
  };
  const heard: unknown[] = [];
  const observed: Observation[] = [];
  const listening = listenForMail(
    { openListenConnection, observe: (observation) => observed.push(observation) },
    { onMail: (instanceIds) => heard.push(instanceIds), onStop: () => heard.push("stop") },
  );
  await expect.poll(() => heard).toEqual(["stop", "all"]);
  for (const payload of ["7 8", "", "stop"]) clients[0]!.emit("notification", { payload });
  expect(heard.splice(0)).toEqual(["stop", "all", [7, 8], "all", "stop"]);
  clients[0]!.emit("end");
  await expect.poll(() => heard).toEqual(["stop", "all"]);
  expect(observed).toEqual([]);
  clients[1]!.emit("error", new Error("lost"));
  await expect.poll(() => observed).toMatchObject([{ kind: "queue-notices-lost", level: "warn" }]);
  await expect.poll(() => clients.length).toBe(3);
  const tookMs = [await timeOf(() => listening.stop())];
  // One that is held up says nothing: who rested before the end would do so each time.
  while (tookMs.at(-1)! > 500 && tookMs.length < 10) {
    const another = listenForMail({ openListenConnection, observe: () => {} }, { onMail: () => {}, onStop: () => {} });
    tookMs.push(await timeOf(() => another.stop()));
  }
  expect(Math.min(...tookMs)).toBeLessThan(500);
});
