import type { IncomingHttpHeaders } from "node:http";
import ipaddr from "ipaddr.js";
import { z } from "zod";
import type { MachineRule, Place, Visitor } from "../store/tracking-events.ts";

/** Judges requests by config/user-agents.json. */
export interface VisitorRules {
  readonly allLinks: MachineRule["allLinks"];
  describe(request: VisitorRequest): Visitor;
}

export interface VisitorRequest {
  readonly headers: IncomingHttpHeaders;
  readonly address: string;
}

/** Where an address is, as far as a place database tells. */
export type FindPlace = (address: string) => Place | undefined;

const pattern = z.string().transform((text) => new RegExp(text, "i"));
const block = z.string().transform((text) => ipaddr.parseCIDR(text));
const rulesFile = z.object({
  machines: z.object({
    agents: z.array(z.object({ name: z.string(), pattern })),
    networks: z.array(z.object({ name: z.string(), block })),
    allLinks: z.object({ atLeast: z.int().min(2), withinSeconds: z.int().min(1) }),
  }),
  devices: z.array(z.object({ device: z.string(), subtype: z.string(), id: z.int(), pattern })),
});
type RulesFile = z.infer<typeof rulesFile>;

const MOST_AGENT_CHARACTERS = 256;
/** Browsers and proxies say so when nobody looks yet (Fetch Metadata, and older spellings of it). */
const PREFETCH_HEADERS = ["sec-purpose", "purpose", "x-purpose", "x-moz"];

/** @param data content of config/user-agents.json @throws naming what is wrong in it */
export function compileVisitorRules(data: unknown, findPlace: FindPlace): VisitorRules {
  const { machines, devices } = rulesFile.parse(data);
  return {
    allLinks: machines.allLinks,
    describe: ({ headers, address }) => {
      const agent = (headers["user-agent"] ?? "").slice(0, MOST_AGENT_CHARACTERS);
      const device = devices.find((known) => known.pattern.test(agent));
      return {
        machine: findMachine(machines, { headers, address, agent }),
        device: device?.device ?? "",
        deviceSubtypeId: device?.id ?? null,
        place: findPlace(address),
        userAgent: agent,
        network: networkOf(address),
      };
    },
  };
}

/** An address without the part that tells its users apart: /24 of IPv4, /48 of IPv6. */
export function networkOf(address: string): string {
  if (!ipaddr.isValid(address)) return "";
  const parsed = ipaddr.process(address);
  const bits = parsed.kind() === "ipv4" ? 24 : 48;
  const octets = parsed.toByteArray().map((octet, index) => (index < bits / 8 ? octet : 0));
  return `${ipaddr.fromByteArray(octets)}/${bits}`;
}

function findMachine(
  { agents, networks }: RulesFile["machines"],
  { headers, address, agent }: VisitorRequest & { readonly agent: string },
): string | undefined {
  if (PREFETCH_HEADERS.some((name) => /prefetch|preview|prerender/i.test(String(headers[name] ?? ""))))
    return "prefetch";
  const known = agents.find((machine) => machine.pattern.test(agent));
  if (known !== undefined) return known.name;
  if (!ipaddr.isValid(address)) return undefined;
  const parsed = ipaddr.process(address);
  return networks.find(({ block: [network, bits] }) => network.kind() === parsed.kind() && parsed.match(network, bits))
    ?.name;
}
