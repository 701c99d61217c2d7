/**
 * The outcome of something that may hang, or else what there is when the signal says that it is waited for no longer: it goes
 * on, but nobody hears of it.
 * @throws what `otherwise` throws, and what goes wrong before
 */
export async function unlessAborted<T>(running: Promise<T>, signal: AbortSignal, otherwise: () => T): Promise<T> {
  let giveUp: (() => void) | undefined;
  const given = new Promise<void>((resolve) => {
    giveUp = resolve;
    signal.addEventListener("abort", giveUp);
    if (signal.aborted) resolve();
  });
  try {
    return await Promise.race([running, given.then(otherwise)]);
  } finally {
    signal.removeEventListener("abort", giveUp!);
  }
}

/** How long something may take: so many milliseconds, and no longer than until `stop` is aborted. */
export interface TimeLimit {
  readonly limitMs: number;
  readonly stop?: AbortSignal | undefined;
}

/**
 * Tells work when its time is over. Signals of the platform that are joined do not: a time-out that only a joined signal
 * refers to is collected, and never comes.
 */
export async function withTime<T>({ limitMs, stop }: TimeLimit, work: (time: AbortSignal) => Promise<T>): Promise<T> {
  const time = new AbortController();
  const timer = setTimeout(() => time.abort(new Error(`no answer within ${limitMs} ms`)), limitMs);
  const end = () => time.abort(stop?.reason);
  stop?.addEventListener("abort", end);
  if (stop?.aborted) end();
  try {
    return await work(time.signal);
  } finally {
    clearTimeout(timer);
    stop?.removeEventListener("abort", end);
  }
}

/** The outcome of something that may hang, or something else where it takes longer. */
export function inTime<T>(running: Promise<T>, limitMs: number, otherwise: () => T): Promise<T> {
  return withTime({ limitMs }, (time) => unlessAborted(running, time, otherwise));
}

/** The outcome of something that may hang. @throws Error when it takes longer */
export function withDeadline<T>(running: Promise<T>, limitMs: number): Promise<T> {
  return withTime({ limitMs }, (time) =>
    unlessAborted(running, time, () => {
      throw time.reason;
    }),
  );
}
