/**
 * The file of a backup. It is authenticated with the key of backups (`key-purposes.ts`), piece by piece, so that a reader of a
 * stream of any size uses no octet before it has been verified.
 *
 *     preamble   "PALOMAR BACKUP\n", format version (1 octet), mark of the key (8), nonce (16)
 *     frame      kind (1), length of the content (4), content, tag (32)
 *
 * There is one frame `H` (a BackupHead as JSON), any number of frames `D` (the rows, compressed with gzip, cut anywhere)
 * and one frame `E` (a BackupTail as JSON), after which nothing follows. A tag is HMAC-SHA-256 of the frame's number
 * (8 octets), kind, length and content, under a key of this file alone: HMAC-SHA-256 of the preamble under the key of
 * backups. So a frame counts only in its own file and in its own place, and a file without its last
 * frame is not whole. Content is compressed first and authenticated then: nothing is decompressed unverified.
 *
 * @see RFC 2104 (HMAC)
 */
import { createHmac, type KeyObject, timingSafeEqual } from "node:crypto";
import type { KeyRing } from "./key-ring.ts";
import { ok, type Result, refuse } from "./result.ts";

/** A table as a backup has it: its columns in the order of the rows' fields. */
export interface BackupTableShape {
  readonly name: string;
  readonly columns: readonly string[];
}

/** What a backup says of itself before its rows. */
export interface BackupHead {
  /** Release that wrote it. */
  readonly palomar: string;
  /** Moment that the content is of, ISO 8601. */
  readonly takenAt: string;
  /** Which life of which database it is of (`store/incarnation.ts`). */
  readonly incarnation: string;
  /** Names of the migrations that the database had: its schema. */
  readonly migrations: readonly string[];
  /** First days of the months of the event table. */
  readonly eventMonths: readonly string[];
  /** First days of the weeks of the attempts; those of releases that kept none say nothing. */
  readonly attemptWeeks?: readonly string[];
  /** Every table, in the order of the rows; tables come after those that they refer to. */
  readonly tables: readonly BackupTableShape[];
}

/** What a backup says after its rows. */
export interface BackupTail {
  /** Rows by table. */
  readonly rows: Readonly<Record<string, number>>;
  /** The last number that each sequence gave, in decimal. */
  readonly sequences: Readonly<Record<string, string>>;
}

/** A table of a backup with its rows, in PostgreSQL's text format of COPY, cut anywhere. */
export interface BackupTable extends BackupTableShape {
  readonly rows: AsyncIterable<Buffer>;
}

/** What a backup holds; every octet is verified before it is given. */
export interface BackupContent {
  readonly head: BackupHead;
  /** One after another, to be read once; the rows of one before the next. @throws BackupRefused */
  readonly tables: AsyncIterable<BackupTable>;
  /** What stands behind the rows, once those have been read and the file was whole. @throws BackupRefused */
  readonly readTail: () => Promise<BackupTail>;
}

/** Why a backup is not written, or not restored; nothing has changed then. */
export type BackupRefusal =
  | { readonly kind: "spread" }
  | { readonly kind: "migrating" }
  | { readonly kind: "no-backup" }
  | { readonly kind: "other-format"; readonly version: number }
  | { readonly kind: "other-secret" }
  | { readonly kind: "altered" }
  | { readonly kind: "truncated" }
  | { readonly kind: "damaged"; readonly reason: string }
  | { readonly kind: "not-empty" }
  | { readonly kind: "newer"; readonly migrations: readonly string[] }
  | { readonly kind: "unknown-table"; readonly table: string }
  | { readonly kind: "other-columns"; readonly table: string; readonly columns: readonly string[] }
  | { readonly kind: "missing-tables"; readonly tables: readonly string[] }
  | { readonly kind: "unknown-sequence"; readonly sequence: string }
  | { readonly kind: "other-count"; readonly table: string }
  | { readonly kind: "not-taken"; readonly place: string; readonly reason: string };

/** Thrown out of streams and transactions, so that nothing stays of what was begun. */
export class BackupRefused extends Error {
  readonly refusal: BackupRefusal;

  constructor(refusal: BackupRefusal) {
    super(refusal.kind);
    this.refusal = refusal;
  }
}

/** What a frame holds: the head, compressed rows, or the tail, which ends the file. */
export type FrameKind = "H" | "D" | "E";

export const BACKUP_VERSION = 2;
export const NONCE_OCTETS = 16;
/** Kind and length, before a frame's content. */
export const FRAME_HEAD_OCTETS = 5;
export const TAG_OCTETS = 32;
/** The longest content of a frame, which a reader holds in memory before it is verified. */
export const MAX_FRAME_OCTETS = 1024 * 1024;

const MAGIC = Buffer.from("PALOMAR BACKUP\n", "latin1");
const MARK_OCTETS = 8;
export const PREAMBLE_OCTETS = MAGIC.length + 1 + MARK_OCTETS + NONCE_OCTETS;
const PURPOSE = "backup";

/** Makes and checks the tags of one file's frames, which have to come in their order. */
export class FrameTags {
  readonly #key: Buffer;
  #frames = 0n;

  constructor(key: Buffer) {
    this.#key = key;
  }

  /** The head and the tag of the next frame. */
  next(kind: FrameKind, content: Uint8Array): { readonly head: Buffer; readonly tag: Buffer } {
    const head = Buffer.alloc(FRAME_HEAD_OCTETS);
    head.write(kind, 0, "latin1");
    head.writeUInt32BE(content.length, 1);
    return { head, tag: this.#tagOf(head, content) };
  }

  /** Whether this is the next frame, as it was written. Of the first one that is not, the others are not either. */
  isNext(head: Uint8Array, content: Uint8Array, tag: Uint8Array): boolean {
    return timingSafeEqual(this.#tagOf(head, content), tag);
  }

  #tagOf(head: Uint8Array, content: Uint8Array): Buffer {
    const number = Buffer.alloc(8);
    number.writeBigUInt64BE(this.#frames);
    this.#frames += 1n;
    return createHmac("sha256", this.#key).update(number).update(head).update(content).digest();
  }
}

/**
 * Begins a file.
 * @param keyRing of its keys the one in force counts
 * @param nonce NONCE_OCTETS random octets
 */
export function beginFrames(
  keyRing: KeyRing,
  nonce: Uint8Array,
): { readonly preamble: Buffer; readonly tags: FrameTags } {
  const key = keyRing.keyFor(PURPOSE);
  const preamble = Buffer.concat([MAGIC, Buffer.of(BACKUP_VERSION), markOf(key), nonce]);
  return { preamble, tags: new FrameTags(fileKey(key, preamble)) };
}

/**
 * Reads the beginning of a file, PREAMBLE_OCTETS long unless the file is shorter. It is verified with the first frame.
 * @param keyRing the file may have been written under any of its keys
 */
export function readPreamble(preamble: Uint8Array, keyRing: KeyRing): Result<FrameTags, BackupRefusal> {
  const octets = Buffer.from(preamble);
  const magic = octets.subarray(0, MAGIC.length);
  if (magic.length === 0 || !magic.equals(MAGIC.subarray(0, magic.length))) return refuse({ kind: "no-backup" });
  if (octets.length < PREAMBLE_OCTETS) return refuse({ kind: "truncated" });
  const version = octets[MAGIC.length]!;
  if (version !== BACKUP_VERSION) return refuse({ kind: "other-format", version });
  const mark = octets.subarray(MAGIC.length + 1, MAGIC.length + 1 + MARK_OCTETS);
  const key = keyRing.keysFor(PURPOSE).find((one) => timingSafeEqual(markOf(one), mark));
  return key === undefined ? refuse({ kind: "other-secret" }) : ok(new FrameTags(fileKey(key, octets)));
}

/** Tells whether a key is the backup's, and nothing else about it. */
function markOf(key: KeyObject): Buffer {
  return createHmac("sha256", key).update("mark").digest().subarray(0, MARK_OCTETS);
}

function fileKey(key: KeyObject, preamble: Uint8Array): Buffer {
  return createHmac("sha256", key).update("file").update(preamble).digest();
}
