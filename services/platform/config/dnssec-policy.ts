import { z } from "zod";
import { SIGNING_ALGORITHMS } from "../../core/dns/dnssec/algorithm.ts";
import type { SigningPolicy } from "../../core/dns/dnssec/policy.ts";
import { bySchema, readConfigFile } from "./config-file.ts";

const HOUR_SECONDS = 3_600;
const DAY_SECONDS = 86_400;

const count = z.int().min(0);
const lifetimeDays = z.int().min(1).nullable();

/**
 * The content of config/dnssec.json.
 * `signatures`: how long one holds, how long before its end it is made anew at the latest, by up to how much less each
 * holds (so that those of a large zone do not end together), and from how long before it is made it holds.
 * `keyTtlSeconds`: TTL of DNSKEY, CDS and CDNSKEY. `propagationSeconds`: until all secondaries have a change.
 * `parentPropagationSeconds`, `dsTtlSeconds`: the same of the parent, and the TTL of its DS.
 * `parentCheckSeconds`: between two looks for the DS. `parentMustBeAuthenticated`: false has keys also come and go on
 * what a resolver says that does not validate; whoever stands between can then have a zone's keys removed too early.
 * `lifetimeDays`: age at which a key is replaced by itself, null for
 * never. `algorithm`: of zones for which none is asked for: 8, 13 or 15.
 */
const dnssecFile = z
  .strictObject({
    signatures: z.strictObject({
      validityHours: z.int().min(1),
      refreshHours: z.int().min(1),
      jitterHours: count,
      inceptionOffsetMinutes: count,
    }),
    keyTtlSeconds: count,
    propagationSeconds: count,
    parentPropagationSeconds: count,
    dsTtlSeconds: count,
    parentCheckSeconds: z.int().min(1),
    parentMustBeAuthenticated: z.boolean(),
    lifetimeDays: z.strictObject({ csk: lifetimeDays, ksk: lifetimeDays, zsk: lifetimeDays }),
    algorithm: z.union(SIGNING_ALGORITHMS.map((algorithm) => z.literal(algorithm))),
  })
  .refine(({ signatures }) => signatures.validityHours > signatures.refreshHours + signatures.jitterHours, {
    error: "a signature must hold longer than its jitter and the time before its end at which it is made anew",
    path: ["signatures", "validityHours"],
  });

/** How zones are signed: config/dnssec.json. */
export const signingPolicy: SigningPolicy = load();

function load(): SigningPolicy {
  const { signatures, lifetimeDays: lifetimes, ...rest } = readConfigFile("dnssec.json", bySchema(dnssecFile));
  const inSeconds = (days: number | null) => days && days * DAY_SECONDS;
  return {
    ...rest,
    signatures: {
      validitySeconds: signatures.validityHours * HOUR_SECONDS,
      refreshSeconds: signatures.refreshHours * HOUR_SECONDS,
      jitterSeconds: signatures.jitterHours * HOUR_SECONDS,
      inceptionOffsetSeconds: signatures.inceptionOffsetMinutes * 60,
    },
    lifetimeSeconds: { csk: inSeconds(lifetimes.csk), ksk: inSeconds(lifetimes.ksk), zsk: inSeconds(lifetimes.zsk) },
  };
}
