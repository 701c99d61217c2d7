import pg from "pg";

/** What waits for the table all the same goes on then, so that its test fails and does not hang. */
const LONGEST_MS = 20_000;

/** Lets nobody read a table until the work ends. */
export async function withTableHeld<T>(url: string, table: string, work: () => Promise<T>): Promise<T> {
  const holder = new pg.Client({ connectionString: url });
  await holder.connect();
  await holder.query(`begin; lock table ${table} in access exclusive mode`);
  const letGo = setTimeout(() => void holder.end(), LONGEST_MS);
  try {
    return await work();
  } finally {
    clearTimeout(letGo);
    await holder.end();
  }
}
