import { randomUUID } from "node:crypto";
import { addAbortSignal, type Readable } from "node:stream";
import { Counts } from "../core/counts.ts";
import { type Refusal, sentenceOf } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import { sentence } from "../core/sentences.ts";
import { FairTurns, type TurnLimits } from "../platform/fair-turns.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import type { ConsoleScope } from "../store/console/console-scope.ts";
import {
  addJob,
  failSilentJobs,
  finishJob,
  type JobError,
  type JobProgress,
  jobError,
  noteProgress,
} from "../store/jobs.ts";
import type { Upload } from "./upload.ts";

/** What a job is told to the user as. */
export interface JobDescription {
  /** What it does, such as `rpz-import`. */
  readonly kind: string;
  /** What it works on: a name that the user knows. */
  readonly object: string;
  /** The login of who started it. */
  readonly owner: string;
  /** Whose it is: who else may see it. */
  readonly about: ConsoleScope;
  /** How much there is to do, when that is known. */
  readonly total?: number;
}

/** What a job tells of itself while it works. */
export interface JobReporter {
  /** So much is done; cheap to call, written now and then. */
  progress(done: number, total?: number): void;
  /** Something went wrong that does not end the job. Only the first MOST_ERRORS are kept. */
  problem(error: JobError): void;
  /** Aborted when the console stops: a long job should look at it. */
  readonly signal: AbortSignal;
}

/** Does the work. The result is what `GET /admin/v1/jobs/{id}` shows. */
export type JobWork = (reporter: JobReporter) => Promise<Result<object, Refusal>>;

const HEARTBEAT_MS = 2_000;
/** A job whose process has said nothing for so long is over. */
const SILENT_SECONDS = 20;
/** Of a job, that are kept. */
export const MOST_ERRORS = 1_000;
/** Who has begun as many ends one before the next. */
const MOST_UNFINISHED = 4;
/** They share this process, and the database. */
const WORKING: TurnLimits = { atOnce: 4, perClient: 2 };
const RETRY_AFTER_SECONDS = 10;
const STOP_GRACE_MS = 3_000;
const INTERRUPTED: JobError = jobError(sentence("job-interrupted"));

const whoseJob = ({ about: { role, scope } }: JobDescription) => `${role} ${scope}`;

/** Runs long work in this process, with what is known of it in the database: it can be left, and found again. */
export class JobRunner {
  readonly #db: Db;
  readonly #observe: Observe;
  readonly #abort = new AbortController();
  readonly #running = new Map<string, Promise<void>>();
  readonly #turns = new FairTurns(WORKING);
  /** By whose they are, with those whose file is still coming. */
  readonly #unfinished = new Counts<string>();

  constructor(db: Db, observe: Observe) {
    this.#db = db;
    this.#observe = observe;
  }

  /** Begins a job, which does its work when it is its turn. @returns its id, at once */
  async start(description: JobDescription, work: JobWork): Promise<string> {
    const id = randomUUID();
    const whose = whoseJob(description);
    await addJob(this.#db, { id, total: null, ...description });
    this.#unfinished.add(whose, 1);
    const inTurn: JobWork = (reporter) => this.#turns.run(whose, () => work(reporter));
    const run = this.#run(id, description, inTurn).finally(() => {
      this.#unfinished.add(whose, -1);
      this.#running.delete(id);
    });
    this.#running.set(id, run);
    return id;
  }

  /**
   * Takes an upload, and begins a job that reads it.
   * @returns the job's id; refused while the same scope has MOST_UNFINISHED, and then nothing of the upload is taken
   */
  async startWith(
    description: JobDescription,
    receive: () => Promise<Result<Upload, Refusal>>,
    work: (file: Readable, reporter: JobReporter) => ReturnType<JobWork>,
  ): Promise<Result<string, Refusal>> {
    const whose = whoseJob(description);
    if (this.#unfinished.of(whose) >= MOST_UNFINISHED) {
      return refuse({ kind: "rate-limited", retryAfterSeconds: RETRY_AFTER_SECONDS, ...sentence("jobs-unfinished") });
    }
    this.#unfinished.add(whose, 1);
    try {
      const received = await receive();
      if (!received.ok) return received;
      try {
        const read = (reporter: JobReporter) => work(addAbortSignal(reporter.signal, received.value.read()), reporter);
        return ok(await this.start(description, read));
      } catch (error) {
        await received.value.discard();
        throw error;
      }
    } finally {
      this.#unfinished.add(whose, -1);
    }
  }

  /** Marks jobs as interrupted whose process is gone. */
  async sweep(): Promise<void> {
    await failSilentJobs(this.#db, SILENT_SECONDS, INTERRUPTED);
  }

  /** Tells the running jobs to end, and marks those as interrupted that do not in time. */
  async stop(): Promise<void> {
    this.#abort.abort();
    const late = new Promise((resolve) => setTimeout(resolve, STOP_GRACE_MS).unref());
    await Promise.race([Promise.all(this.#running.values()), late]);
    for (const id of this.#running.keys()) {
      const end = { state: "failed", done: 0, total: null, result: null, errors: [INTERRUPTED] } as const;
      await finishJob(this.#db, id, end);
    }
  }

  async #run(id: string, { total = null }: { readonly total?: number | null }, work: JobWork): Promise<void> {
    const progress: { done: number; total: number | null } = { done: 0, total };
    const errors: JobError[] = [];
    /** Aborted when somebody has given the job up, as nobody could be told for long that it goes on. */
    const lost = new AbortController();
    const signal = AbortSignal.any([this.#abort.signal, lost.signal]);
    const reporter: JobReporter = {
      progress: (done, of) => {
        progress.done = done;
        if (of !== undefined) progress.total = of;
      },
      problem: (error) => {
        if (errors.length < MOST_ERRORS) errors.push(error);
      },
      signal,
    };
    const heartbeat = setInterval(() => this.#beat(id, progress, lost), HEARTBEAT_MS);
    try {
      const outcome = await work(reporter);
      if (!outcome.ok) errors.push(jobError(sentenceOf(outcome.error)));
      const [state, result] = outcome.ok ? (["done", outcome.value] as const) : (["failed", null] as const);
      clearInterval(heartbeat);
      await finishJob(this.#db, id, { ...progress, state, result, errors });
    } catch (err) {
      clearInterval(heartbeat);
      const interrupted = signal.aborted;
      if (!interrupted) this.#observe({ kind: "console-job-failed", level: "error", job: id, err });
      errors.push(interrupted ? INTERRUPTED : jobError(sentence("internal")));
      await finishJob(this.#db, id, { ...progress, state: "failed", result: null, errors }).catch(
        // With the database away nobody can be told; the sweep of whoever is there next will.
        (error) => this.#observe({ kind: "console-job-unsettled", level: "error", job: id, err: error }),
      );
    }
  }

  async #beat(id: string, progress: JobProgress, lost: AbortController): Promise<void> {
    try {
      if (!(await noteProgress(this.#db, id, progress))) lost.abort();
    } catch (err) {
      this.#observe({ kind: "console-job-heartbeat-failed", level: "warn", job: id, err });
    }
  }
}
