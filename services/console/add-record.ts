import { request as send } from "undici";
import { DELEGATION_SCHEME, makeDelegationToken } from "../core/delegation-token.ts";
import { type Refusal, unacceptable } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import { PROBLEM_TYPE, problemJson } from "../platform/http/problem.ts";
import { traceHeaders } from "../platform/observability/tracing.ts";
import { findResellerOfZone } from "../store/dns/console-zones.ts";
import type { ConsoleContext } from "./context.ts";
import type { AddRecord } from "./sender-domain.ts";

/**
 * Adds records in the name of a user by asking the DNS API, which alone has the keys that signed zones need. Whether the
 * user may is for the caller to judge: here it is the reseller of the zone who asks.
 */
export function makeAddRecord(context: ConsoleContext, login: string): AddRecord {
  const { db, keyRing, clock, addressOf, observe } = context;
  return async (zone, { name, type, value, preference }): Promise<Result<void, Refusal>> => {
    const resellerId = await findResellerOfZone(db, zone.id);
    if (resellerId === undefined) return refuse(unacceptable("zone-gone", { domain: zone.name }));
    const token = makeDelegationToken(keyRing, { audience: "dns", login, resellerId }, clock.nowMs());
    const record = { name: `${name}.`, type, value: type === "MX" ? `${value}.` : value, rr_prio: preference };
    try {
      const { statusCode, body } = await send(`${await addressOf("dns_api")}/api/v1/rr/${zone.name}`, {
        method: "POST",
        headers: {
          accept: PROBLEM_TYPE,
          "content-type": "application/json",
          ...traceHeaders(),
          authorization: `${DELEGATION_SCHEME} ${token}`,
        },
        body: JSON.stringify(record),
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
