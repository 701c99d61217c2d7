import { bounceRules } from "../core/mail/bounce/rules.ts";
import { openCertificate } from "../platform/certificate.ts";
import { type Lifecycle, serviceWithin } from "../platform/lifecycle.ts";
import { makeSocketLookup } from "../platform/lookups/host-addresses.ts";
import { makeResolver } from "../platform/lookups/resolver.ts";
import type { Addresses, ServiceContext, StartService } from "../platform/service.ts";
import { MessageCollector } from "../platform/smtp/message-collector.ts";
import { listenSmtp } from "../platform/smtp/server.ts";
import { MailboxPoller } from "./mailbox-poller.ts";
import { MailboxWatcher } from "./mailbox-watcher.ts";
import { exportInboundCounts } from "./metrics.ts";
import { MxSession } from "./mx-session.ts";
import { type InboundPolicy, loadInboundPolicy } from "./policy.ts";
import { BounceWorker } from "./worker.ts";

const MOST_RECIPIENTS = 100;

/** The way back: the MX listener and the mailboxes that store what returns, and the worker that applies it. */
export const start: StartService = (context) => startWith(loadInboundPolicy())(context);

/** The same with other limits than those of config/inbound.json. */
export function startWith(policy: InboundPolicy): StartService {
  return serviceWithin((lifecycle, context) => begin(lifecycle, context, policy));
}

async function begin(lifecycle: Lifecycle, context: ServiceContext, policy: InboundPolicy): Promise<Addresses> {
  const { config, observe } = context;
  bounceRules(); // what is wrong with them ends the start
  const certificate = await openCertificate(config, observe);
  lifecycle.onStop("certificate", () => certificate.close());
  const worker = new BounceWorker(context, policy);
  lifecycle.onStop("bounce worker", () => worker.stop());
  lifecycle.onStop("inbound counts", exportInboundCounts(context.db));
  const lookup = makeSocketLookup({ config, resolver: await makeResolver(config.resolver) });
  const poller = new MailboxPoller(context, { lookup, policy }, () => worker.wake());
  lifecycle.onStop("mailbox poller", () => poller.stop());
  const watcher = new MailboxWatcher(context, lookup);
  lifecycle.onStop("mailbox watcher", () => watcher.stop());
  const session = new MxSession(context, () => worker.wake(), policy);
  const listener = await listenSmtp(config.listen.mx, session, {
    name: "mx",
    hostname: config.hostname,
    certificate,
    tls: "starttls",
    plaintextAuthOnLoopback: false,
    maxMessageOctets: config.mxMaxOctets,
    maxRecipients: MOST_RECIPIENTS,
    // Reports of sloppy mail systems count as well; nothing is relayed from here.
    collector: new MessageCollector("as-they-are"),
    limitLoopback: config.limitLoopback,
    observe,
  });
  if (listener) lifecycle.onStop("mx listener", () => listener.close());
  return listener ? { mx: listener.address } : {};
}
