import { z } from "zod";
import { unacceptable } from "../../../core/refusal.ts";
import { ok, refuse } from "../../../core/result.ts";
import { packageVersion } from "../../../platform/package-folder.ts";
import { dnsEndpoint, type MakeEndpoints } from "../../context.ts";

/** Programs go by it, and read it as numbers between dots up to the first hyphen: the API is that of this version. */
const VERSION = `4.7.3-palomar-${packageVersion}`;

const SERVER = {
  ...{ type: "Server", id: "localhost", daemon_type: "authoritative", version: VERSION },
  url: "/api/v1/servers/localhost",
  config_url: "/api/v1/servers/localhost/config{/config_setting}",
  zones_url: "/api/v1/servers/localhost/zones{/zone}",
} as const;

const serverJson = z.object({
  ...{ type: z.string(), id: z.string(), daemon_type: z.string(), version: z.string() },
  ...{ url: z.string(), config_url: z.string(), zones_url: z.string() },
});
const named = z.object({ type: z.string(), name: z.string(), value: z.string() });

/** The server as a whole: what it is and what it counts. */
export const makePowerdnsServerEndpoints: MakeEndpoints = () => [
  dnsEndpoint("read", {
    method: "GET",
    path: "",
    summary: "The servers: there is one, localhost",
    reply: z.array(serverJson),
    act: async () => ok([SERVER]),
  }),
  dnsEndpoint("read", {
    method: "GET",
    path: "/localhost",
    summary: "The server",
    reply: serverJson,
    act: async () => ok(SERVER),
  }),
  dnsEndpoint("read", {
    method: "GET",
    path: "/localhost/config",
    summary: "Settings: those that a program may want to know",
    reply: z.array(named),
    act: async () => ok(SETTINGS.map(([name, value]) => ({ type: "ConfigSetting", name, value }))),
  }),
  dnsEndpoint("read", {
    method: "GET",
    path: "/localhost/statistics",
    summary: "Statistics of this process; names of others are refused",
    fields: z.object({ statistic: z.string().optional() }),
    reply: z.array(named),
    act: async ({ fields: { statistic } }) => {
      const items = Object.entries({
        uptime: Math.floor(process.uptime()),
        "real-memory-usage": process.memoryUsage.rss(),
      });
      const shown = items.filter(([name]) => statistic === undefined || name === statistic);
      if (shown.length === 0) return refuse(unacceptable("pdns-statistic"));
      return ok(shown.map(([name, value]) => ({ type: "StatisticItem", name, value: String(value) })));
    },
  }),
];

const SETTINGS = [
  ["api", "yes"],
  ["daemon", "no"],
  ["default-soa-edit-api", ""],
  ["default-ttl", "3600"],
  ["version-string", SERVER.version],
  ["webserver", "yes"],
] as const;
