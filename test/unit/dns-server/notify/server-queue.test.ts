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
