/** What a content filter says of a message. */
export interface ContentScan {
  readonly score: number;
  /** It is to be refused whatever its score: a virus, a test pattern. */
  readonly rejected: boolean;
  /** What was found, with what each adds to the score. */
  readonly symbols: Readonly<Record<string, number>>;
}

/** What becomes of messages by their content (config/guard.json). Null: that does not happen. */
export interface ContentPolicy {
  readonly refuseScore: number | null;
  readonly holdScore: number | null;
  readonly markScore: number | null;
  /** What becomes of them while the filter is away. */
  readonly away: "accept" | "hold" | "refuse";
}

/** What becomes of a message, and why. */
export interface ContentVerdict {
  readonly action: "accept" | "mark" | "hold" | "refuse";
  /** Undefined where the filter was away. */
  readonly scan?: ContentScan | undefined;
}

/** @param scan undefined where the filter was away */
export function judgeContent(scan: ContentScan | undefined, policy: ContentPolicy): ContentVerdict {
  if (scan === undefined) return { action: policy.away };
  const reaches = (threshold: number | null) => threshold !== null && scan.score >= threshold;
  if (scan.rejected || reaches(policy.refuseScore)) return { action: "refuse", scan };
  if (reaches(policy.holdScore)) return { action: "hold", scan };
  return { action: reaches(policy.markScore) ? "mark" : "accept", scan };
}
