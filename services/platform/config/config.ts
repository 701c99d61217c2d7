import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import type { KeyRing } from "../../core/key-ring.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import {
  addressBlocks,
  addressList,
  choice,
  type Delivery,
  delivery,
  domain,
  type HostPort,
  hostPort,
  httpUrl,
  keyFile,
  keyValues,
  listenList,
  logLevel,
  octets,
  optional,
  type Parse,
  path,
  postgresUrl,
  resellerList,
  secondsList,
  secretList,
  share,
  text,
  wholeNumber,
  zoneDatabaseOctets,
} from "./config-values.ts";

/** One variable: how it is written, what it is when unset, what it is for. The reference in the docs is made from this table. */
export interface Variable<T> {
  readonly parse: Parse<T>;
  /** The text that is parsed when the variable is unset; null when unset is a value of its own. */
  readonly fallback: string | null;
  readonly meaning: string;
}

const variable = <T>(parse: Parse<T>, fallback: string | null, meaning: string): Variable<T> => ({
  parse,
  fallback,
  meaning,
});

const trueFalse = choice("true", "false");

/** As the specification of OpenTelemetry's SDK names them. */
const TRACE_SAMPLERS = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
] as const;

/** Every variable the product reads, in the order of the documentation. Nothing else reads the environment. */
export const VARIABLES = {
  PALOMAR_MAIL_API_LISTEN: variable(listenList, "127.0.0.1:8025", "mail API"),
  PALOMAR_DNS_API_LISTEN: variable(listenList, "127.0.0.1:8053", "DNS API"),
  PALOMAR_DNS_API_TLS_LISTEN: variable(listenList, "off", "the DNS API over HTTPS"),
  PALOMAR_CONSOLE_LISTEN: variable(listenList, "127.0.0.1:8080", "console and operator API"),
  PALOMAR_TRACKING_LISTEN: variable(listenList, "127.0.0.1:8026", "opens, clicks, unsubscriptions, conversions"),
  PALOMAR_TRACKING_TLS_LISTEN: variable(
    listenList,
    "off",
    "the same over HTTPS, with the certificate of each host: MTA-STS policies need it, where no proxy has one",
  ),
  PALOMAR_DNS_LISTEN: variable(listenList, "127.0.0.1:5300", "authoritative DNS, UDP and TCP"),
  PALOMAR_DNS_TLS_LISTEN: variable(listenList, "off", "authoritative DNS over TLS"),
  PALOMAR_DNS_HTTPS_LISTEN: variable(listenList, "off", "authoritative DNS over HTTPS, at /dns-query"),
  PALOMAR_SUBMISSION_LISTEN: variable(listenList, "127.0.0.1:2587", "submission with STARTTLS"),
  PALOMAR_SUBMISSIONS_LISTEN: variable(listenList, "127.0.0.1:2465", "submission over implicit TLS"),
  PALOMAR_MX_LISTEN: variable(listenList, "127.0.0.1:2525", "inbound SMTP: bounces and feedback loops"),
  PALOMAR_SANDBOX_LISTEN: variable(listenList, "127.0.0.1:0", "the inbox of the sandbox, SMTP"),
  PALOMAR_METRICS_LISTEN: variable(listenList, "127.0.0.1:9464", "/metrics, /healthz, /readyz"),
  PALOMAR_TRACKING_URL: variable(
    optional(httpUrl),
    null,
    "public base of tracking links; the tracking listener's own when unset",
  ),
  PALOMAR_BOUNCE_DOMAIN: variable(domain, "bounces.localhost", "domain of the VERP return path"),
  PALOMAR_DATA_DIR: variable(path, "./data", "embedded database, certificates, secrets, first-run credentials"),
  DATABASE_URL: variable(
    optional(postgresUrl),
    null,
    "PostgreSQL to use; the embedded one under the data folder when unset",
  ),
  PALOMAR_LISTEN_DATABASE_URL: variable(
    optional(postgresUrl),
    null,
    "the same database without a pooler between, for LISTEN, where DATABASE_URL is a pooler's (PgBouncer in transaction mode)",
  ),
  PALOMAR_DATABASE_CONNECTIONS: variable(
    wholeNumber(2, 500),
    "10",
    "connections to PostgreSQL, at most, per service; for large requests each API has 4 more",
  ),
  PALOMAR_DATABASE_STANDBYS: variable(
    wholeNumber(0, 100),
    "0",
    "standbys that the database should have: `palomar status` and an alert tell when fewer are connected",
  ),
  PALOMAR_DELIVERY: variable(delivery, "sandbox", "sandbox, mx, or smtp://host:port of a smart host"),
  PALOMAR_SECRET: variable(
    optional(text(16, 8192)),
    null,
    "every key is derived from it; generated into the data folder with the embedded database, required with DATABASE_URL unless PALOMAR_KEYS is set",
  ),
  PALOMAR_SECRET_PREVIOUS: variable(
    secretList,
    "",
    "secrets that PALOMAR_SECRET took the place of, parted by commas: what they made is still accepted",
  ),
  PALOMAR_KEYS: variable(
    optional(keyFile),
    null,
    "the keys of the services that run here, in the place of PALOMAR_SECRET, as `palomar secret keys` writes them",
  ),
  PALOMAR_RETRY_SECONDS: variable(
    optional(secondsList),
    null,
    "waits between delivery attempts; those of config/retry.json when unset, which has others for the sandbox",
  ),
  PALOMAR_GIVE_UP_HOURS: variable(
    optional(wholeNumber(1, 24 * 30)),
    null,
    "age at which a delivery is given up; that of config/retry.json when unset",
  ),
  PALOMAR_ATTEMPT_RETENTION_DAYS: variable(
    wholeNumber(0, 3_650),
    "30",
    "days that what was seen of each delivery attempt is kept, and up to a week more; 0: nothing is",
  ),
  PALOMAR_HARD_BOUNCES_TO_INVALIDATE: variable(
    wholeNumber(1, 100),
    "2",
    "hard bounces of different messages that make a contact invalid",
  ),
  PALOMAR_FETCH_ALLOW: variable(
    addressBlocks,
    "",
    "private blocks that fetched URLs and webhooks may reach; metadata servers of clouds only where an entry is that very address",
  ),
  PALOMAR_FOLLOW_ALLOW: variable(
    addressBlocks,
    "",
    "private blocks that aliases and pools may publish, and whose addresses health checks may go to; no bound of checks is held there",
  ),
  PALOMAR_CHECKING_NODE: variable(
    text(1, 64),
    "main",
    "what the health checks of this process are called among those of other places; off: it makes none",
  ),
  PALOMAR_RESOLVER: variable(
    optional(hostPort),
    null,
    "resolver for every look-up, best one that validates (AD); the system's when unset",
  ),
  PALOMAR_DANE: variable(
    choice("auto", "off"),
    "auto",
    "auto: mail goes by TLSA records that PALOMAR_RESOLVER has validated (it must set AD); off: by none",
  ),
  PALOMAR_TLS_REPORTS: variable(
    choice("on", "off"),
    "off",
    "on: domains that ask for it are told daily what came of TLS in deliveries to them (RFC 8460)",
  ),
  PALOMAR_FEEDBACK_ADDRESSES: variable(
    optional(addressList),
    null,
    "addresses that take complaint reports; fbl@<bounce domain> when unset",
  ),
  PALOMAR_MAX_MESSAGE_SIZE: variable(octets, "25MiB", "largest message that submission takes"),
  PALOMAR_MX_MAX_SIZE: variable(octets, "50MiB", "largest message that the MX listener takes"),
  PALOMAR_API_BODY_LIMIT: variable(octets, "32MiB", "largest request body of the APIs"),
  PALOMAR_API_REQUESTS_PER_SECOND: variable(wholeNumber(1, 1_000_000), "200", "requests per second for each API key"),
  PALOMAR_CONSOLE_IDLE_HOURS: variable(wholeNumber(1, 24 * 30), "12", "a console session unused for so long ends"),
  PALOMAR_CONSOLE_SESSION_DAYS: variable(
    wholeNumber(1, 365),
    "7",
    "a console session ends after so long at the latest",
  ),
  PALOMAR_CONSOLE_AUDIT_DAYS: variable(wholeNumber(1, 3_650), "400", "how long the console's audit log is kept"),
  PALOMAR_TRUSTED_PROXIES: variable(
    addressBlocks,
    "",
    "blocks of reverse proxies before the HTTP services, whose X-Forwarded-For is believed",
  ),
  PALOMAR_SUBMISSION_MAX_RECIPIENTS: variable(wholeNumber(1, 100_000), "1000", "recipients of one submitted message"),
  PALOMAR_SUBMISSION_PLAINTEXT_AUTH: variable(
    choice("off", "loopback"),
    "off",
    "loopback: AUTH is offered without TLS to loopback clients; off: to nobody",
  ),
  PALOMAR_MACHINE_SECONDS: variable(
    wholeNumber(0, 3600),
    "2",
    "an open or click sooner after delivery counts as a machine's",
  ),
  PALOMAR_SENDER_DOMAIN_CHECK: variable(
    optional(trueFalse),
    null,
    "look up a sender domain's existence; false in the sandbox, else true",
  ),
  PALOMAR_DOMAIN_CHECK: variable(
    optional(choice("authoritative", "resolver", "off")),
    null,
    "authoritative, resolver or off: where the hourly check of sender domains, and of new DKIM keys, looks, at the name servers of each zone, at PALOMAR_RESOLVER, or nowhere; off in the sandbox, else authoritative",
  ),
  PALOMAR_GUARD: variable(
    optional(choice("on", "off")),
    null,
    "on or off: whether instances are held, or told of, by what they do (config/guard.json); off in the sandbox, which mail never leaves, else on",
  ),
  PALOMAR_PLACE_DATABASE: variable(
    optional(path),
    null,
    "MMDB file that tells a visitor's place by the address; places stay empty when unset",
  ),
  PALOMAR_RSPAMD: variable(
    optional(httpUrl),
    null,
    "rspamd's HTTP, such as http://127.0.0.1:11333: looks at messages before they are accepted; nobody does when unset",
  ),
  PALOMAR_NOTICE_CAMPAIGN: variable(
    optional(wholeNumber(1, Number.MAX_SAFE_INTEGER)),
    null,
    "numid of the api campaign that notices about held instances are sent under, with its sender; nobody is written to when unset",
  ),
  PALOMAR_NOTICE_ADDRESSES: variable(
    optional(addressList),
    null,
    "operators' addresses for notices about held instances; an instance has its owner's own",
  ),
  PALOMAR_DNS_UDP: variable(
    choice("auto", "portable"),
    "auto",
    "portable: one dgram listener instead of a batching worker per core",
  ),
  PALOMAR_DNS_WORKERS: variable(wholeNumber(0, 256), "0", "UDP workers; 0: one per core"),
  PALOMAR_DNS_NOTIFY_NS: variable(trueFalse, "false", "notify the addresses of a zone's NS as well"),
  PALOMAR_DNS_MEMORY: variable(
    zoneDatabaseOctets,
    "2047MiB",
    "what the zones of dns-server may take of memory, 8MiB to 16376MiB; a zone that does not fit is left out alone",
  ),
  PALOMAR_DNS_ANSWER_CACHE: variable(
    choice("0", "1", "2", "4", "8", "16", "32", "64", "128", "256"),
    "16",
    "MiB of answers that each UDP worker keeps to give them again, a power of two up to 256; 0: none",
  ),
  PALOMAR_DNS_RESELLERS: variable(
    optional(resellerList),
    null,
    "ids of the resellers whose zones dns-server holds, beside feeds; those of all when unset",
  ),
  PALOMAR_DNS_JOURNAL_DAYS: variable(
    wholeNumber(0, 36_500),
    "90",
    "days that every change of a zone stays in its history and can be sent as an incremental transfer",
  ),
  PALOMAR_DNS_JOURNAL_VERSIONS: variable(
    wholeNumber(0, 1_000_000),
    "1000",
    "versions of a zone that stay in its history however old they are; the latest stays with 0 as well",
  ),
  PALOMAR_DNS_RRL: variable(
    wholeNumber(0, 1_000_000),
    "0",
    "equal UDP answers per second for a client network (RRL); 0: no limit",
  ),
  PALOMAR_DNS_RRL_ALLOW: variable(addressBlocks, "", "blocks that RRL does not apply to"),
  PALOMAR_DNS_NSID: variable(
    optional(text(1, 128)),
    null,
    "answer to the NSID option (RFC 5001); unless set, 16 digits that tell hosts apart and do not name them",
  ),
  PALOMAR_DNS_VERSION: variable(optional(text(1, 255)), null, "answer to CH TXT version.bind; refused when unset"),
  PALOMAR_DNS_ID: variable(
    optional(text(1, 255)),
    null,
    "answer to CH TXT id.server and hostname.bind; refused when unset",
  ),
  PALOMAR_TLS_CERT: variable(
    optional(path),
    null,
    "PEM certificate of SMTP, of DNS over TLS and HTTPS, of the DNS API and of tracking over HTTPS; self-signed into the data folder when unset",
  ),
  PALOMAR_TLS_KEY: variable(optional(path), null, "PEM private key of that certificate"),
  PALOMAR_ACME_DIRECTORY: variable(
    optional(httpUrl),
    null,
    "directory of a certificate authority (RFC 8555): hosts of MTA-STS policies in zones that are hosted here get certificates, and who sets it agrees to its terms; none when unset",
  ),
  PALOMAR_HOSTNAME: variable(domain, "localhost", "the name that the SMTP services greet with"),
  PALOMAR_NODE: variable(
    optional(text(1, 128)),
    null,
    "what this stack is called among the nodes; when unset the host name, and the services where it runs only some",
  ),
  PALOMAR_POWERDNS_API: variable(trueFalse, "true", "PowerDNS's API on the listener of the DNS API"),
  PALOMAR_LIMIT_LOOPBACK: variable(trueFalse, "false", "apply rate limits and connection caps to loopback clients too"),
  PALOMAR_LOG_LEVEL: variable(logLevel, "info", "trace, debug, info, warn, error or silent"),
  OTEL_EXPORTER_OTLP_ENDPOINT: variable(
    optional(httpUrl),
    null,
    "collector of traces, OTLP over HTTP in JSON: they go to `/v1/traces` below it; no traces when unset",
  ),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: variable(optional(httpUrl), null, "the same, and the whole URL"),
  OTEL_EXPORTER_OTLP_HEADERS: variable(keyValues, "", "headers for the collector, name=value parted by commas"),
  OTEL_SERVICE_NAME: variable(
    optional(text(1, 255)),
    null,
    "what every service of this node is called in traces; `palomar-<service>` when unset",
  ),
  OTEL_RESOURCE_ATTRIBUTES: variable(keyValues, "", "what else traces say of this node, name=value parted by commas"),
  OTEL_TRACES_SAMPLER: variable(
    choice(...TRACE_SAMPLERS),
    "parentbased_always_on",
    `which traces are kept: ${TRACE_SAMPLERS.join(", ")}`,
  ),
  OTEL_TRACES_SAMPLER_ARG: variable(share, "1", "the share of traces that `traceidratio` keeps, 0 to 1"),
  OTEL_SDK_DISABLED: variable(trueFalse, "false", "true: no traces, whatever else is set"),
} as const;

export type VariableName = keyof typeof VARIABLES;

/** Variables that hold a secret may stand in a file, which `<name>_FILE` names, as container engines hand secrets over. */
export const FILE_VARIABLES = [
  "DATABASE_URL_FILE",
  "PALOMAR_LISTEN_DATABASE_URL_FILE",
  "PALOMAR_SECRET_FILE",
  "PALOMAR_SECRET_PREVIOUS_FILE",
  "PALOMAR_KEYS_FILE",
  "OTEL_EXPORTER_OTLP_HEADERS_FILE",
] as const satisfies readonly `${VariableName}_FILE`[];

type ValueOf<V> = V extends Variable<infer T> ? T : never;
type Values = { -readonly [K in keyof typeof VARIABLES]: ValueOf<(typeof VARIABLES)[K]> };

/** The whole configuration: built once from the environment, frozen, passed down. */
export interface Config {
  readonly listen: {
    readonly mailApi: readonly HostPort[];
    readonly dnsApi: readonly HostPort[];
    readonly dnsApiTls: readonly HostPort[];
    readonly console: readonly HostPort[];
    readonly tracking: readonly HostPort[];
    readonly trackingTls: readonly HostPort[];
    readonly dns: readonly HostPort[];
    readonly dnsTls: readonly HostPort[];
    readonly dnsHttps: readonly HostPort[];
    readonly submission: readonly HostPort[];
    readonly submissions: readonly HostPort[];
    readonly mx: readonly HostPort[];
    readonly sandbox: readonly HostPort[];
    readonly metrics: readonly HostPort[];
  };
  readonly trackingUrl: string | null;
  readonly bounceDomain: string;
  /** Absolute path. */
  readonly dataDir: string;
  readonly databaseUrl: string | null;
  /** The way around a pooler; null: `databaseUrl` is no pooler's. */
  readonly listenDatabaseUrl: string | null;
  readonly databaseConnections: number;
  /** Standbys that the database should have. */
  readonly databaseStandbys: number;
  readonly delivery: Delivery;
  /** As configured; `platform/config/secret.ts` finds or makes the one in force. */
  readonly secret: string | null;
  /** Those before it, the newest first. */
  readonly previousSecrets: readonly string[];
  /** The keys of the services that run here; null: all keys are derived from the secret. */
  readonly keys: KeyRing | null;
  /** Waits between delivery attempts; null: as `config/retry.json` has them. */
  readonly retrySeconds: readonly number[] | null;
  /** Age at which a delivery is given up; null: that of `config/retry.json`. */
  readonly giveUpHours: number | null;
  /** 0: attempts are not kept. */
  readonly attemptRetentionDays: number;
  readonly hardBouncesToInvalidate: number;
  readonly fetchAllow: readonly string[];
  readonly followAllow: readonly string[];
  /** Null: this process makes no health checks. */
  readonly checkingNode: string | null;
  readonly resolver: HostPort | null;
  /** `auto`: where `resolver` validates. */
  readonly dane: "auto" | "off";
  /** Whether sessions are counted, and domains told. */
  readonly tlsReports: boolean;
  readonly feedbackAddresses: readonly string[];
  readonly maxMessageOctets: number;
  readonly mxMaxOctets: number;
  readonly apiBodyLimitOctets: number;
  readonly apiRequestsPerSecond: number;
  readonly console: {
    readonly idleHours: number;
    readonly sessionDays: number;
    readonly auditDays: number;
  };
  readonly trustedProxies: readonly string[];
  readonly submissionMaxRecipients: number;
  readonly submissionPlaintextAuth: "off" | "loopback";
  readonly machineSeconds: number;
  /** Absolute path. */
  readonly placeDatabase: string | null;
  readonly senderDomainCheck: boolean;
  readonly domainCheck: "authoritative" | "resolver" | "off";
  /** Whether instances are held, or told of, by what they do. */
  readonly guard: boolean;
  /** Base of rspamd's HTTP; null: content is not looked at. */
  readonly rspamd: string | null;
  /** Of held instances: under which campaign, null for none, and to which operators. */
  readonly notices: { readonly campaign: number | null; readonly operators: readonly string[] };
  readonly dns: {
    readonly udp: "auto" | "portable";
    /** UDP workers; 0: one per core. */
    readonly workers: number;
    readonly notifyNs: boolean;
    /** Whose zones the DNS server holds; null: those of all. */
    readonly resellers: readonly string[] | null;
    /** Whether the DNS API speaks PowerDNS's API as well. */
    readonly powerdnsApi: boolean;
    /** What the zones may take of memory; a multiple of 8. */
    readonly memoryOctets: number;
    /** Of answers that each UDP worker keeps; 0: none. */
    readonly answerCacheMebioctets: number;
    /** What of a zone's journal stays: changes of so many days, and so many versions however old. */
    readonly journalDays: number;
    readonly journalVersions: number;
    /** Equal answers per second and client network; 0: no limit. */
    readonly rrlPerSecond: number;
    /** Blocks that it does not apply to. */
    readonly rrlAllow: readonly string[];
    readonly nsid: string | null;
    readonly version: string | null;
    readonly serverId: string | null;
  };
  /** Of the authority that certificates are ordered from; null: none are. */
  readonly acmeDirectory: string | null;
  readonly tls: { readonly certPath: string; readonly keyPath: string } | null;
  readonly hostname: string;
  /** What this machine is called among the nodes. */
  readonly node: string;
  readonly limitLoopback: boolean;
  readonly logLevel: string;
  /** Null: none are made. */
  readonly traces: TracesConfig | null;
}

/** Which traces are made, and where they go. */
export interface TracesConfig {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Null: each service has a name of its own. */
  readonly serviceName: string | null;
  readonly resource: Readonly<Record<string, string>>;
  readonly sampler: (typeof TRACE_SAMPLERS)[number];
  /** Of the samplers by ratio: 0 to 1. */
  readonly sampledShare: number;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads the whole configuration.
 * @param env the process environment, unless a test has its own
 * @returns the frozen configuration, or every problem at once, each line naming its variable
 */
export function loadConfig(env: Environment = process.env): Result<Config, string[]> {
  const problems: string[] = [];
  const values = {} as Record<string, unknown>;
  for (const name of Object.keys(VARIABLES) as VariableName[]) {
    const parsed = readValue(env, name);
    if (parsed.ok) values[name] = parsed.value;
    else problems.push(`${name}: ${parsed.error}`);
  }
  problems.push(...judgeSecrets(values));
  const { PALOMAR_TLS_CERT, PALOMAR_TLS_KEY } = values as Partial<Values>;
  if ((PALOMAR_TLS_CERT === null) !== (PALOMAR_TLS_KEY === null)) {
    const missing = PALOMAR_TLS_CERT === null ? "PALOMAR_TLS_CERT" : "PALOMAR_TLS_KEY";
    problems.push(`${missing}: certificate and key go together`);
  }
  return problems.length > 0 ? refuse(problems) : ok(deepFreeze(arrange(values as Values)));
}

/**
 * Keys come from the secret, or from a key file: with both, nobody could tell which count.
 * @param values null: the variable is not set; undefined: it is, and cannot be read
 */
function judgeSecrets(values: Partial<Values>): string[] {
  const { DATABASE_URL, PALOMAR_SECRET, PALOMAR_SECRET_PREVIOUS, PALOMAR_KEYS } = values;
  if (PALOMAR_KEYS === null) {
    const isMissing = DATABASE_URL !== null && PALOMAR_SECRET === null;
    return isMissing ? ["PALOMAR_SECRET: required when DATABASE_URL is set (or PALOMAR_KEYS)"] : [];
  }
  if (DATABASE_URL === null) return ["PALOMAR_KEYS: needs DATABASE_URL; the embedded database goes with its secret"];
  if (PALOMAR_SECRET !== null) return ["PALOMAR_KEYS: set as well as PALOMAR_SECRET"];
  return PALOMAR_SECRET_PREVIOUS?.length !== 0 ? ["PALOMAR_KEYS: set as well as PALOMAR_SECRET_PREVIOUS"] : [];
}

/** The files that variables with secrets name. */
export function secretFiles(env: Environment = process.env): (readonly [variable: string, path: string])[] {
  return FILE_VARIABLES.flatMap((name) => (env[name] ? [[name, env[name]] as const] : []));
}

/** The files and the folder that variables name; null where one names none. */
export interface NamedPaths {
  readonly certPath: string | null;
  readonly keyPath: string | null;
  readonly placeDatabase: string | null;
  readonly dataDir: string;
}

/** They can be looked at although other variables are wrong. */
export function namedPaths(env: Environment = process.env): NamedPaths {
  // Any text is a path.
  const pathOf = <Name extends VariableName>(name: Name) => (readValue(env, name) as { value: Values[Name] }).value;
  return {
    certPath: pathOf("PALOMAR_TLS_CERT"),
    keyPath: pathOf("PALOMAR_TLS_KEY"),
    placeDatabase: pathOf("PALOMAR_PLACE_DATABASE"),
    dataDir: pathOf("PALOMAR_DATA_DIR"),
  };
}

/** Names of the product's prefix that it does not know: most likely misspelt. */
export function unknownVariables(env: Environment = process.env): string[] {
  return Object.keys(env).filter(
    (name) => name.startsWith("PALOMAR_") && !(name in VARIABLES) && !FILE_VARIABLES.some((file) => file === name),
  );
}

/** This process's environment with some variables set, for the processes it starts. */
export function environmentWith(changes: { readonly [name in VariableName]?: string }): NodeJS.ProcessEnv {
  const environment: NodeJS.ProcessEnv = { ...process.env, ...changes };
  for (const name of Object.keys(changes)) delete environment[`${name}_FILE`];
  return environment;
}

/** What a variable says, or its fallback. */
function readValue(env: Environment, name: VariableName): Result<unknown, string> {
  const given = readVariable(env, name);
  const { parse, fallback } = VARIABLES[name];
  // An empty variable counts as unset, as compose files and unit files write it.
  return given.ok ? (parse as Parse<unknown>)(given.value || fallback) : given;
}

/** A variable's text, or that of the file that `<name>_FILE` names; empty when neither is set. */
function readVariable(env: Environment, name: string): Result<string, string> {
  const text = (env[name] ?? "").trim();
  const fileVariable = `${name}_FILE`;
  const file = FILE_VARIABLES.some((known) => known === fileVariable) ? (env[fileVariable] ?? "") : "";
  if (file === "") return ok(text);
  if (text !== "") return refuse(`set as well as ${fileVariable}`);
  try {
    return ok(readFileSync(file, "utf8").trim());
  } catch (error) {
    return refuse(`${fileVariable}: ${(error as Error).message}`);
  }
}

function arrange(v: Values): Config {
  const sandbox = v.PALOMAR_DELIVERY.kind === "sandbox";
  return {
    listen: {
      mailApi: v.PALOMAR_MAIL_API_LISTEN,
      dnsApi: v.PALOMAR_DNS_API_LISTEN,
      dnsApiTls: v.PALOMAR_DNS_API_TLS_LISTEN,
      console: v.PALOMAR_CONSOLE_LISTEN,
      tracking: v.PALOMAR_TRACKING_LISTEN,
      trackingTls: v.PALOMAR_TRACKING_TLS_LISTEN,
      dns: v.PALOMAR_DNS_LISTEN,
      dnsTls: v.PALOMAR_DNS_TLS_LISTEN,
      dnsHttps: v.PALOMAR_DNS_HTTPS_LISTEN,
      submission: v.PALOMAR_SUBMISSION_LISTEN,
      submissions: v.PALOMAR_SUBMISSIONS_LISTEN,
      mx: v.PALOMAR_MX_LISTEN,
      sandbox: v.PALOMAR_SANDBOX_LISTEN,
      metrics: v.PALOMAR_METRICS_LISTEN,
    },
    trackingUrl: v.PALOMAR_TRACKING_URL,
    bounceDomain: v.PALOMAR_BOUNCE_DOMAIN,
    dataDir: v.PALOMAR_DATA_DIR,
    databaseUrl: v.DATABASE_URL,
    listenDatabaseUrl: v.PALOMAR_LISTEN_DATABASE_URL,
    databaseConnections: v.PALOMAR_DATABASE_CONNECTIONS,
    databaseStandbys: v.PALOMAR_DATABASE_STANDBYS,
    delivery: v.PALOMAR_DELIVERY,
    secret: v.PALOMAR_SECRET,
    previousSecrets: v.PALOMAR_SECRET_PREVIOUS,
    keys: v.PALOMAR_KEYS,
    retrySeconds: v.PALOMAR_RETRY_SECONDS,
    giveUpHours: v.PALOMAR_GIVE_UP_HOURS,
    attemptRetentionDays: v.PALOMAR_ATTEMPT_RETENTION_DAYS,
    hardBouncesToInvalidate: v.PALOMAR_HARD_BOUNCES_TO_INVALIDATE,
    fetchAllow: v.PALOMAR_FETCH_ALLOW,
    followAllow: v.PALOMAR_FOLLOW_ALLOW,
    checkingNode: v.PALOMAR_CHECKING_NODE === "off" ? null : v.PALOMAR_CHECKING_NODE,
    resolver: v.PALOMAR_RESOLVER,
    dane: v.PALOMAR_DANE,
    tlsReports: v.PALOMAR_TLS_REPORTS === "on",
    feedbackAddresses: v.PALOMAR_FEEDBACK_ADDRESSES ?? [`fbl@${v.PALOMAR_BOUNCE_DOMAIN}`],
    maxMessageOctets: v.PALOMAR_MAX_MESSAGE_SIZE,
    mxMaxOctets: v.PALOMAR_MX_MAX_SIZE,
    apiBodyLimitOctets: v.PALOMAR_API_BODY_LIMIT,
    apiRequestsPerSecond: v.PALOMAR_API_REQUESTS_PER_SECOND,
    console: {
      idleHours: v.PALOMAR_CONSOLE_IDLE_HOURS,
      sessionDays: v.PALOMAR_CONSOLE_SESSION_DAYS,
      auditDays: v.PALOMAR_CONSOLE_AUDIT_DAYS,
    },
    trustedProxies: v.PALOMAR_TRUSTED_PROXIES,
    submissionMaxRecipients: v.PALOMAR_SUBMISSION_MAX_RECIPIENTS,
    submissionPlaintextAuth: v.PALOMAR_SUBMISSION_PLAINTEXT_AUTH,
    machineSeconds: v.PALOMAR_MACHINE_SECONDS,
    placeDatabase: v.PALOMAR_PLACE_DATABASE,
    senderDomainCheck: v.PALOMAR_SENDER_DOMAIN_CHECK === null ? !sandbox : v.PALOMAR_SENDER_DOMAIN_CHECK === "true",
    domainCheck: v.PALOMAR_DOMAIN_CHECK ?? (sandbox ? "off" : "authoritative"),
    guard: v.PALOMAR_GUARD === null ? !sandbox : v.PALOMAR_GUARD === "on",
    rspamd: v.PALOMAR_RSPAMD,
    notices: { campaign: v.PALOMAR_NOTICE_CAMPAIGN, operators: v.PALOMAR_NOTICE_ADDRESSES ?? [] },
    dns: {
      udp: v.PALOMAR_DNS_UDP,
      workers: v.PALOMAR_DNS_WORKERS,
      notifyNs: v.PALOMAR_DNS_NOTIFY_NS === "true",
      resellers: v.PALOMAR_DNS_RESELLERS,
      powerdnsApi: v.PALOMAR_POWERDNS_API === "true",
      memoryOctets: v.PALOMAR_DNS_MEMORY,
      answerCacheMebioctets: Number(v.PALOMAR_DNS_ANSWER_CACHE),
      journalDays: v.PALOMAR_DNS_JOURNAL_DAYS,
      journalVersions: v.PALOMAR_DNS_JOURNAL_VERSIONS,
      rrlPerSecond: v.PALOMAR_DNS_RRL,
      rrlAllow: v.PALOMAR_DNS_RRL_ALLOW,
      nsid: v.PALOMAR_DNS_NSID,
      version: v.PALOMAR_DNS_VERSION,
      serverId: v.PALOMAR_DNS_ID,
    },
    acmeDirectory: v.PALOMAR_ACME_DIRECTORY,
    tls:
      v.PALOMAR_TLS_CERT !== null && v.PALOMAR_TLS_KEY !== null
        ? { certPath: v.PALOMAR_TLS_CERT, keyPath: v.PALOMAR_TLS_KEY }
        : null,
    hostname: v.PALOMAR_HOSTNAME,
    node: v.PALOMAR_NODE ?? hostname(),
    limitLoopback: v.PALOMAR_LIMIT_LOOPBACK === "true",
    logLevel: v.PALOMAR_LOG_LEVEL,
    traces: arrangeTraces(v),
  };
}

/** The collector's own URL goes before the common one (OpenTelemetry, "Endpoint URLs for OTLP/HTTP"). */
function arrangeTraces(v: Values): TracesConfig | null {
  const common = v.OTEL_EXPORTER_OTLP_ENDPOINT;
  const url = v.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? (common === null ? null : `${common}/v1/traces`);
  if (url === null || v.OTEL_SDK_DISABLED === "true") return null;
  return {
    url,
    headers: v.OTEL_EXPORTER_OTLP_HEADERS,
    serviceName: v.OTEL_SERVICE_NAME,
    resource: v.OTEL_RESOURCE_ATTRIBUTES,
    sampler: v.OTEL_TRACES_SAMPLER,
    sampledShare: v.OTEL_TRACES_SAMPLER_ARG,
  };
}

function deepFreeze<T>(value: T): T {
  if (value !== null && typeof value === "object" && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return value;
}
