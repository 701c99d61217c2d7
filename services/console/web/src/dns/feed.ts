/** A policy feed, as a reseller sees it. */
export interface Feed {
  readonly zone: string;
  readonly serial: number;
  readonly rules: number;
  /** Whether this reseller has it active. */
  readonly active: boolean;
}

/** The feeds that there are; none without the licence. */
export interface ResellerFeeds {
  readonly licence: boolean;
  readonly rpz: readonly Feed[];
}
