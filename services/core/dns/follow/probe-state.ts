/** What a deployment holds of one address of a pool's member. */
export interface ProbeState {
  readonly up: boolean;
  /** Since when; ms since the epoch. */
  readonly sinceMs: number;
  /** Times that it went down in the flapping that goes on; 0 after an hour of quiet. */
  readonly flaps: number;
  /** While it is down: since when nobody finds it so any more. */
  readonly wellSinceMs: number | undefined;
}

/** What one checking node says. */
export interface ProbeVerdict {
  readonly node: string;
  readonly up: boolean;
}

export interface ProbeJudgement {
  readonly state: ProbeState;
  /** When time by itself changes the state; ms since the epoch. */
  readonly changesAtMs?: number;
}

/** How long a flapping member is kept down at most, and after how much quiet its flaps are forgotten. */
const LONGEST_RECOVERY_MS = 3_600_000;
const QUIET_MS = 3_600_000;
/** What doubles where the recovery time is less. */
const LEAST_DOUBLED_MS = 1_000;

/**
 * The state of a member's address by what the nodes say. It goes down at once when enough of them find it so. It is up
 * again when they have not for its recovery time, which doubles each time it flaps, from a second on where it is none: so a
 * flapping member changes its zone a bounded number of times, some dozen in the first hour and two in each after that.
 * @param verdicts of nodes that are at work; without any the state stays
 */
export function judgeProbe(
  state: ProbeState,
  verdicts: readonly ProbeVerdict[],
  { recovery, quorum }: { readonly recovery: number; readonly quorum: number },
  nowMs: number,
): ProbeJudgement {
  if (verdicts.length === 0) return { state };
  const down = verdicts.filter(({ up }) => !up).length;
  const isDown = down * 100 >= quorum * verdicts.length;
  if (isDown) return { state: goDown(state, nowMs) };
  if (state.up) return { state };
  const wellSinceMs = state.wellSinceMs ?? nowMs;
  const isFlapping = state.flaps > 1;
  const baseMs = isFlapping ? Math.max(recovery * 1_000, LEAST_DOUBLED_MS) : recovery * 1_000;
  const holdMs = Math.min(baseMs * 2 ** Math.max(0, state.flaps - 1), LONGEST_RECOVERY_MS);
  const upAtMs = wellSinceMs + holdMs;
  if (nowMs >= upAtMs) return { state: { ...state, up: true, sinceMs: nowMs, wellSinceMs: undefined } };
  return { state: { ...state, wellSinceMs }, changesAtMs: upAtMs };
}

function goDown(state: ProbeState, nowMs: number): ProbeState {
  if (!state.up) return state.wellSinceMs === undefined ? state : { ...state, wellSinceMs: undefined };
  const flaps = nowMs - state.sinceMs > QUIET_MS ? 1 : state.flaps + 1;
  return { up: false, sinceMs: nowMs, flaps, wellSinceMs: undefined };
}
