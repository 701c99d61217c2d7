import type { Sentence } from "../core/sentences.ts";
import { type Db, queryRows, StatementValues } from "../platform/postgres/db.ts";
import { type ConsoleScope, visibleTo } from "./console/console-scope.ts";
import { deleteUnlocked } from "./transactions.ts";

export type JobState = "running" | "done" | "failed";

/** Something that went wrong in a job: a line that was not taken, or why the whole failed. */
export interface JobError extends Pick<Sentence, "code" | "values"> {
  readonly line?: number;
  /** The sentence in the words of the table. */
  readonly msg: string;
}

/** @param line of the file that the job reads, from 1 */
export function jobError({ code, values, message: msg }: Sentence, line?: number): JobError {
  return { ...(line === undefined ? {} : { line }), msg, code, values };
}

/** Long work of the console, as lists have it. */
export interface JobSummary {
  readonly id: string;
  /** What it does, such as `rpz-import`. */
  readonly kind: string;
  /** The login of who started it. */
  readonly owner: string;
  /** What it works on. */
  readonly object: string;
  readonly state: JobState;
  readonly done: number;
  /** Null while not known. */
  readonly total: number | null;
  readonly result: object | null;
  /** Why it failed as a whole; null where it did not. */
  readonly failure: JobError | null;
  readonly errorCount: number;
  readonly createdAt: Date;
  readonly finishedAt: Date | null;
}

/** With all that went wrong, which may be a quarter of a megabyte; why it failed comes last. */
export interface Job extends JobSummary {
  readonly errors: readonly JobError[];
}

/** What is new about a running job. */
export interface JobProgress {
  readonly done: number;
  readonly total: number | null;
}

/** How a job ended. */
export interface JobEnd extends JobProgress {
  readonly state: "done" | "failed";
  readonly result: object | null;
  readonly errors: readonly JobError[];
}

/** All times are the database's: the processes that run jobs watch each other by them. */
export async function addJob(
  db: Db,
  job: Pick<Job, "id" | "kind" | "owner" | "object" | "total"> & { readonly about: ConsoleScope },
): Promise<void> {
  await db("console_jobs").insert({
    id: job.id,
    kind: job.kind,
    owner: job.owner,
    object: job.object,
    total: job.total,
    scope_role: job.about.role,
    scope: job.about.scope,
    created_at: db.fn.now(),
    heartbeat_at: db.fn.now(),
  });
}

/** Notes how far a job is, and that its process lives. @returns false when somebody gave it up meanwhile */
export async function noteProgress(db: Db, id: string, { done, total }: JobProgress): Promise<boolean> {
  const changed = await db("console_jobs")
    .where({ id, state: "running" })
    .update({ done, total, heartbeat_at: db.fn.now() });
  return changed > 0;
}

export async function finishJob(db: Db, id: string, end: JobEnd): Promise<void> {
  await db("console_jobs")
    .where({ id, state: "running" })
    .update({
      state: end.state,
      done: end.done,
      total: end.total,
      result: end.result && JSON.stringify(end.result),
      errors: JSON.stringify(end.errors),
      finished_at: db.fn.now(),
    });
}

/** Marks jobs as failed whose process has not been heard of for so long. @returns how many */
export async function failSilentJobs(db: Db, silentSeconds: number, error: JobError): Promise<number> {
  return db("console_jobs")
    .where({ state: "running" })
    .whereRaw("heartbeat_at < now() - make_interval(secs => ?)", [silentSeconds])
    .update({ state: "failed", errors: JSON.stringify([error]), finished_at: db.fn.now() });
}

/** The jobs that a user may see, newest first. */
export async function listJobs(db: Db, reader: ConsoleScope, limit: number): Promise<JobSummary[]> {
  const values = new StatementValues(limit);
  const rows = await queryRows<JobRow<JobSummary>>(
    db,
    `select ${SUMMARY_COLUMNS} from console_jobs where ${visibleTo(reader, values)} order by created_at desc, id limit $1`,
    values.all,
  );
  return rows.map(jobOf);
}

export async function findJob(db: Db, reader: ConsoleScope, id: string): Promise<Job | undefined> {
  const values = new StatementValues(id);
  const [row] = await queryRows<JobRow<Job>>(
    db,
    `select ${SUMMARY_COLUMNS}, errors from console_jobs where id = $1::uuid and ${visibleTo(reader, values)}`,
    values.all,
  );
  return row && jobOf(row);
}

/** Deletes finished jobs: old ones, and those of a scope beyond its newest. */
export async function purgeJobs(
  db: Db,
  { before, mostOfScope }: { readonly before: Date; readonly mostOfScope: number },
): Promise<void> {
  await deleteUnlocked(
    db,
    { table: "console_jobs", key: "id" },
    `state <> 'running' and (created_at < $1 or id in (
       select id from (
         select id, row_number() over (partition by scope_role, scope order by created_at desc, id) as place
         from console_jobs where state <> 'running'
       ) newest where place > $2))`,
    [before, mostOfScope],
  );
}

const SUMMARY_COLUMNS = `id, kind, owner, object, state, done, total, result,
  case when state = 'failed' then errors->-1 end as failure, jsonb_array_length(errors) as error_count,
  created_at, finished_at`;

type JobRow<J extends JobSummary> = Omit<J, "errorCount" | "createdAt" | "finishedAt"> & {
  readonly error_count: number;
  readonly created_at: Date;
  readonly finished_at: Date | null;
};

function jobOf<J extends JobSummary>({ error_count, created_at, finished_at, ...job }: JobRow<J>) {
  return { ...job, errorCount: error_count, createdAt: created_at, finishedAt: finished_at };
}
