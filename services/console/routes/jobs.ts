import { z } from "zod";
import { ok, refuse } from "../../core/result.ts";
import { sentenceJson } from "../../platform/http/problem.ts";
import { findJob, type Job, listJobs } from "../../store/jobs.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { pageLimit } from "../schemas.ts";

const job = z.object({
  job: z.string(),
  kind: z.string(),
  object: z.string(),
  owner: z.string(),
  state: z.enum(["running", "done", "failed"]),
  done: z.int(),
  total: z.int().nullable(),
  result: z.record(z.string(), z.unknown()).nullable(),
  errors: z.array(sentenceJson.omit({ message: true }).extend({ line: z.int().optional(), msg: z.string() })),
  created: z.string(),
  finished: z.string().nullable(),
});

/** Long work: what runs, and what came of it. */
export const makeJobEndpoints: MakeConsoleEndpoints = ({ db }) => [
  consoleEndpoint({
    method: "GET",
    path: "/jobs",
    summary: "Jobs of one's own scope, newest first",
    fields: z.object({ limit: pageLimit }),
    reply: z.object({ jobs: z.array(job) }),
    act: async ({ caller, fields }) => ok({ jobs: (await listJobs(db, caller, fields.limit)).map(showJob) }),
  }),
  consoleEndpoint({
    method: "GET",
    path: "/jobs/:id",
    summary: "How far a job is, and what came of it",
    params: z.object({ id: z.uuid("job-id-form") }),
    reply: job,
    act: async ({ caller, params }) => {
      const found = await findJob(db, caller, params.id);
      return found ? ok(showJob(found)) : refuse(problem("no-such-job"));
    },
  }),
];

function showJob({ id, createdAt, finishedAt, result, errors, ...shown }: Job): z.input<typeof job> {
  return {
    ...shown,
    job: id,
    result: result as Record<string, unknown> | null,
    errors: [...errors],
    created: createdAt.toISOString(),
    finished: finishedAt?.toISOString() ?? null,
  };
}
