import { expect, test } from "vitest";
import { judgeContent } from "../../../services/core/mail/guard/content.ts";

const POLICY = { refuseScore: 15, holdScore: 10, markScore: 6, away: "hold" as const };
const scan = (score: number, rejected = false) => ({ score, rejected, symbols: {} });

test.each([
  [scan(5.9), "accept"],
  [scan(6), "mark"],
  [scan(9.99), "mark"],
  [scan(10), "hold"],
  [scan(15), "refuse"],
  [scan(-3, true), "refuse"],
  [undefined, "hold"],
])("%o: %s", (found, action) => {
  expect(judgeContent(found, POLICY).action).toBe(action);
});

test("a threshold that is null is never reached", () => {
  const none = { refuseScore: null, holdScore: null, markScore: null, away: "accept" as const };
  expect(judgeContent(scan(1_000), none).action).toBe("accept");
  expect(judgeContent(scan(0, true), none).action).toBe("refuse");
});
