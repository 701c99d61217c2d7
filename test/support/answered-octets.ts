import pg from "pg";
import { vi } from "vitest";

/** Runs something. @returns what it gave, and the octets of data in the largest answer that the database gave meanwhile */
export async function withAnswers<T>(work: () => Promise<T>): Promise<{ readonly value: T; readonly largest: number }> {
  const query = vi.spyOn(pg.Client.prototype, "query");
  try {
    const value = await work();
    const answers = await Promise.all(query.mock.results.map((result) => result.value as unknown));
    return { value, largest: Math.max(...answers.map(octetsOf)) };
  } finally {
    query.mockRestore();
  }
}

function octetsOf(answer: unknown): number {
  const { rows = [] } = (answer ?? {}) as { readonly rows?: readonly object[] };
  const octets = (cell: unknown) => (Buffer.isBuffer(cell) ? cell.length : (JSON.stringify(cell)?.length ?? 0));
  return rows.flatMap((row) => Object.values(row).map(octets)).reduce((sum, one) => sum + one, 0);
}
