import { execFileSync, spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  linkSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { type RequestOptions, request as secureRequest } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { freePort, isInstalled } from "../support/peers-processes.ts";
import { eventually } from "../support/stack.ts";

const deploy = join(packageFolder, "deploy");
const folder = mkdtempSync(join(tmpdir(), "palomar-deploy-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const PATH = `${process.env.PATH}:/usr/sbin:/sbin`;
const run = (program: string, ...args: string[]) => {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: "utf8", env: { PATH } });
  return { status, output: `${stdout}${stderr}` };
};
const isRoot = process.platform === "linux" && process.getuid?.() === 0;
const skipNote = (program: string) => (isInstalled(program) ? "" : ` (skipped: ${program} is not installed)`);

test.skipIf(!isInstalled("promtool"))(
  `Prometheus takes its configuration and the alert rules, with an Alertmanager as well${skipNote("promtool")}`,
  () => {
    expect(run("promtool", "check", "rules", join(deploy, "prometheus/alerts.yml")).output).toContain("SUCCESS");
    const file = join(deploy, "prometheus/prometheus.yml");
    expect(run("promtool", "check", "config", file).status).toBe(0);
    const told = readFileSync(file, "utf8")
      .replace(/^# (alerting:| {2}.*)$/gm, "$1")
      .replace("- alerts.yml", "- none.yml");
    expect(told).toMatch(/^alerting:$/m);
    writeFileSync(join(folder, "told.yml"), told);
    expect(run("promtool", "check", "config", "--syntax-only", join(folder, "told.yml"))).toMatchObject({ status: 0 });
  },
);

/** By alert: what is measured each minute for a hundred, in promtool's notation, when it is to fire. */
const FIRING: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  NodeDown: { 'up{job="palomar", instance="one"}': "0x100" },
  ServiceNotReady: { 'palomar_service_ready{service="delivery"}': "0x100" },
  ServiceRestarts: { 'palomar_service_restarts_total{service="delivery"}': "0+1x100" },
  ServiceHung: { 'palomar_service_hangs_total{service="delivery"}': "0x60 1x40" },
  InstanceHeld: { 'palomar_instances_held{by="guard"}': "0x80 1x20" },
  InstanceSuspicious: { 'palomar_observations_total{kind="instance-suspicious"}': "0x80 1x20" },
  DatabaseAway: { palomar_database_up: "0x100" },
  DatabaseTakesNothing: { palomar_database_writable: "0x100" },
  DiskFull: { palomar_disk_free_ratio: "0.04x100" },
  DiskFills: { palomar_disk_free_ratio: "0.14x100" },
  ServiceMissing: { 'palomar_problems{kind="missing-service"}': "1x100" },
  CertificateEnds: { 'palomar_problems{kind="certificate", instance="one"}': "1x100" },
  CertificateOrdersFail: { 'palomar_certificate_orders_total{result="failed"}': "0x50 0+1x50" },
  ZonesStale: { palomar_dns_behind_seconds: "0+60x100" },
  ZonesPublishedSlowly: {
    'palomar_dns_publication_seconds_bucket{le="5"}': "0x100",
    'palomar_dns_publication_seconds_bucket{le="30"}': "0+9x100",
    'palomar_dns_publication_seconds_bucket{le="+Inf"}': "0+9x100",
  },
  ZonesLeftOut: { palomar_dns_zones_left_out: "1x100", palomar_dns_zones_outdated: "0x100" },
  ZoneUnreadable: { 'palomar_dns_zone_unreadable{zone="bad.example."}': "1x100" },
  TransferAccessUnreadable: { 'palomar_dns_transfer_access_unreadable{what="ACL x of reseller y"}': "1x100" },
  ZoneMemoryFull: { palomar_dns_zone_database_octets: "900x100", palomar_dns_zone_database_limit_octets: "1000x100" },
  ServfailRate: {
    'palomar_dns_responses_total{rcode="0"}': "0+900x100",
    'palomar_dns_responses_total{rcode="2"}': "0+90x100",
  },
  RateLimitActive: { palomar_dns_rate_dropped_total: "0+9000x100" },
  SecondariesNotTold: { 'palomar_observations_total{kind="notify-given-up"}': "0x80 12x20" },
  SigningBehind: { palomar_dnssec_overdue_seconds: "0+60x100" },
  PoolMembersDown: { 'palomar_pool_members_turned_total{to="down"}': "0x85 1x15" },
  PoolChecksPutOff: { palomar_pool_checks_put_off_total: "0+600x100" },
  MailWaits: { palomar_queue_ready_seconds: "12000+60x100" },
  PaceWaitsLong: { palomar_pace_longest_wait_seconds: "3000x100" },
  WarmUpPaused: { palomar_warm_up_paused: "1x100" },
  MailStandsStill: {
    palomar_queue_ready_seconds: "0+60x100",
    'palomar_delivery_attempts_total{outcome="delivered"}': "7x100",
  },
  MailPutOff: {
    'palomar_delivery_attempts_total{outcome="delivered"}': "7x100",
    'palomar_delivery_attempts_total{outcome="deferred"}': "0x75 0+30x25",
  },
  // Recipients of a night, tried again every few hours.
  MailPutOffForLong: {
    'palomar_delivery_attempts_total{outcome="delivered"}': "7x100",
    'palomar_delivery_attempts_total{outcome="deferred"}': "0+1x100",
  },
  OutcomesNotStored: { 'palomar_observations_total{kind="outcomes-not-stored"}': "0x65 0+1x35" },
  ManyHardBounces: {
    'palomar_bounces_total{class="hard", reason="userunknown"}': "0+9x100",
    'palomar_delivery_attempts_total{outcome="delivered"}': "0+90x100",
    'palomar_delivery_attempts_total{outcome="bounced"}': "0+9x100",
  },
  Blocked: {
    'palomar_bounces_total{class="soft", reason="blocked"}': "0+9x100",
    'palomar_delivery_attempts_total{outcome="delivered"}': "0+90x100",
  },
  ManyComplaints: {
    palomar_complaints_total: "0+1x100",
    'palomar_delivery_attempts_total{outcome="delivered"}': "0+90x100",
  },
  BouncesWait: { 'palomar_inbound_messages{state="waiting"}': "1001x100" },
  MailboxUnreadable: { 'palomar_problems{kind="mailbox"}': "1x100" },
  SmtpErrors: { 'palomar_smtp_failures_total{listener="submission"}': "0+9x100" },
  InboundTurnedAway: { 'palomar_inbound_refused_total{class="feedback", reason="source-rate"}': "0+60x100" },
  Quarantine: { 'palomar_inbound_messages{state="quarantined"}': "1x100" },
  TouchesLost: { 'palomar_observations_total{kind="tracking-event-lost"}': "0x85 1x15" },
  WebhooksRefused: {
    'palomar_webhook_batches_total{state="waiting"}': "0+1x100",
    'palomar_webhook_batches_total{state="delivered"}': "3x100",
  },
  WebhooksGivenUp: { 'palomar_webhook_batches_total{state="failed"}': "0x80 1x20" },
  KeyGuesses: { 'palomar_observations_total{kind="key-wrong"}': "0+400x100" },
  ApiErrors: {
    'palomar_http_request_seconds_count{service="dns-api", status="2xx"}': "0+900x100",
    'palomar_http_request_seconds_count{service="dns-api", status="5xx"}': "0x82 0+90x18",
  },
  ApiErrorsNowAndThen: {
    'palomar_http_request_seconds_count{service="dns-api", status="2xx"}': "0+5x100",
    'palomar_http_request_seconds_count{service="dns-api", status="5xx"}': "0x20 3x20 6x20 9x40",
  },
  ApiSlow: {
    'palomar_http_request_seconds_bucket{service="dns-api", le="2.5"}': "0x100",
    'palomar_http_request_seconds_bucket{service="dns-api", le="10"}': "0+9x100",
    'palomar_http_request_seconds_bucket{service="dns-api", le="+Inf"}': "0+9x100",
  },
  StandbyBehind: { 'palomar_database_replication_lag_seconds{standby="two"}': "31x100" },
  StandbyGone: { 'palomar_problems{kind="standby-gone"}': "1x100" },
};

/** What is measured of a deployment that is well, with everything at work. */
const QUIET: Readonly<Record<string, string>> = {
  'up{job="palomar", instance="one"}': "1x100",
  'palomar_service_ready{service="delivery"}': "1x100",
  'palomar_service_restarts_total{service="delivery"}': "0x50 1x50",
  'palomar_service_hangs_total{service="delivery"}': "0x100",
  palomar_database_up: "1x100",
  palomar_database_writable: "1x100",
  palomar_disk_free_ratio: "0.5x100",
  ...Object.fromEntries(
    ["missing-service", "certificate", "mailbox", "standby-gone"].map((kind) => [
      `palomar_problems{kind="${kind}"}`,
      "0x100",
    ]),
  ),
  // A domain that leads elsewhere by now is tried again and again, a little less often each time.
  'palomar_certificate_orders_total{result="failed"}': "0x20 1x30 2x50",
  'palomar_smtp_failures_total{listener="submission"}': "0x50 1x50",
  palomar_dns_behind_seconds: "1x100",
  'palomar_dns_publication_seconds_bucket{le="5"}': "0+9x100",
  'palomar_dns_publication_seconds_bucket{le="+Inf"}': "0+9x100",
  'palomar_dns_responses_total{rcode="0"}': "0+900x100",
  // A server that is hardly asked, half of it about a zone that has no memory.
  'palomar_dns_responses_total{rcode="0", instance="two"}': "0+1x100",
  'palomar_dns_responses_total{rcode="2", instance="two"}': "0+1x100",
  palomar_dns_zones_left_out: "0x100",
  palomar_dns_zones_outdated: "0x100",
  palomar_dns_zone_database_octets: "500x100",
  palomar_dns_zone_database_limit_octets: "1000x100",
  palomar_dns_rate_dropped_total: "0+9x100",
  palomar_dnssec_overdue_seconds: "0x100",
  palomar_queue_ready_seconds: "30x100",
  // A provider has a source wait for a minute, again and again; no plan is paused.
  palomar_pace_longest_wait_seconds: "60x100",
  palomar_warm_up_paused: "0x100",
  // Somebody's server refuses for now, for days.
  palomar_queue_oldest_seconds: "200000x100",
  'palomar_queue_partitions{state="ready"}': "5x100",
  'palomar_delivery_attempts_total{outcome="delivered"}': "0+90x100",
  'palomar_delivery_attempts_total{outcome="deferred"}': "0+90x100",
  'palomar_delivery_attempts_total{outcome="bounced"}': "0+1x100",
  // An operator holds somebody, for reasons of their own.
  'palomar_instances_held{by="guard"}': "0x100",
  'palomar_instances_held{by="operator"}': "1x100",
  // Somebody's secondary, somebody's webhook and somebody's old key.
  'palomar_observations_total{kind="notify-given-up"}': "0x80 5x20",
  'palomar_observations_total{kind="key-wrong"}': "0+60x100",
  'palomar_observations_total{kind="outcomes-not-stored"}': "0x78 5x22",
  'palomar_webhook_batches_total{state="delivered"}': "0+1x100",
  'palomar_webhook_batches_total{state="waiting"}': "0+1x100",
  'palomar_bounces_total{class="hard", reason="userunknown"}': "0+1x100",
  palomar_complaints_total: "0x50 3x50",
  'palomar_inbound_messages{state="waiting"}': "3x100",
  'palomar_inbound_messages{state="quarantined"}': "0x100",
  // Somebody sends a report that is too large, again and again; a provider came a little too fast, once.
  'palomar_inbound_refused_total{class="feedback", reason="size"}': "0+60x100",
  'palomar_inbound_refused_total{class="return-path", reason="source-rate"}': "0x50 60x50",
  // A fail-over of half a minute, six minutes ago; and somebody who calls ten times within the hour.
  'palomar_http_request_seconds_count{service="dns-api", status="2xx"}': "0+900x100",
  'palomar_http_request_seconds_count{service="dns-api", status="5xx"}': "0x84 450x16",
  'palomar_http_request_seconds_count{service="mail-api", status="2xx"}': "0x85 1x1 2x1 3x20",
  'palomar_http_request_seconds_count{service="mail-api", status="5xx"}': "0x84 2x1 4x20",
  'palomar_http_request_seconds_bucket{service="dns-api", le="0.5"}': "0+9x100",
  'palomar_http_request_seconds_bucket{service="dns-api", le="+Inf"}': "0+9x100",
  'palomar_database_replication_lag_seconds{standby="two"}': "1x100",
};

test.skipIf(!isInstalled("promtool"))(
  `each alert fires when it should, and none where all is well${skipNote("promtool")}`,
  () => {
    const [head, ...alerts] = readFileSync(join(deploy, "prometheus/alerts.yml"), "utf8").split(/(?=^ *- alert: )/m);
    const nameOf = (alert: string) => /- alert: (\w+)/.exec(alert)![1]!;
    expect(alerts.map(nameOf)).toEqual(Object.keys(FIRING));
    const scene = (series: Readonly<Record<string, string>>, filter: string, firing: number) => ({
      interval: "1m",
      input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
      promql_expr_test: [
        {
          expr: `count(ALERTS{alertstate="firing"${filter}}) or vector(0)`,
          eval_time: "90m",
          exp_samples: [{ labels: "{}", value: firing }],
        },
      ],
    });
    // JSON is YAML as well.
    const write = (name: string, rules: string, tests: readonly unknown[]) => {
      writeFileSync(join(folder, name), JSON.stringify({ rule_files: [rules], tests }));
      return join(folder, name);
    };
    // Without a worker at all, nobody counts attempts.
    const { MailStandsStill } = FIRING as Record<"MailStandsStill", Readonly<Record<string, string>>>;
    const noWorker = Object.fromEntries(Object.entries(MailStandsStill).filter(([name]) => !name.includes("attempts")));
    const files = alerts.map((alert) => {
      const name = nameOf(alert);
      // Each by itself: all of them in each scene cost eight seconds of processor time.
      writeFileSync(join(folder, `${name}.yml`), `${head}${alert}`);
      const scenes = [FIRING[name]!, ...(name === "MailStandsStill" ? [noWorker] : [])];
      return write(
        `${name}-test.yml`,
        join(folder, `${name}.yml`),
        scenes.map((series) => scene(series, `, alertname="${name}"`, 1)),
      );
    });
    files.push(write("quiet-test.yml", join(deploy, "prometheus/alerts.yml"), [scene(QUIET, "", 0)]));
    expect(run("promtool", "test", "rules", ...files)).toEqual({
      status: 0,
      output: expect.stringMatching(/^(Unit Testing: .*\n\s*SUCCESS\s*)+$/),
    });
  },
  300_000,
);

/** By alert: what is measured, as {@link FIRING}, and what it then says. */
const SAID: readonly (readonly [alert: string, series: Readonly<Record<string, string>>, summary: string])[] = [
  [
    "PoolMembersDown",
    { 'palomar_pool_members_turned_total{to="down", instance="one"}': "0x85 1x15" },
    "addresses of pool members that went down in ten minutes: 1; `palomar pool down` lists them",
  ],
  // 300 of 320 recipients do not exist.
  [
    "ManyHardBounces",
    {
      'palomar_bounces_total{noticed="session", class="hard", reason="userunknown"}': "0x60 300x40",
      'palomar_delivery_attempts_total{outcome="delivered"}': "0x60 20x40",
      'palomar_delivery_attempts_total{outcome="bounced"}': "0x60 300x40",
    },
    "93.75% hard bounces: a list is old, or somebody sends to addresses that were bought",
  ],
];

test.skipIf(!isInstalled("promtool"))(`alerts say how many, and what share${skipNote("promtool")}`, () => {
  const rules = readFileSync(join(deploy, "prometheus/alerts.yml"), "utf8");
  const tests = SAID.map(([alertname, series, summary]) => {
    const [, severity, runbook] = new RegExp(`alert: ${alertname}\\n[^]*?severity: (\\w+)[^]*?runbook: (.*)`).exec(
      rules,
    )!;
    return {
      interval: "1m",
      input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
      alert_rule_test: [
        {
          ...{ eval_time: "90m", alertname },
          exp_alerts: [{ exp_labels: { severity }, exp_annotations: { summary, runbook } }],
        },
      ],
    };
  });
  const file = join(folder, "texts-test.yml");
  writeFileSync(file, JSON.stringify({ rule_files: [join(deploy, "prometheus/alerts.yml")], tests }));
  expect(run("promtool", "test", "rules", file)).toEqual({ status: 0, output: expect.stringContaining("SUCCESS") });
});

test.skipIf(!isInstalled("promtool"))(`every query of the dashboards is lawful${skipNote("promtool")}`, () => {
  const queries = dashboards().flatMap(({ panels }) =>
    panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  );
  expect(queries.length).toBeGreaterThan(20);
  const rules = queries.map((expr, index) => `      - record: query_${index}\n        expr: ${JSON.stringify(expr)}`);
  const file = join(folder, "queries.yml");
  writeFileSync(file, `groups:\n  - name: dashboards\n    rules:\n${rules.join("\n")}\n`);
  expect(run("promtool", "check", "rules", file)).toMatchObject({ status: 0 });
});

interface Dashboard {
  readonly uid: string;
  readonly title: string;
  readonly panels: readonly { readonly id: number; readonly targets: readonly { readonly expr: string }[] }[];
}

function dashboards(): Dashboard[] {
  const place = join(deploy, "grafana/dashboards");
  return readdirSync(place).map((file) => JSON.parse(readFileSync(join(place, file), "utf8")));
}

test("the dashboards have names of their own, and their panels numbers", () => {
  const boards = dashboards();
  expect(new Set(boards.map(({ uid }) => uid)).size).toBe(boards.length);
  for (const { panels } of boards) expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
});

describe.skipIf(!isRoot)(`the secrets' rights${isRoot ? "" : " (skipped unless run by root on Linux)"}`, () => {
  const GROUP = 7_262;
  const NOBODY = { uid: 65_534, gid: 65_534, groups: [] };
  let place: string;
  beforeEach(() => {
    place = mkdtempSync(join(tmpdir(), "palomar-secrets-"));
    chmodSync(place, 0o755);
  });
  afterEach(() => rmSync(place, { recursive: true, force: true }));

  interface Account {
    readonly uid: number;
    readonly gid: number;
    readonly groups: readonly number[];
  }
  /** Runs a program as somebody of the host, or of a container, who has no capability. */
  const runAs = ({ uid, gid, groups }: Account, ...command: string[]) => {
    const membership = groups.length > 0 ? `--groups=${groups}` : "--clear-groups";
    return run("setpriv", `--reuid=${uid}`, `--regid=${gid}`, membership, "--bounding-set=-all", ...command);
  };
  const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);
  const modesIn = (secrets: string) =>
    Object.fromEntries(
      readdirSync(secrets).map((name) => [name, `${modeOf(join(secrets, name))} ${statSync(join(secrets, name)).gid}`]),
    );
  /** A container sees a file mounted by itself, wherever it lies on the host: another link of it. */
  const mounted = (secrets: string, name: string) => {
    const link = join(place, `mounted-${name}`);
    rmSync(link, { force: true });
    linkSync(join(secrets, name), link);
    return link;
  };
  const isReadBy = (account: Account, path: string) => runAs(account, "cat", path).status === 0;

  test("made by root, a file is read by the containers that it is for and by nobody else of the host", () => {
    const secrets = join(place, "secrets");
    expect(run(join(deploy, "prepare"), secrets)).toEqual({ status: 0, output: "" });
    expect(modeOf(secrets)).toBe("700");
    const { postgres_password: ownersAlone, ...forContainers } = modesIn(secrets);
    expect(ownersAlone).toBe("600 0");
    expect(new Set(Object.values(forContainers))).toEqual(new Set([`640 ${GROUP}`]));
    for (const name of readdirSync(secrets)) {
      expect(isReadBy(NOBODY, join(secrets, name)), name).toBe(false);
      expect(isReadBy(NOBODY, mounted(secrets, name)), name).toBe(false);
      // As in the containers, whose users are node and Grafana's.
      for (const [uid, gid] of [
        [1_000, 1_000],
        [472, 0],
      ] as const) {
        const container = { uid, gid, groups: [GROUP] };
        expect(isReadBy(container, mounted(secrets, name)), name).toBe(name !== "postgres_password");
        expect(runAs(container, "sh", "-c", `: >>${mounted(secrets, name)}`).status, name).not.toBe(0);
        expect(isReadBy({ uid, gid: 65_534, groups: [] }, mounted(secrets, name)), name).toBe(false);
      }
      // The proxy's master process is root without the capability to pass over rights.
      expect(isReadBy({ uid: 0, gid: 0, groups: [GROUP] }, mounted(secrets, name)), name).toBe(true);
    }
  });

  test("a folder that everybody could read is one no longer, with the same content", () => {
    const secrets = join(place, "secrets");
    run(join(deploy, "prepare"), secrets);
    const contentOf = () => readdirSync(secrets).map((name) => readFileSync(join(secrets, name), "utf8"));
    writeFileSync(join(secrets, "somebodys-note"), "of old");
    const before = contentOf();
    chmodSync(secrets, 0o711);
    for (const name of readdirSync(secrets)) {
      chmodSync(join(secrets, name), 0o644);
      chownSync(join(secrets, name), 0, 0);
    }
    run(join(deploy, "prepare"), secrets);
    expect(contentOf()).toEqual(before);
    expect(modeOf(secrets)).toBe("700");
    expect(modesIn(secrets)).toMatchObject({
      palomar_secret: `640 ${GROUP}`,
      postgres_password: "600 0",
      "somebodys-note": "640 0",
    });
    for (const name of readdirSync(secrets)) expect(isReadBy(NOBODY, mounted(secrets, name)), name).toBe(false);
  });

  test("made by somebody else, they are theirs alone, and what is left to do is said; root does it", () => {
    const somebody = { uid: 1_234, gid: 1_234, groups: [] };
    chownSync(place, somebody.uid, somebody.gid);
    const secrets = join(place, "secrets");
    const { status, output } = runAs(somebody, join(deploy, "prepare"), secrets);
    expect({ status, output }).toEqual({ status: 0, output: expect.stringContaining("sudo") });
    expect(modeOf(secrets)).toBe("700");
    expect(new Set(Object.values(modesIn(secrets)))).toEqual(new Set([`600 ${somebody.gid}`]));
    expect(run(join(deploy, "prepare"), secrets)).toEqual({ status: 0, output: "" });
    expect(isReadBy({ uid: 1_000, gid: 1_000, groups: [GROUP] }, mounted(secrets, "palomar_secret"))).toBe(true);
    expect(isReadBy(NOBODY, mounted(secrets, "palomar_secret"))).toBe(false);
  });

  test("an engine with users of its own is given the group that it knows", () => {
    const secrets = join(place, "secrets");
    run(join(deploy, "prepare"), secrets, "107262");
    expect(modesIn(secrets).palomar_secret).toBe("640 107262");
  });
});

/** The proxy's configuration, its files in a folder of the test's own and its ports and services where they are told. */
function proxyConfiguration(ports: { readonly plain: number; readonly tls: number; readonly service: number }): string {
  execFileSync(join(deploy, "prepare"), [folder]);
  const [, release] = /nginx\/1\.(\d+)/.exec(run("nginx", "-v").output) ?? [];
  const text = readFileSync(join(deploy, "nginx/nginx.conf"), "utf8")
    .replaceAll("/tmp/", `${folder}/`)
    .replace(/\/dev\/(stdout|stderr)/g, `${folder}/$1`)
    .replaceAll("/run/secrets/", `${folder}/`)
    .replace(/http:\/\/(dns-api|mail-api|tracking|console):\d+/g, `http://127.0.0.1:${ports.service}/$1$request_uri`)
    .replace("listen 8000;", `listen 127.0.0.1:${ports.plain};`);
  // The image's nginx knows `http2 on`; Debian's, before 1.25, has it with the address.
  const older = text.replace(/listen 8443 ssl;\n\s+http2 on;/, `listen 127.0.0.1:${ports.tls} ssl http2;`);
  const file = join(folder, "nginx.conf");
  writeFileSync(
    file,
    Number(release) < 25 ? older : text.replace("listen 8443 ssl;", `listen 127.0.0.1:${ports.tls} ssl;`),
  );
  return file;
}

test.skipIf(!isInstalled("nginx"))(`nginx takes the proxy's configuration${skipNote("nginx")}`, () => {
  const file = proxyConfiguration({ plain: 8000, tls: 8443, service: 8080 });
  expect(run("nginx", "-t", "-c", file)).toEqual({ status: 0, output: expect.stringContaining("successful") });
});

test.skipIf(!isInstalled("nginx"))(
  `the proxy sends each path to its service, over TLS alone${skipNote("nginx")}`,
  async () => {
    const seen: IncomingMessage[] = [];
    const service = createServer((request, response) => {
      seen.push(request);
      response.end(request.url);
    });
    await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
    const ports = { plain: await freePort(), tls: await freePort(), service: (service.address() as AddressInfo).port };
    const nginx = spawn("nginx", ["-c", proxyConfiguration(ports), "-g", "daemon off;"], {
      env: { PATH },
      stdio: "ignore",
    });
    const ask = (path: string, options: RequestOptions = {}) =>
      new Promise<{ status: number; headers: IncomingHttpHeaders; body: string }>((resolve, reject) => {
        const secure = {
          host: "127.0.0.1",
          port: ports.tls,
          path,
          rejectUnauthorized: false,
          agent: false,
          ...options,
        };
        const outgoing = secureRequest(secure, (response) => {
          let body = "";
          response.on("data", (chunk) => (body += chunk));
          response.on("end", () => resolve({ status: response.statusCode!, headers: response.headers, body }));
        });
        outgoing.on("error", reject);
        outgoing.end();
      });
    try {
      await eventually(() => ask("/").catch(() => undefined), Boolean);
      for (const [path, name] of [
        ["/api/v1/domain_list", "dns-api"],
        ["/api", "dns-api"],
        ["/v1/campania/?x=1", "mail-api"],
        ...["o", "c", "v", "u", "r"].map((letter) => [`/${letter}/token`, "tracking"] as const),
        ["/.well-known/mta-sts.txt", "tracking"],
        ["/admin/v1/session", "console"],
        ["/", "console"],
      ] as const) {
        expect((await ask(path)).body).toBe(`/${name}${path}`);
      }
      const named = await ask("/", { headers: { "X-Request-Id": "order-1", "X-Forwarded-For": "203.0.113.1" } });
      expect(named.headers["strict-transport-security"]).toContain("max-age");
      // Whoever a client says it is, the proxy knows better.
      expect(seen.at(-1)?.headers).toMatchObject({ "x-request-id": "order-1", "x-forwarded-for": "127.0.0.1" });
      await ask("/");
      expect(seen.at(-1)?.headers["x-request-id"]).toMatch(/^[0-9a-f]{32}$/);
      const large = { method: "POST", headers: { "Content-Length": String(33 * 2 ** 20) } };
      expect(await ask("/v1/send", large)).toMatchObject({
        status: 413,
        headers: { "content-type": "application/json" },
        body: '{"status":"err","on":"demasiado grande"}',
      });
      const redirect = await fetch(`http://127.0.0.1:${ports.plain}/v1/`, { redirect: "manual" });
      expect(redirect.status).toBe(301);
      expect(redirect.headers.get("location")).toMatch(/^https:/);
      for (const version of ["TLSv1", "TLSv1.1"] as const) {
        const old = { minVersion: version, maxVersion: version, ciphers: "DEFAULT@SECLEVEL=0" };
        await expect(ask("/", old)).rejects.toThrow(/protocol version|reset|unsupported/i);
      }
      const weak = { maxVersion: "TLSv1.2", ciphers: "AES128-SHA@SECLEVEL=0" } as const;
      await expect(ask("/", weak)).rejects.toThrow(/handshake failure|reset/i);
      service.close();
      expect(await ask("/api/v1/companies")).toMatchObject({
        status: 503,
        headers: { "content-type": "application/json", "retry-after": "10" },
        body: '{"msg":"not available at present, try again"}',
      });
    } finally {
      nginx.kill("SIGTERM");
      await new Promise((resolve) => nginx.once("exit", resolve));
      service.close();
    }
  },
);

test.skipIf(!isInstalled("knotc"))(
  `Knot takes the secondary's configuration with a stanza of ours${skipNote("knotc")}`,
  () => {
    writeFileSync(join(folder, "zones.conf"), STANZA);
    const text = readFileSync(join(deploy, "knot/knot.conf"), "utf8")
      .replace("/config/zones.conf", join(folder, "zones.conf"))
      .replaceAll('"/storage"', `"${folder}"`)
      .replaceAll('"/rundir"', `"${folder}"`)
      .replace("user: knot:knot", "");
    const file = join(folder, "knot.conf");
    writeFileSync(file, text);
    expect(run("knotc", "-c", file, "conf-check")).toMatchObject({ status: 0 });
  },
);

describe.skipIf(!isInstalled("systemd-analyze"))(`the units${skipNote("systemd-analyze")}`, () => {
  /** Of `systemd-analyze security`: 0 is shut up, 10 is wide open. */
  const MOST_EXPOSED = 2;
  const units = ["systemd", "patroni"].flatMap((part) =>
    readdirSync(join(deploy, part)).flatMap((name) => (name.endsWith(".service") ? [join(part, name)] : [])),
  );

  test.each(units)("%s is one that systemd takes, and is hardened", (name) => {
    const place = join(folder, basename(name));
    // Programs are looked at: where they are on this machine.
    const text = readFileSync(join(deploy, name), "utf8")
      .replace("/usr/bin/node", process.execPath)
      .replace("/etc/patroni/watch-disk", join(deploy, "patroni/watch-disk"));
    writeFileSync(place, text);
    expect(run("systemd-analyze", "verify", "--man=no", place)).toEqual({ status: 0, output: "" });
    const { output } = run("systemd-analyze", "security", "--offline=true", place);
    const [, level] = /Overall exposure level for \S+ ([\d.]+)/.exec(output) ?? [];
    expect(Number(level)).toBeLessThanOrEqual(MOST_EXPOSED);
  });
});

/** As `palomar acl show --for knot` writes it; test/system/peers-catalogs.test.ts has Knot take zones by one. */
const STANZA = `key:
  - id: knot-acme.
    algorithm: hmac-sha256
    secret: c2VjcmV0IHNlY3JldCBzZWNyZXQ=
remote:
  - id: acme
    address: 192.0.2.1@53
    key: knot-acme.
acl:
  - id: acme-notify
    address: 192.0.2.1
    action: notify
zone:
  - domain: catalog.acme.example
    master: acme
    acl: acme-notify
    catalog-role: interpret
    catalog-template: default
`;
