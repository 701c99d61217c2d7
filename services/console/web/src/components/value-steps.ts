/**
 * What may lie between two values beside a chart: nothing finer than what is shown of them, or two would read alike.
 * @param fractionDigits that are shown
 */
export function valueSteps(fractionDigits: number): number[] {
  const powers = Array.from({ length: 13 + fractionDigits }, (_, index) => index - fractionDigits);
  return powers.flatMap((power) => [1, 2, 5].map((step) => Number(`${step}e${power}`)));
}
