import { Counts } from "../../core/counts.ts";

/** A connection that may make room for a new one. */
export interface IdleConnection {
  /** Whose places count together: who has signed in, or the network of a stranger. */
  readonly holder: string;
  readonly isSignedIn: boolean;
  /** Nothing was heard or said for long; in the middle of a message nobody is at rest. */
  readonly isAtRest: boolean;
  readonly sinceMs: number;
}

/** How the places of a listener are taken. */
export interface TakenPlaces {
  readonly strangers: number;
  readonly all: number;
}

/** One in so many places is for strangers, who need some time to sign in. */
const STRANGERS_SHARE = 4;

/**
 * Who makes room first. Strangers at rest; then signed-in clients while strangers have less than their share, so that nobody
 * keeps others out by being signed in; else the strangers, so that they leave the other places to who has signed in. Among
 * these who is at rest, then who holds most places, then who has been idle longest.
 */
export function firstToGiveWay<T extends IdleConnection>(idle: readonly T[], taken: TakenPlaces): T | undefined {
  const held = new Counts<string>();
  for (const { holder } of idle) held.add(holder, 1);
  const givesFirst = taken.strangers * STRANGERS_SHARE < taken.all ? "signed in" : "stranger";
  const rankOf = ({ isSignedIn, isAtRest }: T) => {
    if (isAtRest && !isSignedIn) return 0;
    return isSignedIn === (givesFirst === "signed in") ? 1 : 2;
  };
  const compare = (one: T, other: T) =>
    rankOf(one) - rankOf(other) ||
    Number(other.isAtRest) - Number(one.isAtRest) ||
    held.of(other.holder) - held.of(one.holder) ||
    one.sinceMs - other.sinceMs;
  let first: T | undefined;
  for (const next of idle) if (!first || compare(next, first) < 0) first = next;
  return first;
}
