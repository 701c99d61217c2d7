import { openCertificate } from "../platform/certificate.ts";
import { serviceWithin } from "../platform/lifecycle.ts";
import { MessageCollector } from "../platform/smtp/message-collector.ts";
import { listenSmtp } from "../platform/smtp/server.ts";
import { refuseMalformed } from "./refuse-malformed.ts";
import { makeSubmission } from "./smtp-session.ts";

/** Submission by SMTP (RFC 6409): STARTTLS on one listener, implicit TLS (RFC 8314) on the other. */
export const start = serviceWithin(async (lifecycle, context) => {
  const { config, observe } = context;
  const certificate = await openCertificate(config, observe);
  lifecycle.onStop("certificate", () => certificate.close());
  const handlers = refuseMalformed(makeSubmission(context));
  const options = {
    name: "submission",
    hostname: config.hostname,
    certificate,
    servesDsn: true,
    plaintextAuthOnLoopback: config.submissionPlaintextAuth === "loopback",
    maxMessageOctets: config.maxMessageOctets,
    maxRecipients: config.submissionMaxRecipients,
    collector: new MessageCollector("strict"),
    limitLoopback: config.limitLoopback,
    observe,
  };
  const starttls = await listenSmtp(config.listen.submission, handlers, { ...options, tls: "starttls" });
  if (starttls) lifecycle.onStop("submission", () => starttls.close());
  const implicit = await listenSmtp(config.listen.submissions, handlers, { ...options, tls: "implicit" });
  if (implicit) lifecycle.onStop("submissions", () => implicit.close());
  return {
    ...(starttls ? { submission: starttls.address } : {}),
    ...(implicit ? { submissions: implicit.address } : {}),
  };
});
