import { z } from "zod";
import { ok, refuse } from "../../core/result.ts";
import { sentenceJson } from "../../platform/http/problem.ts";
import { findJob, type JobSummary, listJobs } from "../../store/jobs.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { pageLimit } from "../schemas.ts";

const error = sentenceJson.omit({ message: true }).extend({ line: z.int().optional(), msg: z.string() });
const jobSummary = z.object({
  job: z.string(),
  kind: z.string(),
  object: z.string(),
  owner: z.string(),
  state: z.enum(["running", "done", "failed"]),
  done: z.int(),
  total: z.int().nullable(),
  result: z.record(z.string(), z.unknown()).nullable(),
  failure: error.nullable().meta({ description: "why it failed as a whole" }),
  error_count: z.int(),
  created: z.string(),
  finished: z.string().nullable(),
});
const job = jobSummary.extend({ errors: z.array(error) });

/** Long work: what runs, and what came of it. */
export const makeJobEndpoints: MakeConsoleEndpoints = ({ db }) => [
  consoleEndpoint({
    method: "GET",
    path: "/jobs",
    summary: "Jobs of one's own scope, newest first",
    fields: z.object({ limit: pageLimit }),
    reply: z.object({ jobs: z.array(jobSummary) }),
    act: async ({ caller, fields }) => ok({ jobs: (await listJobs(db, caller, fields.limit)).map(showSummary) }),
  }),
  consoleEndpoint({
    method: "GET",
    path: "/jobs/:id",
    summary: "How far a job is, and what came of it",
    params: z.object({ id: z.uuid("job-id-form") }),
    reply: job,
    act: async ({ caller, params }) => {
      const found = await findJob(db, caller, params.id);
      return found ? ok({ ...showSummary(found), errors: [...found.errors] }) : refuse(problem("no-such-job"));
    },
  }),
];

function showSummary(of: JobSummary): z.input<typeof jobSummary> {
  const { kind, object, owner, state, done, total, failure } = of;
  return {
    ...{ job: of.id, kind, object, owner, state, done, total, failure, error_count: of.errorCount },
    result: of.result as Record<string, unknown> | null,
    created: of.createdAt.toISOString(),
    finished: of.finishedAt?.toISOString() ?? null,
  };
}
