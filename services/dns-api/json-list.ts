/** A JSON array, piece by piece. @param pages of what it has */
export async function* jsonListPieces<T>(
  pages: AsyncIterable<readonly T[]> | Iterable<readonly T[]>,
  toJson: (item: T) => unknown,
): AsyncGenerator<string> {
  let separator = "[";
  for await (const page of pages) {
    if (page.length === 0) continue;
    yield separator + page.map((item) => JSON.stringify(toJson(item))).join(",");
    separator = ",";
  }
  yield separator === "[" ? "[]" : "]";
}
