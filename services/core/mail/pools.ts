/** What mail of an instance leaves through: a row of `poolOf` in config/delivery.json. */
export interface CampaignPool {
  /** Null: all campaigns. */
  readonly campaignNumid: number | null;
  /** '' is the default pool. */
  readonly pool: string;
}

/**
 * The pool of a campaign's mail.
 * @param rows of its instance; the first that fits decides
 * @returns '' for the default pool, which goes for what no row is for
 */
export function poolFor(rows: readonly CampaignPool[], campaignNumid: number): string {
  const row = rows.find((row) => row.campaignNumid === null || row.campaignNumid === campaignNumid);
  return row?.pool ?? "";
}
