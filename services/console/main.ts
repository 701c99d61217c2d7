import { join } from "node:path";
import { ContentScanner } from "../operations/mail/content-scan.ts";
import { guardPolicy } from "../platform/config/guard-policy.ts";
import { listenHttp, UPLOAD_TIMEOUTS } from "../platform/http/listen.ts";
import { type Lifecycle, serviceWithin } from "../platform/lifecycle.ts";
import { makePublicLook } from "../platform/lookups/authoritative-lookup.ts";
import { packageFolder } from "../platform/package-folder.ts";
import type { Addresses, ServiceContext } from "../platform/service.ts";
import { makeConsoleApp } from "./app.ts";
import { startCertificateUpkeep } from "./certificate-upkeep.ts";
import type { ConsoleContext } from "./context.ts";
import { startDomainUpkeep } from "./domain-upkeep.ts";
import { JobRunner } from "./jobs.ts";
import { startMaintenance } from "./maintenance.ts";
import { SignIn } from "./sign-in.ts";
import { WebFiles } from "./web-files.ts";

/** The console: its API, its pages, and the long jobs that it runs. */
export const start = serviceWithin(begin);

async function begin(lifecycle: Lifecycle, given: ServiceContext): Promise<Addresses> {
  const { config, keyRing, db, clock, observe, addressOf } = given;
  const context: ConsoleContext = {
    ...{ config, keyRing, db, clock, observe, addressOf },
    signIn: new SignIn(db, keyRing, clock),
    jobs: new JobRunner(db, observe),
    content: new ContentScanner(config.rspamd, guardPolicy.content, observe),
    openLook: await makePublicLook({ config }),
  };
  const pages = await WebFiles.load(join(packageFolder, "dist/console-web"));
  const app = makeConsoleApp(context, pages);
  const listener = await listenHttp(app, config.listen.console, { observe, timeouts: UPLOAD_TIMEOUTS });
  const maintenance = startMaintenance(context);
  const upkeep = config.domainCheck === "off" ? undefined : startDomainUpkeep(context);
  const { acmeDirectory } = config;
  const certificates = upkeep && acmeDirectory !== null ? startCertificateUpkeep(context, acmeDirectory) : undefined;
  lifecycle.onStopTogether({
    jobs: () => context.jobs.stop(),
    maintenance: () => maintenance.stop(),
    upkeep: () => upkeep?.stop(),
    certificates: () => certificates?.stop(),
  });
  // Closed before: a request may begin a job.
  lifecycle.onStop("listener", () => listener?.close());
  return listener ? { console: listener.url } : {};
}
