/**
 * What takes turns and has limits of its own: a destination as one pool of our addresses sees it, as `destination pool`, or the
 * destination alone for the default pool. Names compare as the pairs do, since no domain has a character below the blank.
 */
export type DestinationQueue = string;

/** In the place of a pool: all of them. */
export const ANY_POOL = "*";
/** The source of a back-off that goes for every source: there is no way to the destination. */
export const ANY_SOURCE = "*";
/** The source of all mail for which the system chooses the address. */
export const SYSTEM_SOURCE = "system";

/** @param pool that the mail leaves through; '' is the default one */
export function queueOf(destination: string, pool: string): DestinationQueue {
  return pool === "" ? destination : `${destination} ${pool}`;
}

/** The reverse of `queueOf`. */
export function splitQueue(queue: DestinationQueue): { readonly destination: string; readonly pool: string } {
  const blank = queue.indexOf(" ");
  return blank < 0
    ? { destination: queue, pool: "" }
    : { destination: queue.slice(0, blank), pool: queue.slice(blank + 1) };
}
