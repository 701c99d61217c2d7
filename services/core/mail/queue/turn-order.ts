/** An instance that may be asked for mail. */
interface Candidate {
  readonly instanceId: number;
}

/** Instances in the order of their turns: by their ids, those behind the one that was served last first. */
export function inTurns<T extends Candidate>(ascending: readonly T[], after: number): T[] {
  return [
    ...ascending.filter(({ instanceId }) => instanceId > after),
    ...ascending.filter(({ instanceId }) => instanceId <= after),
  ];
}

/** Those that have the fewest partitions under way first, equal ones in the order given. */
export function leastBusyFirst<T extends Candidate>(turns: readonly T[], busyOf: (instanceId: number) => number): T[] {
  return turns.toSorted((one, other) => busyOf(one.instanceId) - busyOf(other.instanceId));
}

/**
 * The instance behind which the next look begins. It begins with the first that got less than was asked of it, so that it
 * finds slots then; whoever came first this time had all of them, and does not count. Where all got what was asked it begins
 * with those that were not asked, or, where all were, with the second one.
 * @param asked in the order of their turns
 */
export function lastWithItsTurn<T extends { readonly wasLeftShort: boolean }>(
  asked: readonly T[],
  wereAllAsked: boolean,
): T | undefined {
  const short = asked.findIndex(({ wasLeftShort }, index) => index > 0 && wasLeftShort);
  if (short > 0) return asked[short - 1];
  return wereAllAsked ? asked[0] : asked.at(-1);
}
