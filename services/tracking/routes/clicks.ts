import {
  addQueryParameter,
  CONVERSION_PARAMETER,
  isPersonalTarget,
  resolveTarget,
} from "../../core/mail/tracking-target.ts";
import { type ClickClaims, makeDeliveryToken, readClickToken } from "../../core/mail/tracking-tokens.ts";
import { withDeadline } from "../../platform/deadline.ts";
import { findPersonalValues } from "../../store/mail/tracking/tracking.ts";
import { sendErrorPage } from "../pages.ts";
import { type Route, recordVisit, refuseToken, type TrackingTools, visitOf } from "../tools.ts";

const PROFILE_DEADLINE_MS = 3_000;

/** `/c/<token>`: sends on to the stored target, and to nothing that the request names. */
export const clickRoute: Route = {
  methods: ["GET", "HEAD"],
  async handle(ctx, token, tools) {
    const claims = readClickToken(tools.keyRing, token);
    if (!claims.ok) return refuseToken(ctx, tools);
    const location = await findLocation(claims.value, tools);
    if (location === undefined) return sendErrorPage(ctx, 410, "gone");
    const { deliveryId, link } = claims.value;
    await recordVisit(ctx, tools, { kind: "click", link, ...visitOf(ctx, deliveryId, tools) });
    ctx.status = 302;
    ctx.set("Location", location);
    ctx.body = "";
  },
};

/** @throws when only the database could tell and does not answer */
async function findLocation(
  { deliveryId, messageId, link }: ClickClaims,
  tools: TrackingTools,
): Promise<string | undefined> {
  const known = await tools.links.find(messageId, link);
  if (known === undefined) return undefined;
  const values = isPersonalTarget(known.target)
    ? await withDeadline(findPersonalValues(tools.db, deliveryId, known.target), PROFILE_DEADLINE_MS)
    : undefined;
  const location = resolveTarget(known.target, values);
  if (!location.ok) return undefined;
  if (!tools.links.hasConversions(known.instanceId)) return location.value;
  return addQueryParameter(
    location.value,
    CONVERSION_PARAMETER,
    makeDeliveryToken(tools.keyRing, "conversion", deliveryId),
  );
}
