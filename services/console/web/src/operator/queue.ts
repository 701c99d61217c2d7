/** What waits for one destination. */
export interface Queue {
  readonly destination: string;
  /** Recipients without a last outcome. */
  readonly waiting: number;
  /** Of them, those that could be tried now. */
  readonly due: number;
  readonly held: boolean;
  readonly oldest: string | null;
  readonly last_error: string | null;
}
