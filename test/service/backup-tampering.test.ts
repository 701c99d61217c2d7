import { randomBytes } from "node:crypto";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it, test } from "vitest";
import { BACKUP_VERSION, BackupRefused, PREAMBLE_OCTETS } from "../../services/core/backup-format.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { queryRows } from "../../services/platform/postgres/db.ts";
import { verifyBackup } from "../../services/store/backup-content.ts";
import { backUp, cutFrames, restoreFrom, streamOf } from "../support/backups.ts";
import { createEmptyDatabase, createLocalDatabase, type TestDatabase } from "../support/database.ts";
import { fc } from "../support/property.ts";

const SECRET = "the deployment's own secret";
const KEY_RING = KeyRing.ofSecret(SECRET);
const OTHER = KeyRing.ofSecret("the secret of another deployment");

let source: TestDatabase;
let backup: Buffer;
let later: Buffer;
let ofOthers: Buffer;

beforeAll(async () => {
  source = await createLocalDatabase(2);
  // Octets that do not compress, so that there are frames to take apart.
  for (let row = 0; row < 10; row += 1) {
    const value = randomBytes(100_000).toString("hex");
    await queryRows(source.db, "insert into deployment_facts (name, value) values ($1, $2)", [`fact ${row}`, value]);
  }
  backup = await backUp(source.db, KEY_RING);
  later = await backUp(source.db, KEY_RING);
  ofOthers = await backUp(source.db, OTHER);
});
afterAll(() => source.drop());

const refusalOf = (octets: Buffer, keyRing = KEY_RING) =>
  verifyBackup(streamOf(octets), keyRing).then(
    () => "taken",
    (error: unknown) => {
      if (error instanceof BackupRefused) return error.refusal.kind;
      throw error;
    },
  );

it("is taken as it was written, under its secret and under those that came after it", async () => {
  const { head, tail } = await verifyBackup(streamOf(backup), KEY_RING);
  const [life] = await queryRows<{ value: string }>(
    source.db,
    "select value from deployment_facts where name = 'incarnation'",
  );
  expect(head).toMatchObject({ palomar: "1", incarnation: life!.value });
  expect(tail.rows).toMatchObject({ deployment_facts: 11, zones: 0 });
  expect(cutFrames(backup).frames.length).toBeGreaterThan(5);
  for (const keyRing of [KeyRing.ofSecret("the new one", [SECRET]), KeyRing.ofSecret(SECRET, ["the next one"])]) {
    expect(await refusalOf(backup, keyRing)).toBe("taken");
  }
});

it("is read alike in pieces of any length", async () => {
  for (const pieceOctets of [1, 7, 1_000_000_000]) {
    const { tail } = await verifyBackup(streamOf(backup.subarray(0), pieceOctets), KEY_RING);
    expect(tail.rows.deployment_facts).toBe(11);
  }
});

describe("what is put together otherwise", () => {
  const join = (preamble: Buffer, frames: readonly Buffer[]) => Buffer.concat([preamble, ...frames]);
  const swap = (frames: readonly Buffer[], first: number, second: number) =>
    frames.map((_frame, at) => frames[at === first ? second : at === second ? first : at]!);

  test.each<[string, string, () => Buffer]>([
    ["pieces in another order", "altered", () => join(preambleOf(backup), swap(framesOf(backup), 2, 3))],
    ["a piece left out", "altered", () => join(preambleOf(backup), framesOf(backup).toSpliced(2, 1))],
    [
      "a piece twice",
      "altered",
      () => join(preambleOf(backup), framesOf(backup).toSpliced(2, 0, framesOf(backup)[2]!)),
    ],
    ["all rows left out", "altered", () => join(preambleOf(backup), [framesOf(backup)[0]!, framesOf(backup).at(-1)!])],
    [
      "the head twice",
      "altered",
      () => join(preambleOf(backup), framesOf(backup).toSpliced(1, 0, framesOf(backup)[0]!)),
    ],
    [
      "a piece of a later backup",
      "altered",
      () => join(preambleOf(backup), framesOf(backup).with(2, framesOf(later)[2]!)),
    ],
    [
      "the head of a later backup",
      "altered",
      () => join(preambleOf(backup), framesOf(backup).with(0, framesOf(later)[0]!)),
    ],
    [
      "the end of a later backup",
      "altered",
      () => join(preambleOf(backup), framesOf(backup).with(-1, framesOf(later).at(-1)!)),
    ],
    ["the preamble of a later backup", "altered", () => join(preambleOf(later), framesOf(backup))],
    ["another backup behind it", "altered", () => Buffer.concat([backup, later])],
    ["an octet behind it", "altered", () => Buffer.concat([backup, Buffer.of(0)])],
    [
      "the end of another deployment's",
      "altered",
      () => join(preambleOf(backup), framesOf(backup).with(-1, framesOf(ofOthers).at(-1)!)),
    ],
    ["another deployment's backup", "other-secret", () => ofOthers],
    [
      "another deployment's backup under our mark",
      "altered",
      () => Buffer.concat([ofOthers.subarray(0, 16), backup.subarray(16, 24), ofOthers.subarray(24)]),
    ],
    [
      "a frame that says it is 4 GiB long",
      "altered",
      () => withOctets(backup, PREAMBLE_OCTETS + 1, [0xff, 0xff, 0xff, 0xff]),
    ],
    ["another version", "other-format", () => withOctets(backup, 15, [BACKUP_VERSION + 1])],
    ["no backup at all", "no-backup", () => Buffer.from("select 1;\n")],
    ["an empty file", "no-backup", () => Buffer.alloc(0)],
    ["gzip of lines of SQL", "no-backup", () => gzipSync("-- Palomar backup: {}\n")],
  ])("%s is refused (%s)", async (_what, kind, make) => {
    expect(await refusalOf(make())).toBe(kind);
  });
});

const preambleOf = (octets: Buffer) => cutFrames(octets).preamble;
const framesOf = (octets: Buffer) => cutFrames(octets).frames;

function withOctets(octets: Buffer, at: number, values: readonly number[]): Buffer {
  const changed = Buffer.from(octets);
  changed.set(values, at);
  return changed;
}

test("a backup that ends early is refused, wherever that is", async () => {
  const ends = [1, 15, PREAMBLE_OCTETS - 1, PREAMBLE_OCTETS, PREAMBLE_OCTETS + 3, PREAMBLE_OCTETS + 5];
  let end = PREAMBLE_OCTETS;
  for (const frame of framesOf(backup)) {
    ends.push(end, end + 5, end + frame.length - 1);
    end += frame.length;
  }
  for (const at of ends) expect(await refusalOf(backup.subarray(0, at)), `${at} octets`).toBe("truncated");
});

test("an octet that is another is seen, wherever it is", async () => {
  for (let at = 0; at < PREAMBLE_OCTETS + 10; at += 1) {
    expect(await refusalOf(withOctets(backup, at, [backup[at]! ^ 1])), `octet ${at}`).not.toBe("taken");
  }
  await fc.assert(
    fc.asyncProperty(fc.nat(backup.length - 1), fc.integer({ min: 1, max: 255 }), async (at, difference) => {
      expect(await refusalOf(withOctets(backup, at, [backup[at]! ^ difference]))).not.toBe("taken");
    }),
    { numRuns: 250 },
  );
});

describe("restored from a stream, which is verified on its way", () => {
  let empty: TestDatabase;
  beforeAll(async () => {
    empty = await createEmptyDatabase(2);
  });
  afterAll(() => empty.drop());

  test.each<[string, string, () => Buffer]>([
    ["whose last piece is altered", "altered", () => withOctets(backup, backup.length - 1_000, [1, 2, 3])],
    ["that ends early", "truncated", () => backup.subarray(0, -10)],
    ["that lacks its end", "truncated", () => Buffer.concat([preambleOf(backup), ...framesOf(backup).slice(0, -1)])],
    ["that has an octet more", "altered", () => Buffer.concat([backup, Buffer.of(0)])],
  ])("a backup %s is refused (%s), and nothing has changed", async (_what, kind, make) => {
    await expect(restoreFrom(empty.db, make(), KEY_RING)).rejects.toMatchObject({ refusal: { kind } });
    const left = await queryRows(
      empty.db,
      "select relname from pg_class where relnamespace = current_schema()::regnamespace",
    );
    expect(left).toEqual([]);
  });

  it("and the whole one is taken afterwards", async () => {
    expect(await restoreFrom(empty.db, backup, KEY_RING)).toMatchObject({ deployment_facts: 11 });
  });
});
