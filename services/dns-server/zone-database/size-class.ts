/** Blocks up to this many octets have a size class for each multiple of 8. */
const SMALL_OCTETS = 512;
const SMALL_CLASSES = SMALL_OCTETS / 8;
/** Larger blocks are rounded up to an eighth of a power of two: at most 12.5 % waste. */
const LARGE_STEP_BITS = 3;
const LARGE_STEPS = 1 << LARGE_STEP_BITS;

/** How many there are: none is larger than a segment. */
export const CLASSES = SMALL_CLASSES + (31 - Math.log2(SMALL_OCTETS)) * LARGE_STEPS;

/** The smallest class whose blocks have at least so many octets. */
export function sizeClass(octets: number): number {
  if (octets <= SMALL_OCTETS) return Math.max(0, Math.ceil(octets / 8) - 1);
  const exponent = 31 - Math.clz32(octets - 1);
  const step = (octets - 1 - (1 << exponent)) >> (exponent - LARGE_STEP_BITS);
  return SMALL_CLASSES + (exponent - Math.log2(SMALL_OCTETS)) * LARGE_STEPS + step;
}

/** Octets of a block of a class. */
export function classSize(index: number): number {
  if (index < SMALL_CLASSES) return (index + 1) * 8;
  const exponent = Math.log2(SMALL_OCTETS) + Math.floor((index - SMALL_CLASSES) / LARGE_STEPS);
  const step = (index - SMALL_CLASSES) % LARGE_STEPS;
  return (1 << exponent) + (step + 1) * (1 << (exponent - LARGE_STEP_BITS));
}
