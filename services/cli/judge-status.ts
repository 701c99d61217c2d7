import { z } from "zod";
import { counted } from "../core/counted.ts";
import { type Config, VARIABLES } from "../platform/config/config.ts";
import { bySchema, readConfigFile } from "../platform/config/config-file.ts";
import { isLoopback } from "../platform/lookups/address-blocks.ts";
import type { SeenNode } from "../store/dns/nodes.ts";
import type { LeftOutZoneStatus } from "../store/dns/zones-left-out.ts";
import type { DeploymentStatus, ReplicationStatus } from "../store/status.ts";
import type { MachineStatus } from "./machine-status.ts";

/** Zones that do not fit are named up to so many. */
export const MOST_LEFT_OUT = 20;

const amount = z.number().min(0);
const limitsFile = z.strictObject({
  nodeSilentSeconds: amount,
  nodeLagMs: amount,
  queueReadySeconds: amount,
  putOffRecipients: amount,
  paceWaitSeconds: amount,
  inboundWaiting: amount,
  quarantined: amount,
  signingOverdueSeconds: amount,
  replicationLagSeconds: amount,
  certificateDays: amount,
  diskFreePercent: amount,
});

/** Beyond what an operator should look at it: the content of config/status.json. */
export type StatusLimits = z.output<typeof limitsFile>;

/** @throws when config/status.json is not as it should be */
export function loadLimits(): StatusLimits {
  return readConfigFile("status.json", bySchema(limitsFile));
}

/** All that is known of a deployment: by the database, and of the machine that is asked. */
export interface KnownStatus extends DeploymentStatus {
  readonly nodes: readonly SeenNode[];
  /** Zones that name servers have no memory for, the first of them. */
  readonly leftOut: readonly LeftOutZoneStatus[];
  readonly replication: ReplicationStatus;
  /** PALOMAR_DATABASE_STANDBYS. */
  readonly expectedStandbys: number;
  readonly machine: MachineStatus;
}

/** Parts of it are not known where the database is away, or a role may not read them. */
type Known = { readonly [part in keyof KnownStatus]?: KnownStatus[part] | undefined };

/** A line for each thing that is wrong, and what to do about it where that is not plain; undefined where nobody can tell. */
type Judge = (known: Known, limits: StatusLimits) => readonly string[] | undefined;

/** What may be wrong, by the kind that palomar_problems has. */
const JUDGES = {
  node: ({ nodes }, limits) => nodes?.flatMap((node) => judgeNode(node, limits)),
  "missing-service": missingServices,
  "zone-left-out": ({ leftOut }) => leftOut?.map(describeLeftOut),
  "mail-waits": ({ queue }, { queueReadySeconds }) =>
    queue &&
    (queue.readySeconds > queueReadySeconds
      ? [`mail is ready for ${describeSeconds(queue.readySeconds)} now: see the queues by destination in the console`]
      : []),
  "mail-put-off": ({ outcomes }, { putOffRecipients }) =>
    outcomes &&
    (outcomes.settled === 0 && outcomes.putOff > putOffRecipients
      ? [
          `no mail gets through: recipients put off in ${outcomes.minutes} min: ${outcomes.putOff}, and nobody was delivered to. Can this host connect? The queues by destination in the console have the replies`,
        ]
      : []),
  "pace-waits": ({ queue }, { paceWaitSeconds }) =>
    queue?.longestPaceWaits
      .filter(({ seconds }) => seconds > paceWaitSeconds)
      .map(
        ({ source, provider, seconds }) =>
          `nothing goes from ${source} to ${provider} for ${describeSeconds(seconds)}, as it asked: see palomar pace show ${source} ${provider}`,
      ),
  "bounces-wait": ({ inbound }, { inboundWaiting }) =>
    inbound &&
    (inbound.waiting > inboundWaiting ? [`${inbound.waiting} bounces wait: is a bounce service running?`] : []),
  quarantine: ({ inbound }, { quarantined }) =>
    inbound &&
    (inbound.quarantined > quarantined
      ? [`messages in quarantine: ${inbound.quarantined}, look at them in the console`]
      : []),
  mailbox: ({ inbound }) => inbound?.mailboxes.map(({ name, problem }) => `mailbox ${name} cannot be read: ${problem}`),
  "instance-held": ({ held }) => held?.map(({ name, reason }) => `instance ${name} is held: ${reason}`),
  signing: ({ signing }, { signingOverdueSeconds }) =>
    signing &&
    (signing.overdueSeconds > signingOverdueSeconds
      ? [
          `signed zones wait for ${describeSeconds(signing.overdueSeconds)} for their upkeep: is a dns-api running? Its log names those that fail (zone-signing-failed)`,
        ]
      : []),
  "standby-behind": ({ replication }, { replicationLagSeconds }) =>
    replication?.standbys
      .filter(({ seconds }) => seconds > replicationLagSeconds)
      .map(({ standby, seconds }) => `standby ${standby} is ${describeSeconds(seconds)} behind`),
  "standby-gone": missingStandbys,
  disk: ({ machine }, limits) =>
    machine &&
    (machine.diskFreePercent !== null && machine.diskFreePercent < limits.diskFreePercent
      ? [`the disk of the data folder has ${machine.diskFreePercent} % left`]
      : []),
  certificate: ({ machine }, { certificateDays }) => machine && judgeCertificate(machine, certificateDays),
} as const satisfies Readonly<Record<string, Judge>>;

/** What is wrong, by kind; kinds of which nobody can tell are not there. */
export function findProblems(known: Known, limits: StatusLimits): ReadonlyMap<string, readonly string[]> {
  const judged = Object.entries<Judge>(JUDGES).map(([kind, judge]) => [kind, judge(known, limits)] as const);
  return new Map(judged.flatMap(([kind, lines]) => (lines === undefined ? [] : [[kind, lines] as const])));
}

/** What is wrong, a line each. */
export function judgeStatus(known: Known, limits: StatusLimits): string[] {
  return [...findProblems(known, limits).values()].flat();
}

function judgeCertificate({ certificate }: MachineStatus, certificateDays: number): string[] {
  return [
    ...(certificate?.problem ? [`the certificate cannot be used: ${certificate.problem}`] : []),
    ...(certificate?.endsInDays !== undefined && certificate.endsInDays < certificateDays
      ? [describeEnding(certificate.endsInDays)]
      : []),
  ];
}

/** A standby that is gone has no lag: its slot tells of it, or how many there should be. */
function missingStandbys({ replication, expectedStandbys = 0 }: Known): string[] | undefined {
  return (
    replication && [
      ...replication.emptySlots.map(
        (slot) => `no standby takes from the replication slot ${slot}, and what it keeps for one fills the disk`,
      ),
      ...(replication.isWhole && replication.standbys.length < expectedStandbys
        ? [`${replication.standbys.length} of ${expectedStandbys} standbys are connected (PALOMAR_DATABASE_STANDBYS)`]
        : []),
    ]
  );
}

/** What the configuration says of mail that goes out into the world. */
type Settings = Pick<Config, "delivery" | "hostname" | "bounceDomain" | "trackingUrl" | "listen">;

/**
 * What is wrong with the settings of whoever asks.
 * @param unknownResellers ids in PALOMAR_DNS_RESELLERS that no reseller has
 */
export function judgeSettings(settings: Settings, unknownResellers: readonly string[]): string[] {
  return [
    ...(unknownResellers.length > 0
      ? [`PALOMAR_DNS_RESELLERS: there is no reseller ${unknownResellers.join(", ")}`]
      : []),
    ...(settings.delivery.kind === "mx" ? judgeNames(settings) : []),
  ];
}

/** Names that nobody else can reach, in mail that goes to everybody. */
function judgeNames({ hostname, bounceDomain, trackingUrl, listen }: Settings): string[] {
  const linkHost = trackingUrl === null ? listen.tracking[0]?.host : new URL(trackingUrl).hostname;
  const isUnset = (name: "PALOMAR_HOSTNAME" | "PALOMAR_BOUNCE_DOMAIN", value: string) =>
    value === VARIABLES[name].fallback;
  return [
    ...(isUnset("PALOMAR_HOSTNAME", hostname) ? [`PALOMAR_HOSTNAME: mail goes out in the name ${hostname}`] : []),
    ...(isUnset("PALOMAR_BOUNCE_DOMAIN", bounceDomain)
      ? [`PALOMAR_BOUNCE_DOMAIN: bounces are to come to ${bounceDomain}, which nobody else has`]
      : []),
    ...(linkHost !== undefined && (linkHost === "localhost" || isLoopback(linkHost.replace(/^\[|\]$/g, "")))
      ? [`PALOMAR_TRACKING_URL: links in mail lead to ${linkHost}, which is each reader's own machine`]
      : []),
  ];
}

function describeEnding(days: number): string {
  return days < 0 ? "the certificate has ended" : `the certificate ends in ${counted(days, "day")}`;
}

function judgeNode({ node, services, lagMs, silentSeconds }: SeenNode, limits: StatusLimits): string[] {
  if (silentSeconds > limits.nodeSilentSeconds)
    return [`node ${node} has been silent for ${describeSeconds(silentSeconds)}`];
  const notReady = services.filter(({ ready }) => !ready).map(({ name }) => name);
  return [
    ...(notReady.length > 0 ? [`node ${node}: ${notReady.join(", ")} not ready`] : []),
    ...(lagMs !== null && lagMs > limits.nodeLagMs
      ? [`node ${node} answers from zones that are ${describeSeconds(lagMs / 1_000)} old`]
      : []),
  ];
}

/** PALOMAR_DNS_MEMORY is what the operator can change. */
function describeLeftOut({ node, zone, outdated, takenOctets }: LeftOutZoneStatus): string {
  const state = outdated ? "is answered as it was" : "is not answered";
  const needs = `it needs more than ${Math.ceil(takenOctets / 2 ** 20)} MiB`;
  return `zone ${zone} ${state} by node ${node}: it does not fit into PALOMAR_DNS_MEMORY (${needs})`;
}

/** Work that somebody waits for, or that what runs will bring, and that nobody does. */
function missingServices({ nodes, zones, queue, inbound }: Known, limits: StatusLimits): string[] | undefined {
  if (!nodes || !zones || !queue || !inbound) return undefined;
  const running = new Set(
    nodes
      .filter(({ silentSeconds }) => silentSeconds <= limits.nodeSilentSeconds)
      .flatMap(({ services }) => services.map(({ name }) => name)),
  );
  if (running.size === 0) return [];
  const needed: readonly (readonly [string, boolean])[] = [
    ["dns-server", zones.published > 0 || running.has("dns-api")],
    ["delivery", queue.recipients > 0 || running.has("mail-api") || running.has("submission")],
    ["bounce", inbound.waiting > 0 || running.has("delivery")],
    ["tracking", running.has("delivery")],
  ];
  return needed.filter(([name, isNeeded]) => isNeeded && !running.has(name)).map(([name]) => `no node runs ${name}`);
}

export function describeSeconds(seconds: number): string {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} days`;
}
