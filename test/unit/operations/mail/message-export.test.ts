import { expect, test } from "vitest";
import { exportMessages, readPlace, writePlace } from "../../../../services/operations/mail/message-export.ts";
import type { Db } from "../../../../services/platform/postgres/db.ts";
import type { Place } from "../../../../services/store/mail/explorer/candidates.ts";

test("an export without matches ends at the portion after its client has gone", async () => {
  const gone = new AbortController();
  let portions = 0;
  // The first is the plan; none of the others finds anything, and there is always more to look through.
  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (gone.signal.aborted) return work();
    portions += 1;
    if (portions === 5) gone.abort();
    return { messages: [], next: [portions] } as T;
  }
  const lines: string[] = [];
  for await (const line of exportMessages({} as Db, 1, {}, { inTurn, signal: gone.signal })) lines.push(line);
  expect(lines).toHaveLength(1);
  expect(portions).toBe(5);
});

test("an export whose client has gone before its turn asks the database nothing", async () => {
  const pieces = exportMessages({} as Db, 1, {}, { inTurn: (work) => work(), signal: AbortSignal.abort() });
  expect(await pieces.next()).toMatchObject({ value: expect.stringMatching(/^id,/) });
  expect(await pieces.next()).toEqual({ done: true, value: undefined });
});

test.each<Place>([
  [0],
  [1, 2],
  [Number.MAX_SAFE_INTEGER, 1],
  ["2026-02-28 23:59:59.123456+00", 1],
  ["2028-02-29 00:00:00-03", 1],
  ["2026-01-01 00:00:00+05:30", 1],
])("%j is a place", (...place) => {
  expect(readPlace(writePlace(place)!)).toEqual(place);
});

test.each([
  [[]],
  [[-1]],
  [[1.5]],
  [[1, 2, 3]],
  [["1", 2]],
  [["infinity", 1]],
  [["999999-12-31 00:00:00+00", 1]],
  [["0000-01-01 00:00:00+00", 1]],
  [["2026-99-99 00:00:00+00", 1]],
  [["2026-02-29 00:00:00+00", 1]],
  [["2026-01-01 99:99:00+99", 1]],
  [["2026-01-01 00:00:60+00", 1]],
  [["2026-01-01 00:00:00+99", 1]],
  [["2026-01-01 00:00:00+14:60", 1]],
  [["2026-01-01T00:00:00Z", 1]],
  [["2026-01-01 00:00:00.1234567+00", 1]],
  [["2026-01-01 00:00:00+00"]],
])("%j is no place", (made) => {
  expect(readPlace(Buffer.from(JSON.stringify(made)).toString("base64url"))).toBeUndefined();
});
