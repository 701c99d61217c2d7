import { sentence } from "../../core/sentences.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { recordAudit } from "../../store/console/audit.ts";
import { settleHeldContent } from "../../store/mail/guard/content-verdicts.ts";
import { continueBatch, endHold, lockBatch, withdrawBatch } from "../../store/mail/queue/queue-stops.ts";
import { setBatchCancelled } from "../../store/mail/sends/batches.ts";
import type { HoldChange } from "./instance-hold.ts";

/** What becomes of a batch that was held for what is in it. */
export type HeldContentEnd = "release" | "discard";

/**
 * Lets a batch leave that was held for its content, unless something else holds it, or takes it back for good. Whoever
 * dies half-way has released it, or cancelled it: the next look of a campaign runner does the rest.
 * @returns false when nothing of the name is held
 */
export async function endHeldContent(
  db: Db,
  eeid: string,
  end: HeldContentEnd,
  { instance, reason, by, address, audited, now }: HoldChange,
): Promise<boolean> {
  const batch = { instanceId: instance.id, eeid };
  const became = await db.transaction(async (transaction) => {
    await lockBatch(transaction, batch);
    if (!(await settleHeldContent(transaction, instance.id, eeid, by))) return undefined;
    if (audited) {
      const about = { role: "instance" as const, scope: instance.name };
      const detail = { reason: sentence("guard-by-hand", { reason: reason.message }) };
      const action = `content.${end}`;
      await recordAudit(transaction, { actor: by, address, action, object: eeid, detail, about }, now);
    }
    if (end === "release") return (await endHold(transaction, batch)) ? "released" : "held";
    await setBatchCancelled(transaction, instance.id, eeid);
    return "discarded";
  });
  if (became === "released") await continueBatch(db, batch);
  if (became === "discarded") await withdrawBatch(db, batch);
  return became !== undefined;
}
