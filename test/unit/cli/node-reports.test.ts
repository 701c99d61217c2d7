import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { startNodeReports } from "../../../services/cli/node-reports.ts";
import { makeLogger } from "../../../services/platform/observability/logger.ts";
import type { Db } from "../../../services/platform/postgres/db.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("a report that takes long has none waiting behind it, and the goodbye comes after it", async () => {
  const begun: (() => void)[] = [];
  const supervisor = {
    states: [],
    collectMetrics: () => new Promise<[]>((resolve) => begun.push(() => resolve([]))),
  };
  const statements: string[] = [];
  const connection = {
    query: async ({ text }: { readonly text: string }) => ({ rows: [], said: statements.push(text) }),
  };
  const client = { acquireConnection: async () => connection, releaseConnection: async () => {} };
  const reports = startNodeReports("one", {
    db: { client } as unknown as Db,
    supervisor,
    logger: makeLogger("test", "silent"),
  });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(begun).toHaveLength(1);
  const stopped = reports.stop();
  begun[0]!();
  await vi.advanceTimersByTimeAsync(60_000);
  await stopped;
  expect(begun).toHaveLength(1);
  expect(statements.map((text) => text.slice(0, 17))).toEqual([
    "insert into nodes",
    "delete from nodes",
    "delete from nodes",
  ]);
  expect(statements.at(-1)).toBe("delete from nodes where node = $1");
});
