import { Counter } from "prom-client";
import { obtainDueCertificate } from "../operations/mail/host-certificate.ts";
import { registry } from "../platform/observability/metrics.ts";
import { RepeatedWork } from "../platform/repeated-work.ts";
import type { ConsoleContext } from "./context.ts";
import { UPKEEP_ACTOR } from "./domain-upkeep.ts";
import { makeWriteZone } from "./write-zone.ts";

const EVERY_MS = 5_000;
const AFTER_FAILURE_MS = 60_000;

const orders = new Counter({
  name: "palomar_certificate_orders_total",
  help: "Orders of certificates for hosts of sender domains, by what came of them (obtained, failed)",
  labelNames: ["result"],
  registers: [registry],
});
// The first order that fails is seen as one only where there was a 0 before.
for (const result of ["obtained", "failed"]) orders.inc({ result }, 0);

/**
 * Obtains and renews the certificates of hosts of sender domains that lead here, one after another; any number of processes
 * share them.
 */
export function startCertificateUpkeep(
  context: Pick<ConsoleContext, "db" | "keyRing" | "config" | "clock" | "observe" | "addressOf" | "openLook">,
  directory: string,
): RepeatedWork {
  const { observe } = context;
  const write = makeWriteZone(context, UPKEEP_ACTOR);
  return new RepeatedWork({
    take: async (signal) => {
      const ordered = await obtainDueCertificate({ ...context, write, signal }, directory);
      if (ordered === undefined) return EVERY_MS;
      const { instanceId, host, failure } = ordered;
      orders.inc({ result: failure === undefined ? "obtained" : "failed" });
      if (failure === undefined) observe({ kind: "certificate-obtained", level: "info", host, instanceId });
      else observe({ kind: "certificate-not-obtained", level: "warn", host, instanceId, reason: failure });
      return 0;
    },
    failed: (err) => {
      observe({ kind: "domain-upkeep-failed", level: "warn", err });
      return AFTER_FAILURE_MS;
    },
  });
}
