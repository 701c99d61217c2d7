import { forbidden, type Refusal, unacceptable } from "../../core/refusal.ts";
import { sentence } from "../../core/sentences.ts";
import type { GateRefusal } from "./sending-gate.ts";

const GRAINS = { hour: "hora", day: "dia" } as const;
const SCOPES: Readonly<Record<string, string>> = { instance: "instancia", campaign: "campana", sender: "remitente" };

/** A refused send in the words of the API, with the time at which sending goes on. */
export function sendRefusal(refusal: GateRefusal, nowMs: number): Refusal {
  if (refusal.kind === "held") return forbidden("sending-held", { reason: refusal.reason });
  const { rule, grain, allowed, goesOnAt, mostDaysAhead } = refusal;
  const [scope = "", subject = ""] = rule.key.split(" ");
  const values = { allowed, grain: GRAINS[grain], whose: `${SCOPES[scope]} ${subject}`.trim() };
  if (mostDaysAhead !== undefined) return unacceptable("sending-limit-never", { ...values, days: mostDaysAhead });
  if (goesOnAt === null) return unacceptable("sending-limit-too-low", values);
  return {
    kind: "rate-limited",
    retryAfterSeconds: Math.max(1, Math.ceil((goesOnAt.getTime() - nowMs) / 1000)),
    ...sentence("sending-limit-reached", { ...values, time: `${goesOnAt.toISOString().slice(0, 19)}Z` }),
  };
}
