/** Who would like to have more of something that is scarce. */
interface Claim {
  /** What it has already. */
  readonly has: number;
  /** What it may have at most, that included. */
  readonly most: number;
}

/**
 * Shares what is free among claims so that those with the least come first, as water fills a vessel: none gets one more
 * while another has two fewer than it, unless that one has its most. Of equal ones the first come first.
 * @param free whole
 * @returns what each gets, in the order of the claims
 */
export function fairShares(claims: readonly Claim[], free: number): number[] {
  const level = waterLevel(claims, free);
  const shares = claims.map(({ has, most }) => Math.max(0, Math.min(level, most) - has));
  let left = free - shares.reduce((sum, share) => sum + share, 0);
  claims.forEach(({ has, most }, index) => {
    if (left === 0 || has > level || level >= most) return;
    shares[index]! += 1;
    left -= 1;
  });
  return shares;
}

/** The highest whole level to which everything can be filled. */
function waterLevel(claims: readonly Claim[], free: number): number {
  const used = (level: number) =>
    claims.reduce((sum, { has, most }) => sum + Math.max(0, Math.min(level, most) - has), 0);
  let low = 0;
  let high = claims.reduce((highest, { most }) => Math.max(highest, most), 0);
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (used(middle) <= free) low = middle;
    else high = middle - 1;
  }
  return low;
}
