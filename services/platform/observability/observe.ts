import type { Logger } from "pino";
import { measure } from "./metrics.ts";
import type { Observe } from "./observation.ts";
import { trace } from "./tracing.ts";

/** Hands every observation of a service to the log, to the metrics, and to the traces if any are made. */
export function makeObserve(logger: Logger, service = ""): Observe {
  return (observation) => {
    const { kind, level = "debug", ...detail } = observation;
    logger[level]({ kind, ...detail }, kind);
    measure(observation, service);
    trace(observation);
  };
}
