import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { fewAtOnce } from "../../../services/platform/few-at-once.ts";

test("so many pieces are under way at once, and no more", async () => {
  let underWay = 0;
  const seen: number[] = [];
  await fewAtOnce([1, 2, 3, 4, 5], { pieces: 2 }, async () => {
    underWay += 1;
    seen.push(underWay);
    await sleep(1);
    underWay -= 1;
  });
  expect(seen).toEqual([1, 2, 2, 2, 2]);
});

test("the first failure comes when nothing is under way any more, and nothing is begun after it", async () => {
  const ended: string[] = [];
  const done = fewAtOnce(["slow", "fails", "never"], { pieces: 2 }, async (piece) => {
    if (piece === "slow") await sleep(50);
    if (piece === "fails") throw new Error("the first");
    ended.push(piece);
  });
  await expect(done).rejects.toThrow("the first");
  expect(ended).toEqual(["slow"]);
});
