import { expect, test } from "vitest";
import { type CopyField, copyIn } from "../../services/store/copy-in.ts";
import { createTestDatabase } from "../support/database.ts";

test("rows that break off in the middle fail the transaction, and the connection serves the next", async () => {
  const database = await createTestDatabase(1);
  try {
    await database.db.raw("create table copied (id bigint)");
    function* rows(count: number): Generator<CopyField[]> {
      for (let id = 1; id <= count; id += 1) yield [{ int8: id }];
      if (count > 1) throw new Error("no more rows");
    }
    const copy = (count: number) =>
      database.db.transaction(async (transaction) => (await copyIn(transaction, "copied (id)", rows(count))).finished);
    // So few that none is on its way yet, and so many that most are.
    for (const count of [2, 100_000]) await expect(copy(count)).rejects.toThrow("no more rows");
    await copy(1);
    expect(await database.db("copied")).toEqual([{ id: 1 }]);
  } finally {
    await database.drop();
  }
});
