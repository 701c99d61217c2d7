import type { IncomingHttpHeaders } from "node:http";
import ipaddr from "ipaddr.js";
import { isbot } from "isbot";
import { UAParser } from "ua-parser-js";
import { z } from "zod";
import { recentMap } from "../core/recent-map.ts";
import type { MachineRule, Visitor } from "../operations/mail/tracking-events.ts";
import { networkOf } from "../platform/lookups/address-blocks.ts";
import type { FindPlace } from "../platform/lookups/places.ts";
import type { RecallReader } from "../store/mail/tracking/tracking-readers.ts";

/** Judges requests by config/user-agents.json. */
export interface VisitorRules {
  readonly allLinks: MachineRule["allLinks"];
  /** A HEAD that came so shortly before shows a machine. */
  readonly headFirst: { readonly withinSeconds: number };
  describe(request: VisitorRequest): Visitor;
  readonly recall: RecallReader;
}

interface VisitorRequest {
  readonly headers: IncomingHttpHeaders;
  readonly address: string;
}

const pattern = z.string().transform((text) => new RegExp(text, "i"));
const block = z.string().transform((text) => ipaddr.parseCIDR(text));
const rulesFile = z.object({
  machines: z.object({
    agents: z.array(z.object({ name: z.string(), pattern })),
    mailPrograms: pattern,
    networks: z.array(z.object({ name: z.string(), block })),
    allLinks: z.array(z.object({ atLeast: z.int().min(2), withinSeconds: z.int().min(1) })),
    headFirst: z.object({ withinSeconds: z.int().min(0) }),
  }),
  devices: z.array(
    z.object({
      device: z.string(),
      subtype: z.string(),
      id: z.int(),
      type: pattern.optional(),
      os: pattern.optional(),
      agent: pattern.optional(),
    }),
  ),
});
type RulesFile = z.infer<typeof rulesFile>;

/** What a User-Agent alone tells. */
interface Program {
  readonly machine: string | undefined;
  readonly device: string;
  readonly deviceSubtypeId: number | null;
}

const MOST_AGENT_CHARACTERS = 256;
/** Reading a User-Agent takes some 80 µs, and a few hundred are most of the traffic; so it is with proxies' addresses. */
const REMEMBERED = 2_000;
/** Browsers and proxies say so when nobody looks yet (Fetch Metadata, and older spellings of it). */
const PREFETCH_HEADERS = ["sec-purpose", "purpose", "x-purpose", "x-moz"];

/** @param data content of config/user-agents.json @throws naming what is wrong in it */
export function compileVisitorRules(data: unknown, findPlace: FindPlace): VisitorRules {
  const rules = rulesFile.parse(data);
  const programOf = remember((agent: string) => readProgram(rules, agent));
  const originOf = remember((address: string) => ({
    machine: findMachineNetwork(rules.machines, address),
    place: findPlace(address),
    // Without the part that tells its users apart.
    network: ipaddr.isValid(address) ? networkOf(address) : "",
  }));
  return {
    allLinks: rules.machines.allLinks,
    headFirst: rules.machines.headFirst,
    describe: ({ headers, address }) => {
      const agent = (headers["user-agent"] ?? "").slice(0, MOST_AGENT_CHARACTERS);
      const { machine, device, deviceSubtypeId } = programOf(agent);
      const origin = originOf(address);
      return {
        machine: isPrefetch(headers) ? "prefetch" : (machine ?? origin.machine),
        device,
        deviceSubtypeId,
        place: origin.place,
        userAgent: agent,
        network: origin.network,
      };
    },
    recall: ({ userAgent, network }) => {
      const { device, deviceSubtypeId } = programOf(userAgent);
      return { device, deviceSubtypeId, place: originOf(network.replace(/\/.*/, "")).place };
    },
  };
}

function readProgram({ machines, devices }: RulesFile, agent: string): Program {
  const parser = new UAParser(agent);
  const type = parser.getDevice().type ?? "";
  const os = parser.getOS().name ?? "";
  const device = devices.find(
    (rule) => (rule.type?.test(type) ?? true) && (rule.os?.test(os) ?? true) && (rule.agent?.test(agent) ?? true),
  );
  return {
    machine: findMachineAgent(machines, agent),
    device: device?.device ?? "",
    deviceSubtypeId: device?.id ?? null,
  };
}

/** Mail programs that name themselves as programs do are read by people all the same. */
function findMachineAgent({ agents, mailPrograms }: RulesFile["machines"], agent: string): string | undefined {
  if (agent === "") return "no-agent";
  const known = agents.find(({ pattern }) => pattern.test(agent))?.name;
  return known ?? (isbot(agent) && !mailPrograms.test(agent) ? "program" : undefined);
}

/** Keeps the answers to the questions that were asked last. */
function remember<Answer>(answer: (question: string) => Answer): (question: string) => Answer {
  const known = recentMap<string, Answer>(REMEMBERED);
  return (question) => {
    const found = known.get(question) ?? answer(question);
    known.set(question, found);
    return found;
  };
}

function isPrefetch(headers: IncomingHttpHeaders): boolean {
  return PREFETCH_HEADERS.some((name) => /prefetch|preview|prerender/i.test(String(headers[name] ?? "")));
}

function findMachineNetwork({ networks }: RulesFile["machines"], address: string): string | undefined {
  if (!ipaddr.isValid(address)) return undefined;
  const parsed = ipaddr.process(address);
  return networks.find(({ block: [network, bits] }) => network.kind() === parsed.kind() && parsed.match(network, bits))
    ?.name;
}
