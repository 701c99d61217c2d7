/**
 * How a domain's DKIM keys follow one another: a new one is published, waited for until every name server has had it for
 * as long as caches may have something else, and only then signed with; the old one stays published for mail that is on
 * its way. Every step may be taken twice.
 */

export type DkimAlgorithm = "rsa" | "ed25519";

export interface RotatingKey {
  readonly id: number;
  readonly algorithm: DkimAlgorithm;
  readonly state: "new" | "signing" | "old" | "done";
  /** Of a new one: since when every look has found it at all name servers. */
  readonly seenSince: Date | null;
  /** Of an old one: since when nothing is signed with it. */
  readonly retiredAt: Date | null;
}

/** What a look at all name servers found. */
export interface KeySighting {
  /** All of them have it. A server that does not answer has not. */
  readonly everywhere: boolean;
  /** For so long caches may have another answer: the record's TTL, or that of its absence (RFC 2308 §5). */
  readonly cachedSeconds: number;
}

interface RotationPolicy {
  /** For so long an old key stays published: mail that is on its way is verified with it. */
  readonly keepOldMs: number;
  /** So soon a new key is looked for again. */
  readonly lookEveryMs: number;
}

export interface RotationStep {
  /** What is known of new keys now; null: the wait begins anew. */
  readonly seenSince: ReadonlyMap<number, Date | null>;
  /** New keys that are signed with from now on, all at once; those that they take the place of become old. */
  readonly takeOver: readonly number[];
  /** Old keys whose time is over. */
  readonly finish: readonly number[];
  /** When to look again; undefined: nothing moves. */
  readonly lookAgainAt: Date | undefined;
}

/** @param seen of a new key; none: it was not looked for */
export function rotationStep(
  keys: readonly RotatingKey[],
  seen: ReadonlyMap<number, KeySighting>,
  now: Date,
  policy: RotationPolicy,
): RotationStep {
  const fresh = keys.filter(({ state }) => state === "new");
  const seenSince = new Map(
    fresh.map(({ id, seenSince }) => [id, seen.get(id)?.everywhere ? (seenSince ?? now) : null] as const),
  );
  const isReady = fresh.every(({ id }) => {
    const since = seenSince.get(id);
    return since && now.getTime() - since.getTime() >= (seen.get(id)?.cachedSeconds ?? 0) * 1000;
  });
  const old = keys.filter(({ state }) => state === "old");
  const endOf = ({ retiredAt }: RotatingKey) => (retiredAt ?? now).getTime() + policy.keepOldMs;
  const takeOver = fresh.length > 0 && isReady ? fresh.map(({ id }) => id) : [];
  const waits = [
    ...(fresh.length > takeOver.length ? [now.getTime() + policy.lookEveryMs] : []),
    ...old.map(endOf).filter((end) => end > now.getTime()),
  ];
  return {
    seenSince,
    takeOver,
    finish: old.filter((key) => endOf(key) <= now.getTime()).map(({ id }) => id),
    lookAgainAt: waits.length > 0 ? new Date(Math.min(...waits)) : undefined,
  };
}
