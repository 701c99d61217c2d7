/**
 * Does pieces of work a few at a time, in their order, with so many of what they ask for under way at once; one alone may
 * ask for more.
 */
export async function fewAtOnce<T>(
  pieces: readonly T[],
  most: { readonly pieces: number; readonly shares?: { of(piece: T): number; most(): number } },
  work: (piece: T) => Promise<void>,
): Promise<void> {
  const underWay = new Set<Promise<void>>();
  let shares = 0;
  for (const piece of pieces) {
    const share = most.shares?.of(piece) ?? 0;
    const isTooMuch = () => most.shares !== undefined && shares + share > most.shares.most();
    while (underWay.size >= most.pieces || (underWay.size > 0 && isTooMuch())) await Promise.race(underWay);
    shares += share;
    const done = work(piece).finally(() => {
      shares -= share;
      underWay.delete(done);
    });
    underWay.add(done);
  }
  await Promise.all(underWay);
}
