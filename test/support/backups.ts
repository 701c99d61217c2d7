import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import {
  type BackupContent,
  FRAME_HEAD_OCTETS,
  PREAMBLE_OCTETS,
  TAG_OCTETS,
} from "../../services/core/backup-format.ts";
import type { KeyRing } from "../../services/core/key-ring.ts";
import type { Db } from "../../services/platform/postgres/db.ts";
import { restoreBackup, writeBackup } from "../../services/store/backup.ts";
import { openBackup } from "../../services/store/backup-content.ts";

/** A backup as its file's octets. */
export async function backUp(db: Db, keyRing: KeyRing): Promise<Buffer> {
  const out = new PassThrough();
  const [octets] = await Promise.all([buffer(out), writeBackup(db, out, { version: "1", keyRing, now: new Date() })]);
  return octets;
}

/** As from standard input, in pieces of so many octets. */
export function streamOf(octets: Buffer, pieceOctets = 10_000): Readable {
  const pieces = Array.from({ length: Math.ceil(octets.length / pieceOctets) }, (_, index) =>
    octets.subarray(index * pieceOctets, (index + 1) * pieceOctets),
  );
  return Readable.from(pieces);
}

/** @param edit what the backup says, in place of what it has */
export async function restoreFrom(
  db: Db,
  octets: Buffer,
  keyRing: KeyRing,
  edit = (content: BackupContent) => content,
) {
  return restoreBackup(db, edit(await openBackup(streamOf(octets), keyRing)));
}

/** A backup cut into its preamble and its frames, to be put together in other ways. */
export function cutFrames(octets: Buffer): { readonly preamble: Buffer; readonly frames: readonly Buffer[] } {
  const frames: Buffer[] = [];
  for (let start = PREAMBLE_OCTETS; start < octets.length; ) {
    const end = start + FRAME_HEAD_OCTETS + octets.readUInt32BE(start + 1) + TAG_OCTETS;
    frames.push(octets.subarray(start, end));
    start = end;
  }
  return { preamble: octets.subarray(0, PREAMBLE_OCTETS), frames };
}
