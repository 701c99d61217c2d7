/**
 * Does pieces of work a few at a time, in their order, with so many of what they ask for under way at once; one alone may
 * ask for more. When one fails no other is begun: nothing of it is under way any more when it is over.
 * @throws the first failure, when all that were under way have ended
 */
export async function fewAtOnce<T>(
  pieces: readonly T[],
  most: { readonly pieces: number; readonly shares?: { of(piece: T): number; most(): number } },
  work: (piece: T) => Promise<void>,
): Promise<void> {
  const underWay = new Set<Promise<void>>();
  const failures: unknown[] = [];
  let shares = 0;
  for (const piece of pieces) {
    const share = most.shares?.of(piece) ?? 0;
    const isTooMuch = () => most.shares !== undefined && shares + share > most.shares.most();
    while (underWay.size >= most.pieces || (underWay.size > 0 && isTooMuch())) await Promise.race(underWay);
    if (failures.length > 0) break;
    shares += share;
    const done = work(piece)
      .catch((error: unknown) => void failures.push(error))
      .finally(() => {
        shares -= share;
        underWay.delete(done);
      });
    underWay.add(done);
  }
  await Promise.all(underWay);
  if (failures.length > 0) throw failures[0];
}
