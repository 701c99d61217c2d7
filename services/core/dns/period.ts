const SECONDS_OF_UNIT: Readonly<Record<string, number>> = { w: 604_800, d: 86_400, h: 3_600, m: 60, s: 1 };

/**
 * Seconds of a TTL or SOA time as a master file writes it: digits, or numbers with the units of BIND (`1h30m`).
 * @returns undefined when it is neither, or above `maximum`
 */
export function parsePeriodSeconds(text: string, maximum: number): number | undefined {
  if (/^\d{1,10}$/.test(text)) return Number(text) <= maximum ? Number(text) : undefined;
  if (!/^(?:\d{1,10}[wdhms])+$/i.test(text)) return undefined;
  let seconds = 0;
  for (const [, amount, unit] of text.toLowerCase().matchAll(/(\d+)([wdhms])/g)) {
    seconds += Number(amount) * SECONDS_OF_UNIT[unit!]!;
  }
  return seconds <= maximum ? seconds : undefined;
}
