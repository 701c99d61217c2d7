import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import {
  type BackupContent,
  type BackupHead,
  BackupRefused,
  type BackupTable,
  type BackupTableShape,
  type BackupTail,
} from "../core/backup-format.ts";
import type { KeyRing } from "../core/key-ring.ts";
import { openFrames } from "../platform/backup-file.ts";
import { OctetReader } from "../platform/octet-reader.ts";

/** The longest piece of rows, and its length before it: four octets; a length of 0 ends a table's rows. */
export const MAX_PIECE_OCTETS = 1024 * 1024;
export const PIECE_HEAD_OCTETS = 4;

/**
 * Opens a backup and verifies its head; its rows are verified as they are read.
 * @param keyRing it may have been written under any of its keys
 * @throws BackupRefused
 */
export async function openBackup(source: Readable, keyRing: KeyRing): Promise<BackupContent> {
  const frames = await openFrames(new OctetReader(source), keyRing);
  const { octets: rows, ended } = inflate(frames.rows());
  return {
    head: frames.head,
    tables: readTables(frames.head.tables, new OctetReader(rows)),
    readTail: async () => {
      await ended;
      const tail = frames.tail();
      if (tail === undefined) throw new BackupRefused({ kind: "truncated" });
      return tail;
    },
  };
}

/** What a backup says of itself, when it was found whole and unaltered. */
export interface VerifiedBackup {
  readonly head: BackupHead;
  readonly tail: BackupTail;
}

/**
 * Verifies every octet of a backup, without a database and without decompressing anything.
 * @throws BackupRefused
 */
export async function verifyBackup(source: Readable, keyRing: KeyRing): Promise<VerifiedBackup> {
  const { head, rows, tail } = await openFrames(new OctetReader(source), keyRing);
  for await (const _ of rows());
  return { head, tail: tail() as BackupTail };
}

async function* readTables(shapes: readonly BackupTableShape[], octets: OctetReader): AsyncGenerator<BackupTable> {
  for (const shape of shapes) yield { ...shape, rows: readPieces(octets) };
  if (!(await octets.isAtEnd())) throw new BackupRefused({ kind: "damaged", reason: "rows of no table" });
}

async function* readPieces(octets: OctetReader): AsyncGenerator<Buffer> {
  for (;;) {
    const length = (await octets.read(PIECE_HEAD_OCTETS))?.readUInt32BE(0);
    if (length === 0) return;
    const piece = length === undefined || length > MAX_PIECE_OCTETS ? undefined : await octets.read(length);
    if (piece === undefined) throw new BackupRefused({ kind: "damaged", reason: "rows without an end" });
    yield piece;
  }
}

/** @returns what was decompressed, and when its source has ended */
function inflate(compressed: AsyncIterable<Buffer>): { readonly octets: AsyncIterable<Buffer>; ended: Promise<void> } {
  const gunzip = createGunzip({ chunkSize: 64 * 1024 });
  const ended = pipeline(compressed, gunzip);
  // Whoever reads the octets hears of it.
  ended.catch(() => {});
  async function* octets(): AsyncGenerator<Buffer> {
    try {
      yield* gunzip;
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      throw code?.startsWith("Z_") ? new BackupRefused({ kind: "damaged", reason: message }) : error;
    }
  }
  return { octets: octets(), ended };
}
