import { appendFile, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Spool, type SpoolPosition } from "../../../services/tracking/spool.ts";

interface Entry {
  readonly n: number;
  readonly text?: string;
}

const START: SpoolPosition = { segment: 0, offset: 0 };
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "palomar-spool-"));
});
afterEach(() => rm(folder, { recursive: true }));

/** All that is left from a position on, and where it ends. */
async function readAll(spool: Spool<Entry>, from = START): Promise<{ entries: number[]; end: SpoolPosition }> {
  const entries: number[] = [];
  let end = from;
  for (let batch = await spool.read(end); batch !== undefined; batch = await spool.read(end)) {
    entries.push(...batch.records.map(({ n }) => n));
    end = batch.next;
  }
  return { entries, end };
}

const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => from + index);

it("gives back what was appended, in order, once", async () => {
  const spool = await Spool.open<Entry>(folder);
  await Promise.all(numbers(0, 1_000).map((n) => spool.append({ n })));
  const first = await readAll(spool);
  expect(first.entries).toEqual(numbers(0, 1_000));
  expect(await spool.read(first.end)).toBeUndefined();
  await spool.append({ n: 1_000 });
  expect((await readAll(spool, first.end)).entries).toEqual([1_000]);
  await spool.close();
});

it("keeps what was acknowledged when its process ends without a word", async () => {
  const crashed = await Spool.open<Entry>(folder);
  await crashed.append({ n: 1 });
  const [segment] = (await readdir(folder)).filter((name) => name.endsWith(".spool"));
  await appendFile(join(folder, segment!), '{"n":2,"te');
  const spool = await Spool.open<Entry>(folder);
  expect(spool.id).toBe(crashed.id);
  await spool.append({ n: 3 });
  expect((await readAll(spool)).entries).toEqual([1, 3]);
  await crashed.close();
  await spool.close();
});

it("reads a spool larger than its batches and files, and removes what was read", async () => {
  const spool = await Spool.open<Entry>(folder);
  const text = "x".repeat(60_000);
  for (let start = 0; start < 700; start += 100) {
    await Promise.all(numbers(start, start + 100).map((n) => spool.append({ n, text })));
  }
  expect((await readdir(folder)).length).toBeGreaterThan(2);
  const { entries, end } = await readAll(spool);
  expect(entries).toEqual(numbers(0, 700));
  await spool.discardBefore(end);
  expect((await readdir(folder)).length).toBe(2);
  await spool.close();
});

it("goes on where it was left, in another process", async () => {
  const before = await Spool.open<Entry>(folder);
  await before.append({ n: 1 });
  await before.append({ n: 2 });
  const { end } = await readAll(before);
  await before.append({ n: 3 });
  await before.close();
  const after = await Spool.open<Entry>(folder);
  await after.append({ n: 4 });
  expect((await readAll(after, end)).entries).toEqual([3, 4]);
  await after.close();
});

it("skips lines that are no records", async () => {
  await writeFile(join(folder, "00000001.spool"), 'garbage\n{"n":1}\n\n\u0000\n{"n":2}\n');
  const spool = await Spool.open<Entry>(folder);
  expect((await readAll(spool)).entries).toEqual([1, 2]);
  await spool.close();
});

it("says so when it cannot write, and recovers", async () => {
  const spool = await Spool.open<Entry>(folder);
  await spool.append({ n: 1 });
  await rm(folder, { recursive: true });
  await spool.append({ n: 2 }); // the file is open: that it has no name any more, nobody notices
  await spool.close();
  await expect(spool.append({ n: 3 })).rejects.toThrow();
  await Spool.open<Entry>(folder).then((again) => again.close());
});
