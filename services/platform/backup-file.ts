import { randomBytes } from "node:crypto";
import {
  type BackupHead,
  BackupRefused,
  type BackupTail,
  beginFrames,
  FRAME_HEAD_OCTETS,
  type FrameKind,
  type FrameTags,
  MAX_FRAME_OCTETS,
  NONCE_OCTETS,
  PREAMBLE_OCTETS,
  readPreamble,
  TAG_OCTETS,
} from "../core/backup-format.ts";
import type { KeyRing } from "../core/key-ring.ts";
import type { OctetReader } from "./octet-reader.ts";

/** Compressed rows are written in frames of about this many octets. */
const FRAME_OCTETS = 256 * 1024;

/**
 * A step of a pipeline: takes the compressed rows and gives the file.
 * @param tail asked once the rows have ended
 */
export function writeFrames(keyRing: KeyRing, head: BackupHead, tail: () => BackupTail) {
  return async function* (rows: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    const { preamble, tags } = beginFrames(keyRing, randomBytes(NONCE_OCTETS));
    yield preamble;
    yield* frame(tags, "H", Buffer.from(JSON.stringify(head)));
    let pieces: Buffer[] = [];
    let octets = 0;
    for await (const piece of rows) {
      pieces.push(piece);
      octets += piece.length;
      if (octets < FRAME_OCTETS) continue;
      yield* frame(tags, "D", Buffer.concat(pieces, octets));
      pieces = [];
      octets = 0;
    }
    if (octets > 0) yield* frame(tags, "D", Buffer.concat(pieces, octets));
    yield* frame(tags, "E", Buffer.from(JSON.stringify(tail())));
  };
}

function* frame(tags: FrameTags, kind: FrameKind, content: Buffer): Generator<Buffer> {
  if (content.length > MAX_FRAME_OCTETS) throw new Error(`a frame of ${content.length} octets is too long`);
  const { head, tag } = tags.next(kind, content);
  yield head;
  yield content;
  yield tag;
}

/** A backup whose head has been verified, and of which nothing else was read yet. */
export interface OpenedFrames {
  readonly head: BackupHead;
  /**
   * The compressed rows, each piece once it has been verified; ends when the file was seen to be whole. To be read once.
   * @throws BackupRefused
   */
  readonly rows: () => AsyncGenerator<Buffer>;
  /** What the file says at its end; undefined until `rows` has ended. */
  readonly tail: () => BackupTail | undefined;
}

/**
 * @param keyRing the backup may have been written under any of its keys
 * @throws BackupRefused
 */
export async function openFrames(octets: OctetReader, keyRing: KeyRing): Promise<OpenedFrames> {
  const begin = readPreamble(await octets.peek(PREAMBLE_OCTETS), keyRing);
  if (!begin.ok) throw new BackupRefused(begin.error);
  await octets.read(PREAMBLE_OCTETS);
  const tags = begin.value;
  const first = await readFrame(octets, tags);
  if (first.kind !== "H") throw new BackupRefused({ kind: "altered" });
  let tail: BackupTail | undefined;
  async function* rows(): AsyncGenerator<Buffer> {
    for (;;) {
      const { kind, content } = await readFrame(octets, tags);
      if (kind === "D") yield content;
      else if (kind === "E") tail = JSON.parse(content.toString());
      else throw new BackupRefused({ kind: "altered" });
      if (tail !== undefined) break;
    }
    if (!(await octets.isAtEnd())) throw new BackupRefused({ kind: "altered" });
  }
  return { head: JSON.parse(first.content.toString()), rows, tail: () => tail };
}

async function readFrame(
  octets: OctetReader,
  tags: FrameTags,
): Promise<{ readonly kind: string; readonly content: Buffer }> {
  const head = await octets.read(FRAME_HEAD_OCTETS);
  if (head === undefined) throw new BackupRefused({ kind: "truncated" });
  const length = head.readUInt32BE(1);
  if (length > MAX_FRAME_OCTETS) throw new BackupRefused({ kind: "altered" });
  const body = await octets.read(length + TAG_OCTETS);
  if (body === undefined) throw new BackupRefused({ kind: "truncated" });
  const content = body.subarray(0, length);
  if (!tags.isNext(head, content, body.subarray(length))) throw new BackupRefused({ kind: "altered" });
  return { kind: String.fromCharCode(head[0]!), content };
}
