import { openCertificate } from "../platform/certificate.ts";
import { Lifecycle } from "../platform/lifecycle.ts";
import type { StartService } from "../platform/service.ts";
import { listenSmtp } from "../platform/smtp-server.ts";
import { makeMxSession } from "./mx-session.ts";
import { BounceWorker } from "./worker.ts";

const MOST_RECIPIENTS = 100;

/** The way back: the MX listener that stores what returns, and the worker that applies it. */
export const start: StartService = async (context) => {
  const { config, logger, observe } = context;
  const lifecycle = new Lifecycle(logger);
  try {
    const certificate = await openCertificate(config, observe);
    lifecycle.onStop("certificate", () => certificate.close());
    const worker = new BounceWorker(context);
    lifecycle.onStop("bounce worker", () => worker.stop());
    const session = makeMxSession(context, () => worker.wake());
    const listener = await listenSmtp(config.listen.mx, session, {
      name: "mx",
      hostname: config.hostname,
      certificate,
      tls: "starttls",
      plaintextAuthOnLoopback: false,
      maxMessageOctets: config.mxMaxOctets,
      maxRecipients: MOST_RECIPIENTS,
      // Reports of sloppy mail systems count as well; nothing is relayed from here.
      lines: "as-they-are",
      limitLoopback: config.limitLoopback,
      observe,
    });
    if (listener) lifecycle.onStop("mx listener", () => listener.close());
    return { addresses: listener ? { mx: listener.address } : {}, stop: () => lifecycle.stop() };
  } catch (error) {
    await lifecycle.stop();
    throw error;
  }
};
