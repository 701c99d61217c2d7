/** Time as a parameter: whoever decides by time is handed one of these. */
export interface Clock {
  /** The present, as milliseconds since the epoch. */
  nowMs(): number;
}

export const systemClock: Clock = { nowMs: () => Date.now() };
