import { Readable } from "node:stream";
import type { ReadableStream } from "node:stream/web";
import type { MessagePort, Worker } from "node:worker_threads";
import type { Refusal } from "../../core/refusal.ts";
import { ok, refuse } from "../../core/result.ts";
import { type Aside, FairTurns } from "../fair-turns.ts";
import type { Observation, Observe } from "../observability/observation.ts";
import { type Asked, carryOut, failureOf, type Outcome, type Surroundings } from "./carry-out.ts";
import type { Dialect } from "./dialect.ts";
import { type AnyEndpoint, RawReply } from "./endpoint.ts";

/** A body above this, in octets, is parsed and judged in the other thread. */
const LARGE_BODY_OCTETS = 64 * 1024;

/** When the thread has ended, whatever was being done there: the operator is told the reason, the client may come again. */
const UNANSWERED: Outcome = refuse({ kind: "unavailable" });

/** Thrown by an operation before it has changed anything: what is asked for takes long, and is for the other thread. */
export class TakesLong extends Error {
  override readonly name = "TakesLong";
}

interface ToThread {
  readonly id: number;
  readonly endpoint: string;
  readonly asked: Asked<unknown>;
}

/** A request may go on that waits aside: it has a place again. */
interface GoOn {
  readonly goOn: number;
}

type FromThread =
  /** A request waits for somebody else. */
  | { readonly kind: "aside"; readonly id: number }
  /** A request waits no longer. */
  | { readonly kind: "back"; readonly id: number }
  | { readonly kind: "answer"; readonly id: number; readonly answer: Answer }
  | { readonly kind: "observed"; readonly observation: Observation };

/** An outcome as it travels between threads. */
type Answer =
  | { readonly value: unknown }
  | { readonly refusal: Refusal }
  | { readonly raw: Pick<RawReply, "contentType" | "status" | "headers"> & { readonly body: string | Uint8Array } }
  | { readonly raw: Pick<RawReply, "contentType" | "status" | "headers">; readonly stream: ReadableStream };

interface Waiting {
  readonly aside: Aside;
  /** Called with the answer, or when there will be none. */
  settle(outcome: Outcome): void;
  /** While it waits aside: ends that. */
  back?: () => void;
}

/**
 * Carries requests out: small ones in this thread, and in another those that would keep it from all others for long.
 * The other thread begins with the first of them, and again after it has ended, whatever ended it.
 */
export class LargeRequests {
  readonly #open: () => Worker;
  readonly #observe: Observe;
  readonly #waiting = new Map<number, Waiting>();
  /** What is still being read of its answers. */
  readonly #streams = new Set<Readable>();
  #worker: Worker | undefined;
  #lastId = 0;

  /** @param open starts a thread that calls {@link serveLargeRequests} */
  constructor(open: () => Worker, observe: Observe) {
    this.#open = open;
    this.#observe = observe;
  }

  async carryOut<Caller>(
    declared: AnyEndpoint<Caller>,
    dialect: Pick<Dialect<Caller>, "judgedFields" | "queryFields">,
    asked: Asked<Caller>,
    surroundings: Surroundings,
  ): Promise<Outcome> {
    if (asked.body.length > LARGE_BODY_OCTETS) return this.#handOver(declared, asked, surroundings.aside);
    try {
      return await carryOut(declared, dialect, asked, surroundings);
    } catch (error) {
      if (!(error instanceof TakesLong)) throw error;
      return this.#handOver(declared, asked, surroundings.aside);
    }
  }

  /** Ends the thread after what it has to do; what it still does then is lost. */
  async stop(): Promise<void> {
    const worker = this.#worker;
    if (!worker) return;
    const ended = new Promise((resolve) => worker.once("exit", resolve));
    worker.postMessage("stop");
    await ended;
  }

  #handOver(declared: AnyEndpoint<never>, asked: Asked<unknown>, aside: Aside): Promise<Outcome> {
    this.#worker ??= this.#start();
    this.#lastId += 1;
    const id = this.#lastId;
    const message: ToThread = { id, endpoint: keyOf(declared), asked };
    const { buffer, length } = asked.body;
    // A buffer of its own goes over as it is; others lie in one that is shared.
    const transferred = buffer instanceof ArrayBuffer && buffer.byteLength === length ? [buffer] : [];
    this.#worker.postMessage(message, transferred);
    return new Promise((settle) => this.#waiting.set(id, { aside, settle }));
  }

  #start(): Worker {
    const worker = this.#open();
    let failure = new Error("the thread of large requests has ended");
    worker.on("message", (message: FromThread) => {
      if (message.kind === "observed") return this.#observe(message.observation);
      const waiting = this.#waiting.get(message.id)!;
      if (message.kind === "aside") void this.#stepAside(worker, message.id, waiting);
      else if (message.kind === "back") waiting.back!();
      else this.#settle(message.id, waiting, outcomeOf(message.answer));
    });
    worker.on("error", (error) => {
      failure = error;
      this.#observe({ kind: "large-requests-failed", level: "error", err: error });
    });
    worker.once("exit", () => {
      this.#worker = undefined;
      for (const [id, waiting] of this.#waiting) {
        // Who waits aside has a place to come back to first.
        if (waiting.back) waiting.back();
        else this.#settle(id, waiting, UNANSWERED);
      }
      for (const stream of this.#streams) stream.destroy(failure);
    });
    return worker;
  }

  /** Others have the request's place until what it waits for is there. */
  async #stepAside(worker: Worker, id: number, waiting: Waiting): Promise<void> {
    await waiting.aside(() => new Promise<void>((back) => Object.assign(waiting, { back })));
    delete waiting.back;
    if (this.#worker === worker) worker.postMessage({ goOn: id } satisfies GoOn);
    else this.#settle(id, waiting, UNANSWERED);
  }

  #settle(id: number, { settle }: Waiting, outcome: Outcome): void {
    this.#waiting.delete(id);
    if (outcome.ok && outcome.value instanceof RawReply) this.#follow(outcome.value.body);
    settle(outcome);
  }

  #follow(body: RawReply["body"]): void {
    if (!(body instanceof Readable)) return;
    this.#streams.add(body);
    body.once("close", () => this.#streams.delete(body));
  }
}

/** What a thread serves requests with. */
export interface LargeRequestsService<Caller> {
  readonly dialect: Dialect<Caller>;
  readonly endpoints: readonly AnyEndpoint<Caller>[];
  /** Ends what the endpoints have begun. */
  stop(): Promise<void>;
}

/**
 * The thread's side of {@link LargeRequests}.
 * @param start is given what its observations go through, to where the others of the service go
 * @returns when the other side wants it to end
 */
export async function serveLargeRequests(
  port: MessagePort,
  // biome-ignore lint/suspicious/noExplicitAny: callers are what the endpoints of the service take them for
  start: (observe: Observe) => Promise<LargeRequestsService<any>>,
): Promise<void> {
  const observe = (observation: Observation) => {
    try {
      tell({ kind: "observed", observation });
    } catch (error) {
      // Some detail cannot leave the thread: that something happened is told all the same, and who observes goes on.
      const { kind: of, level = "error" } = observation;
      const reason = (error as Error).message;
      tell({ kind: "observed", observation: { kind: "observation-not-told", level, of, reason } });
    }
  };
  const starting = start(observe).then((service) => ({
    service,
    byKey: new Map(service.endpoints.map((declared) => [keyOf(declared), declared])),
  }));
  const away = new AwayRequests(tell);
  const judgements = new FairTurns({ atOnce: 1, perClient: 1 });
  const stopped = new Promise<void>((resolve) => {
    port.on("message", (message: ToThread | GoOn | "stop") => {
      if (message === "stop") resolve();
      else if ("goOn" in message) away.goOn(message.goOn);
      else void answer(message);
    });
  });
  const { service } = await starting;
  await stopped;
  await service.stop();

  async function answer({ id, endpoint, asked }: ToThread): Promise<void> {
    const { service, byKey } = await starting;
    const { buffer, byteOffset, length } = asked.body;
    // A Buffer arrives as the Uint8Array that it is.
    const body = Buffer.from(buffer, byteOffset, length);
    const aside = <T>(wait: () => Promise<T>) => away.stepAside(id, wait);
    const surroundings = { aside, judgements };
    const outcome = await carryOut(byKey.get(endpoint)!, service.dialect, { ...asked, body }, surroundings).catch(
      (error) => refuse(failureOf(error, observe, asked)),
    );
    const answered = answerOf(outcome);
    try {
      tell({ kind: "answer", id, answer: answered }, "stream" in answered ? [answered.stream] : []);
    } catch (error) {
      tell({ kind: "answer", id, answer: { refusal: failureOf(error, observe, asked) } });
    }
  }

  function tell(message: FromThread, transferred: readonly ReadableStream[] = []): void {
    port.postMessage(message, transferred as never);
  }
}

/** The thread's requests that wait aside, or for a place again. */
class AwayRequests {
  readonly #tell: (message: FromThread) => void;
  readonly #goOn = new Map<number, () => void>();

  constructor(tell: (message: FromThread) => void) {
    this.#tell = tell;
  }

  async stepAside<T>(id: number, wait: () => Promise<T>): Promise<T> {
    this.#tell({ kind: "aside", id });
    try {
      return await wait();
    } finally {
      const hasPlace = new Promise<void>((goOn) => this.#goOn.set(id, goOn));
      this.#tell({ kind: "back", id });
      await hasPlace;
      this.#goOn.delete(id);
    }
  }

  goOn(id: number): void {
    this.#goOn.get(id)!();
  }
}

function keyOf({ method, path }: Pick<AnyEndpoint<never>, "method" | "path">): string {
  return `${method} ${path}`;
}

function answerOf(outcome: Outcome): Answer {
  if (!outcome.ok) return { refusal: outcome.error };
  const { value } = outcome;
  if (!(value instanceof RawReply)) return { value };
  const { contentType, status, headers, body } = value;
  const raw = { contentType, status, headers };
  return body instanceof Readable ? { raw, stream: Readable.toWeb(body) } : { raw: { ...raw, body } };
}

function outcomeOf(answer: Answer): Outcome {
  if ("refusal" in answer) return refuse(answer.refusal);
  if ("value" in answer) return ok(answer.value);
  const { contentType, status, headers } = answer.raw;
  return ok(new RawReply(contentType, bodyOf(answer), status, headers));
}

function bodyOf(answer: Extract<Answer, { raw: unknown }>): RawReply["body"] {
  if ("stream" in answer) return Readable.fromWeb(answer.stream);
  const { body } = answer.raw;
  return typeof body === "string" ? body : Buffer.from(body);
}
