import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { ServerQueue, type ZoneNews } from "../../../../services/dns-server/notify/server-queue.ts";

const news = (zone: string): ZoneNews => ({
  zone,
  apex: Buffer.alloc(1),
  soaTtlSeconds: 300,
  soaRdata: Buffer.alloc(22),
});

test("a server that was told of everything is idle, and not before", async () => {
  const told: string[] = [];
  await new Promise<void>((idle) => {
    const queue = new ServerQueue(
      async ({ zone }) => told.push(zone) > 0,
      { waitSeconds: [1], restMs: 0, inFlightPerServer: 1 },
      { givenUp: () => {}, idle },
    );
    queue.add(news("a"));
    queue.add(news("b"));
    queue.add(news("c"));
  });
  expect(told).toEqual(["a", "b", "c"]);
});

test("of a zone that changes again while it is told of, the newest version follows, and others first", async () => {
  const told: string[] = [];
  await new Promise<void>((idle) => {
    const queue = new ServerQueue(
      async ({ zone, soaTtlSeconds }) => {
        // When all that is added below is.
        await nextTurn();
        if (told.push(`${zone}${soaTtlSeconds}`) === 1) {
          queue.add({ ...news("a"), soaTtlSeconds: 301 });
          queue.add({ ...news("a"), soaTtlSeconds: 302 });
          queue.add({ ...news("c"), soaTtlSeconds: 303 });
        }
        return true;
      },
      { waitSeconds: [1], restMs: 0, inFlightPerServer: 1 },
      { givenUp: () => {}, idle },
    );
    queue.add(news("a"));
    queue.add(news("b"));
    queue.add(news("c"));
  });
  expect(told.slice(0, 3)).toEqual(["a300", "b300", "c303"]);
  expect(told.slice(3)).toEqual(["a302"]);
});

test("a turn costs the same however many zones wait", async () => {
  let told = 0;
  await new Promise<void>((idle) => {
    const queue = new ServerQueue(
      async () => {
        told += 1;
        return true;
      },
      { waitSeconds: [1], restMs: 0, inFlightPerServer: 8 },
      { givenUp: () => {}, idle: () => told === 200_000 && idle() },
    );
    for (let zone = 0; zone < 200_000; zone += 1) queue.add(news(`zone-${zone}`));
  });
  expect(told).toBe(200_000);
}, 60_000);
