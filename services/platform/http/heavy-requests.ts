import type { IncomingMessage } from "node:http";
import type { Refusal } from "../../core/refusal.ts";
import { type Result, refuse } from "../../core/result.ts";
import { type Aside, FairTurns, type TurnLimits } from "../fair-turns.ts";
import type { Sharer } from "./endpoint.ts";
import { LastCallers } from "./last-callers.ts";
import { SlowBodies } from "./slow-bodies.ts";

/** A body above this takes long to read, to judge and to store, and memory meanwhile. */
const HEAVY_OCTETS = 64 * 1024;

/** How many large requests there may be at a time. */
export interface HeavyLimits {
  /**
   * Whose bodies are being read or worked on: what a client sends slowly holds up none but its own, and is ended when
   * all places are taken and another client waits for one.
   */
  readonly held: TurnLimits;
  /** That are judged and carried out; as many as are held where the operations have limits of their own. */
  readonly working?: TurnLimits & {
    /** Of one client beyond its own while nobody else asks for anything, small requests included. Looked at when one begins or ends. */
    readonly moreAlone?: number;
  };
}

const DEFAULT_LIMITS: HeavyLimits = { held: { atOnce: 12, perClient: 6, perGroup: 8 } };

/** More of one client's do not wait: their bodies are not read. */
const MOST_WAITING = 100;
const RETRY_AFTER_SECONDS = 5;

/**
 * Large requests in turn by caller, a few at a time, so that those of one caller take neither the memory of the process
 * nor the time of everybody else. Small ones pass by.
 */
export class HeavyRequests {
  readonly #held: FairTurns;
  readonly #working: FairTurns;
  readonly #callers: LastCallers;
  readonly #slow: SlowBodies;

  constructor({ held, working = held }: HeavyLimits = DEFAULT_LIMITS, callers = new LastCallers()) {
    this.#held = new FairTurns(held);
    this.#callers = callers;
    this.#slow = new SlowBodies(() => this.#held.needed());
    const { moreAlone = 0, ...limits }: NonNullable<HeavyLimits["working"]> = working;
    this.#working = new FairTurns({ ...limits, more: (client) => (callers.isAlone(client) ? moreAlone : 0) });
  }

  /**
   * @param read reads the body; its time is the client's
   * @param work does what is asked with the body; its time is ours, but for what it does aside
   */
  async run<Body, T>(
    { key: client, group }: Sharer,
    request: IncomingMessage,
    read: () => Promise<Result<Body, Refusal>>,
    work: (body: Body, aside: Aside) => Promise<Result<T, Refusal>>,
  ): Promise<Result<T, Refusal>> {
    this.#callers.begin(client);
    try {
      if (!isHeavyRequest(request)) return await readThen(read, work);
      if (this.#held.waitingOf(client) >= MOST_WAITING) {
        return refuse({ kind: "rate-limited", retryAfterSeconds: RETRY_AFTER_SECONDS });
      }
      // A body stays in memory until its work is done.
      const workInTurn = (body: Body) => this.#working.run(client, (aside) => work(body, aside), group);
      const hold = () => this.#slow.watch(request, () => readThen(read, workInTurn));
      return await this.#held.run(client, hold, group);
    } finally {
      this.#callers.end(client);
    }
  }
}

/** Reads a body, and works on it where that went well. What holds no place has none to leave. */
export async function readThen<Body, T>(
  read: () => Promise<Result<Body, Refusal>>,
  work: (body: Body, aside: Aside) => Promise<Result<T, Refusal>>,
): Promise<Result<T, Refusal>> {
  const body = await read();
  return body.ok ? work(body.value, (wait) => wait()) : body;
}

/** What has no length, or is compressed, may come to anything. */
function isHeavyRequest({ headers }: IncomingMessage): boolean {
  const isUnknown = headers["transfer-encoding"] !== undefined || headers["content-encoding"] !== undefined;
  return isUnknown || Number(headers["content-length"] ?? 0) > HEAVY_OCTETS;
}
