import type { Db } from "../../../platform/postgres/db.ts";

/** The campaign of type `api` that notices are sent under. */
interface NoticeCampaign {
  readonly instanceId: number;
  readonly numid: number;
  readonly sender: string;
  readonly senderName: string;
}

export async function findNoticeCampaign(db: Db, numid: number): Promise<NoticeCampaign | undefined> {
  const row = await db("campaigns").where({ numid, type: "api" }).first("instance_id", "sender", "sender_name");
  return row && { instanceId: row.instance_id, numid, sender: row.sender, senderName: row.sender_name };
}
