import type { AddressInfo } from "node:net";
import type { SMTPServer } from "smtp-server";
import { bindWithPatience, formatBound } from "../platform/bind.ts";
import { serviceWithin } from "../platform/lifecycle.ts";
import { purgeSandbox } from "../store/mail/inbound/sandbox-messages.ts";
import { makeInbox } from "./inbox.ts";
import { Reporter } from "./reporter.ts";

const KEPT_DAYS = 7;
const PURGE_MS = 3_600_000;

/** The inbox that the stack runs for itself, where mail goes that must not leave the machine. */
export const start = serviceWithin(async (lifecycle, context) => {
  const { config, db, observe } = context;
  const reporter = new Reporter(context);
  lifecycle.onStop("reporter", () => reporter.stop());

  const purge = setInterval(() => {
    purgeSandbox(db, KEPT_DAYS).catch((error: unknown) => observe({ kind: "sandbox-not-purged", err: error }));
  }, PURGE_MS);
  lifecycle.onStop("purge", () => clearInterval(purge));

  const bound: string[] = [];
  for (const address of config.listen.sandbox) {
    const inbox = makeInbox(context, () => reporter.wake());
    await bindWithPatience(inbox.server, address);
    lifecycle.onStop("inbox", () => closeInbox(inbox));
    bound.push(formatBound(inbox.server.address() as AddressInfo));
  }
  return bound[0] === undefined ? {} : { sandbox: bound[0] };
});

function closeInbox(inbox: SMTPServer): Promise<void> {
  return new Promise((resolve) => inbox.close(() => resolve()));
}
