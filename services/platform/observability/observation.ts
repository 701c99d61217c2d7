/** What went wrong, as it was thrown. */
interface Failure {
  readonly err: unknown;
}

/** A bounce of one recipient, as far as figures are made of it. */
export interface ObservedBounce {
  readonly hard: boolean;
  readonly reason: string;
}

/** What becomes of one attempt at a delivery. */
interface Attempt {
  readonly deliveryId: number;
  /** The far side's, or ours. */
  readonly words: string;
  readonly bounceClass: ObservedBounce | undefined;
}

/** A batch of events that was to go to a webhook. */
interface WebhookBatch {
  readonly instanceId: number;
  readonly batchId: number;
  readonly outcome: string;
}

/** Whom a message that comes in is for. */
export type InboundClass = "returnPath" | "feedback" | "report";

/** A zone that a name server is to serve. */
interface PublishedZone {
  readonly zone: string;
  readonly zoneId: number;
}

/** A request that a service answers. */
interface Request {
  readonly requestId: string;
  readonly method: string;
  readonly path: string;
}

/** By its kind, in kebab-case, the detail of all that is worth knowing. Never a credential, a message body or a recipient. */
export interface ObservationDetails {
  // HTTP services
  "http-request": Request & { readonly status: number; readonly ms: number };
  "http-response-failed": Failure;
  /** The listener reports an error, and stays. */
  "http-listener-failed": Failure & { readonly listener: string };
  "request-failed": Request & Failure;
  "database-away": Request & Failure;
  "large-requests-failed": Failure;
  "observation-not-told": { readonly of: string; readonly reason: string };
  "certificate-reloaded": { readonly file: string };
  "certificate-not-reloaded": Failure & { readonly file: string };
  "traces-lost": Failure;
  "traces-sent-again": object;

  // Keys and logins
  "key-wrong": { readonly client: string; readonly failures?: number };
  "token-use-not-noted": Failure;
  "key-not-looked-at": { readonly client: string };
  "submission-login-failed": { readonly client: string; readonly user: string; readonly failures: number };

  // SMTP listeners
  "smtp-connections-limited": { readonly listener: string | undefined; readonly client: string };
  "smtp-session-failed": Failure & { readonly listener: string };
  "smtp-handler-failed": Failure & { readonly listener: string; readonly session: string };
  "smtp-dialogue-ended": { readonly listener: string | undefined; readonly client: string; readonly said: string };
  "submission-accepted": { readonly eeid: string; readonly recipients: number; readonly octets: number };

  // Delivery
  "queue-not-read": Failure;
  "queue-notices-lost": Failure;
  "stops-not-read": Failure;
  "leases-not-prolonged": Failure;
  "machines-away": { readonly machines: readonly string[] };
  "machines-not-asked": Failure;
  "leases-taken-over": {
    readonly worker: string;
    readonly partitions: number;
    readonly recipients: number;
    /** At most so many messages are sent a second time. */
    readonly mostRepeated: number;
  };
  "lane-failed": Failure & { readonly partition: number };
  "back-off-not-stored": Failure;
  "pace-not-exchanged": Failure;
  /** A provider wants less of a source. */
  "pace-refused": { readonly source: string; readonly provider: string; readonly concerns: string };
  /** A new source at a provider sends nothing for a while, as deferrals or complaints rose. */
  "warm-up-paused": { readonly source: string; readonly provider: string; readonly reason: string };
  "message-not-composed": Failure & { readonly deliveryId: number };
  "delivery-delivered": Attempt;
  "delivery-deferred": Attempt;
  "delivery-bounced": Attempt;
  "outcomes-not-stored": Failure & { readonly outcomes: number };
  /** What became of what a sender was to be told. */
  "delivery-report": { readonly of: string; readonly outcome: string; readonly recipients: number };
  /** Nothing can be made of what is stored of a message: its sender is not told of it. */
  "report-not-made": Failure & { readonly instance: string; readonly eeid: string };
  /** Of one instance, or of all where none is named. */
  "reports-not-sent": Failure & { readonly instanceId?: number };
  /** What became of a report about TLS to a domain, by mail or HTTPS. */
  "tls-report": { readonly destination: string; readonly by: string; readonly outcome: string; readonly reply: string };
  "sts-policy-not-read": { readonly domain: string; readonly reason: string };
  /** Of one campaign, or what is held of one batch, or of all where none is named. */
  "campaigns-not-run": Failure & { readonly campaign?: number; readonly eeid?: string };
  "campaign-not-started": { readonly campaign: number; readonly reason: string };
  "campaign-started": { readonly campaign: number };
  "campaign-paused": { readonly campaign: number; readonly reason: string };

  "instance-held": { readonly instance: string; readonly detector: string; readonly reason: string };
  "instance-suspicious": { readonly instance: string; readonly detector: string; readonly reason: string };
  /** Of one instance, or of all where none is named. */
  "guard-failed": Failure & { readonly instance?: string };
  "guard-notice-failed": Failure & { readonly instance: string };
  "place-not-noted": Failure;
  "content-not-scanned": Failure;
  "content-judged": { readonly action: string; readonly score: number | null };

  // The way back
  "inbound-recipient-refused": { readonly client: string; readonly reason: string | undefined };
  "inbound-refused": { readonly client?: string; readonly recipientClass: InboundClass; readonly reason: string };
  "inbound-dropped": { readonly recipientClass: InboundClass; readonly reason: string };
  "inbound-stored": { readonly recipients: number; readonly octets: number };
  "inbound-trimmed": { readonly recipientClass: InboundClass; readonly messages: number };
  "inbound-not-applied": Failure & { readonly id: number };
  "inbound-applied": {
    readonly id: number;
    readonly finding: string;
    readonly consequence: string;
    /** Of the message that it is about, where that is known. */
    readonly deliveryId: number | undefined;
    readonly bounces: readonly ObservedBounce[];
  };
  /** A report about a sender domain counts. */
  "report-counted": {
    readonly report: "dmarc" | "tls";
    readonly instanceId: number;
    readonly domain: string;
    readonly reporter: string;
    /** Messages, or sessions. */
    readonly count: number;
    /** Sources that passed DMARC, or failed, for the first time: the first of them. */
    readonly newlyPassing: readonly string[];
    readonly newlyFailing: readonly string[];
  };
  "bounce-worker-failed": Failure;
  "wordings-not-read": Failure;
  "mailbox-polled": { readonly mailbox: string; readonly taken: number };
  "mailbox-not-polled": Failure & { readonly mailbox: string };
  "mailbox-not-watched": Failure & { readonly mailbox: string };
  "mailbox-poller-failed": Failure;
  "mailbox-watcher-failed": Failure;

  // Tracking, webhooks, maintenance of the mail API
  "tracking-request-failed": Failure;
  "tracking-events-wait": Failure;
  "tracking-events-stored-again": object;
  "tracking-event-dropped": Failure & { readonly touchKind: string; readonly deliveryId: number };
  "tracking-event-lost": Failure & { readonly touchKind: string };
  "tracked-links-not-refreshed": Failure;
  "subscription-change-waits": Failure;
  "preferences-not-shown": Failure;
  "webhook-work-failed": Failure;
  "webhook-not-served": Failure;
  "webhook-delivered": WebhookBatch;
  "webhook-waiting": WebhookBatch;
  "webhook-failed": WebhookBatch;
  "event-stream-opened": { readonly instanceId: number };
  "event-stream-ended": { readonly instanceId: number; readonly why: string };
  /** Of one instance, or as a whole where none is named. */
  "maintenance-failed": Failure & { readonly task: string; readonly instanceId?: number };

  // Sender domains
  "domain-upkeep-failed": Failure;
  "domain-check-failed": Failure & { readonly domain: string; readonly instanceId: number };
  "certificate-obtained": { readonly host: string; readonly instanceId: number };
  "certificate-not-obtained": { readonly host: string; readonly instanceId: number; readonly reason: string };
  "host-certificate-not-read": Failure & { readonly host: string };
  "dkim-key-took-over": { readonly domain: string; readonly instanceId: number; readonly selector: string };
  "dkim-key-removed": { readonly domain: string; readonly instanceId: number; readonly selector: string };

  // Zones
  "zones-published": {
    readonly changed: number;
    readonly zones: number;
    readonly octets: number;
    readonly ms: number;
  };
  "zones-unreadable": Failure & { readonly retryMs: number };
  "zones-from-snapshot": { readonly zones: number; readonly ageSeconds: number; readonly ms: number };
  "snapshot-written": { readonly zones: number; readonly ms: number };
  "snapshot-not-written": Failure;
  "snapshot-unreadable": Failure;
  "zone-fits-again": PublishedZone;
  "zone-corrupt": PublishedZone & Failure;
  /** The zone is read whole. */
  "journal-corrupt": PublishedZone & Failure;
  "zone-left-out": PublishedZone & {
    readonly servesLastVersion: boolean;
    readonly takenOctets: number;
    readonly usedOctets: number;
    readonly totalOctets: number;
  };
  /** Of PALOMAR_DNS_RESELLERS. */
  "resellers-unknown": { readonly resellers: readonly string[] };
  "zone-not-withheld": PublishedZone;
  "zone-notice-failed": Failure;
  "zone-journal-pruned": { readonly removed: number };
  "zone-journal-pruning-failed": Failure;
  "upkeep-failed": Failure & { readonly task: string };
  /** Of a catalog or a feed. */
  "zone-upkeep-failed": Failure & { readonly zoneId: number };
  "traffic-report-failed": Failure;
  "zone-signed": { readonly zone: string; readonly serial: number };
  "zone-signing-failed": Failure & { readonly zone: string };
  "zone-check-failed": Failure & { readonly zone: string };
  "zone-repaired": { readonly zone: string; readonly serial: number };
  "dnssec-upkeep-failed": Failure;

  // DNS listeners and secondaries
  "dns-udp-portable": { readonly reason: string };
  "answer-failed": Failure;
  "tsig-refused": { readonly error: string; readonly keyName: string };
  /** Aliases and pools are not looked after for now; their zones stay as they are. */
  "followers-unreadable": Failure;
  "follower-failed": Failure & { readonly zone: string };
  "zone-followed": { readonly zone: string; readonly serial: number };
  "pool-member-turned": {
    readonly zone: string;
    readonly pool: string;
    readonly member: string;
    readonly address: string;
    readonly up: boolean;
  };
  "updates-unreadable": Failure;
  "updates-not-queued": Failure;
  "update-failed": Failure;
  "update-refused": { readonly client: string; readonly rcode: number; readonly refusal: string };
  "transfer-sent": {
    readonly zone: string;
    readonly client: string;
    /** Of the TSIG key; absent where the request was not signed. */
    readonly keyName?: string;
    readonly asked: string;
    readonly isWhole: boolean;
  };
  "transfer-failed": Failure;
  "transfer-access-read": { readonly version: number };
  "transfer-access-unreadable": Failure;
  /** What of it lets nobody in, a line each: the first of what was not told before, and how much that is. */
  "transfer-access-left-out": { readonly unreadable: readonly string[]; readonly count: number };
  "notify-failed": Failure & { readonly zone: string; readonly server?: string };
  /** Of zones that wait to have their NS told: how many there are. */
  "name-servers-unreadable": Failure & { readonly zones: number };
  "notify-given-up": { readonly zone: string; readonly server: string };

  // Console and sandbox
  "api-away": Failure & { readonly address: string };
  "console-job-failed": Failure & { readonly job: string };
  "console-job-unsettled": Failure & { readonly job: string };
  "console-job-heartbeat-failed": Failure & { readonly job: string };
  "sandbox-session-failed": Failure;
  "sandbox-not-stored": Failure;
  "sandbox-not-purged": Failure;
  "sandbox-reports-waiting": { readonly err?: unknown; readonly failure?: unknown };
  "sandbox-report-refused": { readonly reply: string };
}

export type ObservationKind = keyof ObservationDetails;

/** Something worth knowing happened. */
export type Observation<Kind extends ObservationKind = ObservationKind> = {
  [K in Kind]: ObservationDetails[K] & {
    readonly kind: K;
    /** How loud it is in the log; `debug` unless said. */
    readonly level?: "debug" | "info" | "warn" | "error";
  };
}[Kind];

export type Observe = (observation: Observation) => void;

/** For some kinds, what follows from an observation of theirs. */
export type Consequences<Arguments extends readonly unknown[], Outcome> = {
  readonly [Kind in ObservationKind]?: (observation: Observation<Kind>, ...rest: Arguments) => Outcome;
};

/** What follows from an observation; undefined where nothing does. */
export function consequenceOf<Kind extends ObservationKind, Arguments extends readonly unknown[], Outcome>(
  consequences: Consequences<Arguments, Outcome>,
  observation: Observation<Kind>,
  ...rest: Arguments
): Outcome | undefined {
  return consequences[observation.kind as Kind]?.(observation, ...rest);
}
