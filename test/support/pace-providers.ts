/** Models of providers: what they take of one source, second by second, and what they say about the rest. */

/** What became of the messages of one second. */
export interface Answer {
  readonly taken: number;
  /** Of the refusals; they go for all of the second that was not taken. */
  readonly refusal: string;
}

export interface ProviderModel {
  readonly name: string;
  /** A provider that remembers nothing yet. */
  make(): ModelledProvider;
}

export interface ModelledProvider {
  /** @param sessions over which the messages come */
  offer(nowMs: number, messages: number, sessions: number): Answer;
  /** Messages that it would have taken in a second. */
  capacity(nowMs: number): number;
}

const HOUR_MS = 3_600_000;
const SLOW_DOWN = "421 4.7.28 too much mail from your address";

/** So much an hour, evenly; what is not used is saved for a while. */
export function leaky(
  name: string,
  limitAt: (ms: number) => number,
  { savedSeconds = 10, refusal = SLOW_DOWN }: { readonly savedSeconds?: number; readonly refusal?: string } = {},
): ProviderModel {
  const capacity = (nowMs: number) => limitAt(nowMs) / 3_600;
  return {
    name,
    make: () => {
      let room = 0;
      return {
        capacity,
        offer: (nowMs, messages) => {
          room = Math.min(Math.max(1, capacity(nowMs) * savedSeconds), room + capacity(nowMs));
          const taken = Math.min(messages, Math.floor(room));
          room -= taken;
          return { taken, refusal };
        },
      };
    },
  };
}

/** So much in each minute or hour of the clock, in one go or evenly. */
export function windowed(name: string, most: number, windowMs: number, refusal = SLOW_DOWN): ProviderModel {
  return {
    name,
    make: () => {
      let window = -1;
      let left = 0;
      return {
        capacity: () => (most * 1_000) / windowMs,
        offer: (nowMs, messages) => {
          const current = Math.floor(nowMs / windowMs);
          if (current !== window) left = most;
          window = current;
          const taken = Math.min(messages, left);
          left -= taken;
          return { taken, refusal };
        },
      };
    },
  };
}

/** So many sessions at once, each for its part of the messages; what comes over more is refused. */
export function fewSessions(name: string, most: number, perSession: number): ProviderModel {
  return {
    name,
    make: () => ({
      capacity: () => most * perSession,
      offer: (_, messages, sessions) => ({
        taken: sessions <= most ? messages : Math.floor((messages * most) / sessions),
        refusal: "421 4.7.0 too many connections from your address",
      }),
    }),
  };
}

/** Refuses what it does not know yet, and takes it when it comes again. */
export function greylisting(name: string, delayMs: number, perSecond: number): ProviderModel {
  return {
    name,
    make: () => {
      const due: { readonly atMs: number; count: number }[] = [];
      return {
        capacity: () => perSecond,
        offer: (nowMs, messages) => {
          let taken = 0;
          while (due[0] !== undefined && due[0].atMs <= nowMs && taken < messages) {
            const some = Math.min(due[0].count, messages - taken);
            due[0].count -= some;
            taken += some;
            if (due[0].count === 0) due.shift();
          }
          if (messages > taken) due.push({ atMs: nowMs + delayMs, count: messages - taken });
          return { taken, refusal: "450 4.2.0 Greylisted, see you soon" };
        },
      };
    },
  };
}

/** Of day and night: which of two limits goes. */
export const dayAndNight = (day: number, night: number) => (ms: number) => ((ms / HOUR_MS) % 24 < 12 ? day : night);
