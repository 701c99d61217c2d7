import { expect, it } from "vitest";
import { oneLargeFileAtATime } from "../../../services/dns-api/large-files.ts";

const LARGE = "x".repeat(4 * 2 ** 20);

it("works on large files one after the other, also after one that failed, while small ones pass", async () => {
  const steps: string[] = [];
  let breakFirst = () => {};
  const broken = new Promise<string>((_, reject) => {
    breakFirst = () => reject(new Error("broken"));
  });
  const work = (name: string, outcome: Promise<string>) => () => {
    steps.push(`${name} begins`);
    return outcome.finally(() => steps.push(`${name} ends`));
  };
  const failed = oneLargeFileAtATime(LARGE, work("first", broken));
  const second = oneLargeFileAtATime(LARGE, work("second", Promise.resolve("done")));
  expect(await oneLargeFileAtATime("small", work("small", Promise.resolve("passed")))).toBe("passed");
  breakFirst();
  await expect(failed).rejects.toThrow("broken");
  expect(await second).toBe("done");
  expect(steps.filter((step) => !step.startsWith("small"))).toEqual([
    "first begins",
    "first ends",
    "second begins",
    "second ends",
  ]);
});
