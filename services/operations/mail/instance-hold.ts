import { onlySentence, type Sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { recordAudit } from "../../store/console/audit.ts";
import { endInstanceHold, markInstanceHeld } from "../../store/mail/guard/holds.ts";
import { announceMail, announceStop } from "../../store/mail/queue/queue.ts";

/** An instance that is held or released, and who does so. */
export interface HoldChange {
  readonly instance: { readonly id: number; readonly name: string };
  readonly reason: Sentence;
  /** A login, or `guard`. */
  readonly by: string;
  /** Where the request came from; '' where there was none. */
  readonly address: string;
  /** False where whoever asks writes the audit log. */
  readonly audited: boolean;
  readonly now: Date;
}

/**
 * Holds an instance: its mail stays in the queue, workers finish the message that they are at. It is in the audit log.
 * @returns false when it was held already
 */
export async function holdInstance(db: Db, change: HoldChange): Promise<boolean> {
  const held = await db.transaction(async (transaction) => {
    if (!(await markInstanceHeld(transaction, change.instance.id, change))) return false;
    if (change.audited) await writeAudit(transaction, "instance.hold", change);
    return true;
  });
  if (held) await announceStop(db);
  return held;
}

/** Lets an instance go on: what it did before speaks against it no longer. @returns false when it was not held */
export async function releaseInstance(db: Db, change: HoldChange): Promise<boolean> {
  const released = await db.transaction(async (transaction) => {
    if (!(await endInstanceHold(transaction, change.instance.id))) return false;
    if (change.audited) await writeAudit(transaction, "instance.release", change);
    return true;
  });
  if (released) await announceMail(db, [change.instance.id]);
  return released;
}

function writeAudit(db: Db, action: string, { instance, reason, by, address, now }: HoldChange): Promise<void> {
  const about = { role: "instance" as const, scope: instance.name };
  const detail = { reason: onlySentence(reason) };
  return recordAudit(db, { actor: by, address, action, object: instance.name, detail, about }, now);
}
