import { inSpanish } from "../../core/mail/guard/spanish-reasons.ts";
import { forbidden, type Refusal, unacceptable } from "../../core/refusal.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import type { GateRefusal } from "./sending-gate.ts";

const GRAINS = { hour: sentence("limit-hour"), day: sentence("limit-day") } as const;

/** A refused send in the words of the API, with the time at which sending goes on. */
export function sendRefusal(refusal: GateRefusal, nowMs: number): Refusal {
  if (refusal.kind === "held") return forbidden("sending-held", { reason: inSpanish(refusal.reason) });
  const { rule, grain, allowed, goesOnAt, mostDaysAhead } = refusal;
  const values = { allowed, grain: GRAINS[grain], whose: sentenceOfSubject(rule.key) };
  if (mostDaysAhead !== undefined) return unacceptable("sending-limit-never", { ...values, days: mostDaysAhead });
  if (goesOnAt === null) return unacceptable("sending-limit-too-low", values);
  return {
    kind: "rate-limited",
    retryAfterSeconds: Math.max(1, Math.ceil((goesOnAt.getTime() - nowMs) / 1000)),
    ...sentence("sending-limit-reached", { ...values, time: `${goesOnAt.toISOString().slice(0, 19)}Z` }),
  };
}

/** @param key `instance`, `campaign <numid>` or `sender <address>` */
function sentenceOfSubject(key: string): Sentence {
  const [scope, subject = ""] = key.split(" ");
  if (scope === "campaign") return sentence("limit-of-campaign", { subject });
  return scope === "sender" ? sentence("limit-of-sender", { subject }) : sentence("limit-of-instance");
}
