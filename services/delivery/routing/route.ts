import { ok, type Result } from "../../core/result.ts";
import type { Config } from "../../platform/config/config.ts";
import { splitHostPort } from "../../platform/config/config-values.ts";
import type { Resolver } from "../../platform/lookups/resolver.ts";
import type { Route } from "../session-pool.ts";
import type { FindDane } from "./dane.ts";
import { findMxRoute, type RouteRefusal } from "./mx-route.ts";
import type { FindPolicy } from "./sts-policies.ts";

/**
 * Finds the way to a domain.
 * Refused with what stands for a server's reply: 5xx when there is no way, 4xx while it cannot be told.
 * @param attemptsMade for the message, 0 unless given: another attempt may reach other servers
 */
export type FindRoute = (destination: string, attemptsMade?: number) => Promise<Result<Route, RouteRefusal>>;

/** What routing needs to know of its surroundings. */
interface RouteSurroundings {
  readonly config: Pick<Config, "delivery" | "fetchAllow" | "hostname">;
  readonly resolver: Resolver;
  readonly findPolicy: FindPolicy;
  /** Absent without a validating resolver, or where DANE is off. */
  readonly findDane?: FindDane | undefined;
  /** The sandbox's inbox, as host:port. */
  sandboxAddress(): Promise<string>;
}

/** The way for every domain, by PALOMAR_DELIVERY. */
export function makeFindRoute({ config, sandboxAddress, ...mx }: RouteSurroundings): FindRoute {
  const { delivery } = config;
  switch (delivery.kind) {
    case "sandbox":
      return async () => {
        const { host, port } = splitHostPort(await sandboxAddress());
        return ok({ key: "sandbox", peers: [{ host, port, name: host, tls: "never" }], local: true });
      };
    case "smart-host": {
      const { host, port } = delivery;
      const route: Route = { key: "smart-host", peers: [{ host, port, name: host, tls: "opportunistic" }] };
      return async () => ok(route);
    }
    case "mx":
      return (destination, attemptsMade) =>
        findMxRoute(destination, { ...mx, allowedBlocks: config.fetchAllow, ownName: config.hostname }, attemptsMade);
  }
}
