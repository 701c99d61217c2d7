import type { Context } from "koa";
import { stsPolicyText } from "../../core/mail/domain-setup/mta-sts.ts";
import { findServedStsPolicy } from "../../store/mail/instances/domain-upkeep.ts";
import { sendErrorPage } from "../pages.ts";
import type { TrackingTools } from "../tools.ts";

const POLICY_HOST = "mta-sts.";

/** The policy for mail to the domain that the request's host is the policy host of (RFC 8461 §3.3). */
export async function serveStsPolicy(ctx: Context, { db }: Pick<TrackingTools, "db">): Promise<void> {
  const host = ctx.hostname.toLowerCase().replace(/\.$/, "");
  const isPolicyHost = host.startsWith(POLICY_HOST) && !host.includes("\0");
  const policy = isPolicyHost ? await findServedStsPolicy(db, host.slice(POLICY_HOST.length)) : undefined;
  if (policy === undefined) return sendErrorPage(ctx, 404, "no-page");
  ctx.type = "text/plain";
  ctx.body = stsPolicyText(policy);
}
