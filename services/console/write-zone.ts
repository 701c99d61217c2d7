import { DELEGATION_SCHEME, makeDelegationToken } from "../core/delegation-token.ts";
import { type Refusal, unacceptable } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import type { WriteZone } from "../operations/mail/domain-hosting.ts";
import { PROBLEM_TYPE, problemJson } from "../platform/http/problem.ts";
import { traceHeaders } from "../platform/observability/tracing.ts";
import { findResellerOfZone } from "../store/dns/console-zones.ts";
import type { ConsoleContext } from "./context.ts";

/**
 * Changes zones in the name of a user by asking the DNS API, which alone has the keys that signed zones need. Whether the
 * user may is for the caller to judge: here it is the reseller of the zone who asks.
 */
export function makeWriteZone(
  context: Pick<ConsoleContext, "db" | "keyRing" | "clock" | "addressOf" | "observe">,
  login: string,
): WriteZone {
  const { db, keyRing, clock, addressOf, observe } = context;
  return async (zone, { creations, deletionIds, serial }): Promise<Result<void, Refusal>> => {
    const resellerId = await findResellerOfZone(db, zone.id);
    if (resellerId === undefined) return refuse(unacceptable("zone-gone", { domain: zone.name }));
    const token = makeDelegationToken(keyRing, { audience: "dns", login, resellerId }, clock.nowMs());
    const create = creations.map(({ name, type, value, preference }) => ({
      ...{ name: `${name}.`, type, rr_prio: preference },
      value: type === "TXT" ? value : `${value}.`,
    }));
    try {
      const { request: send } = await import("undici");
      const { statusCode, body } = await send(`${await addressOf("dns_api")}/api/v1/rr/${zone.name}/batch`, {
        method: "POST",
        headers: {
          accept: PROBLEM_TYPE,
          "content-type": "application/json",
          ...traceHeaders(),
          authorization: `${DELEGATION_SCHEME} ${token}`,
        },
        body: JSON.stringify({ create, delete: deletionIds, serial }),
      });
      const reply: unknown = await body.json();
      if (statusCode < 400) return ok(undefined);
      const told = problemJson.safeParse(reply);
      if (statusCode >= 500 || !told.success) return refuse({ kind: "unavailable" });
      const { code, values, detail: message } = told.data;
      return refuse(unacceptable({ code, values, message }));
    } catch (err) {
      observe({ kind: "api-away", level: "warn", address: "dns_api", err });
      return refuse({ kind: "unavailable" });
    }
  };
}
