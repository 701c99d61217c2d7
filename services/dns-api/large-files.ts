import type { ZoneBounds } from "../core/dns/zone-file.ts";

/** What a zone file may come to here, where others wait beside it; the operator's command knows no bounds. */
export const ZONE_FILE_BOUNDS: ZoneBounds = { records: 1_250_000, octets: 128 * 2 ** 20 };

/** A file of so many characters takes hundreds of megabytes while it is worked on. */
const LARGE_FILE_CHARACTERS = 4 * 2 ** 20;

let lastLarge: Promise<unknown> = Promise.resolve();

/** Works on large files one after the other, in the order of their coming; small ones do not wait. */
export function oneLargeFileAtATime<T>(text: string, work: () => Promise<T>): Promise<T> {
  if (text.length < LARGE_FILE_CHARACTERS) return work();
  const turn = lastLarge.then(work, work);
  lastLarge = turn;
  return turn;
}
