import { describe, expect, test } from "vitest";
import { type JobSummary, jobOutcome } from "../../../../services/console/web/src/jobs/job.ts";

const of = (
  state: JobSummary["state"],
  result: JobSummary["result"],
  code?: NonNullable<JobSummary["failure"]>["code"],
) => jobOutcome({ state, result, failure: code === undefined ? null : { code, values: {}, msg: "" } });

describe("what came of a job", () => {
  test.each([
    ["a file without its column is refused", of("failed", null, "column-missing"), "refused"],
    ["what broke off has failed", of("failed", null, "job-interrupted"), "failed"],
    ["a bug has failed", of("failed", null, "internal"), "failed"],
    ["no line was taken", of("done", { created: 0, updated: 0, rejected: 3 }), "refused"],
    ["some lines were taken", of("done", { created: 1, updated: 0, rejected: 3 }), "done"],
    ["all was known already", of("done", { added: 0, duplicates: 4, rejected: 1 }), "done"],
    ["an empty file", of("done", { created: 0, updated: 0, rejected: 0 }), "done"],
    ["still at work", of("running", null), "running"],
  ])("%s", (_what, outcome, expected) => {
    expect(outcome).toBe(expected);
  });
});
