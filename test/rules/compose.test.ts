import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { DCLinter } from "dclint";
import { validate } from "dockerfile-utils";
import { afterAll, describe, expect, test } from "vitest";
import { LISTENERS } from "../../services/cli/address-book.ts";
import { keyFileName } from "../../services/cli/commands/secret.ts";
import { formatKeyFile } from "../../services/core/key-file.ts";
import { purposesOf } from "../../services/core/key-purposes.ts";
import { type Config, FILE_VARIABLES, loadConfig, VARIABLES } from "../../services/platform/config/config.ts";
import { findKeys } from "../../services/platform/config/secret.ts";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { SERVICE_NAMES } from "../../services/platform/service.ts";

interface ComposeService {
  readonly profiles?: readonly string[];
  readonly mem_limit: string;
  readonly cpus?: number;
  readonly pids_limit: number;
  readonly secrets?: readonly string[];
  readonly group_add?: readonly string[];
  readonly image: string;
  readonly command: readonly string[];
  readonly restart: string;
  readonly healthcheck: { readonly test?: readonly string[]; readonly disable?: boolean };
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly environment: Readonly<Record<string, string>>;
  readonly ports?: readonly string[];
  readonly tmpfs?: readonly string[];
  readonly volumes?: readonly string[];
}

const composeFile = join(packageFolder, "docker-compose.yml");
const composeText = readFileSync(composeFile, "utf8");
const proxyConfig = readFileSync(join(packageFolder, "deploy/nginx/nginx.conf"), "utf8");
const dockerfile = readFileSync(join(packageFolder, "Dockerfile"), "utf8");

// The YAML reader that the linter brings.
const { parse } = createRequire(createRequire(import.meta.url).resolve("dclint"))("yaml") as {
  parse(
    text: string,
    options: { merge: boolean },
  ): { services: Record<string, ComposeService>; secrets: Record<string, { file: string }> };
};
const { services, secrets } = parse(composeText, { merge: true });

/** The sandbox's inbox is part of delivery. */
const ownContainers = SERVICE_NAMES.filter((name) => name !== "sandbox");
/** What `deploy/prepare` makes, in a folder of the test's own. */
const secretsFolder = mkdtempSync(join(tmpdir(), "palomar-secrets-"));
execFileSync(join(packageFolder, "deploy/prepare"), [secretsFolder]);
afterAll(() => rmSync(secretsFolder, { recursive: true, force: true }));

/** As compose does it: `${NAME:-default}` and `${NAME:?reason}`. */
function interpolate(text: string, given: Readonly<Record<string, string>>): string {
  return text.replace(/\$\{(\w+):([-?])([^}]*)\}/g, (_whole, name: string, kind: string, rest: string) => {
    const value = given[name];
    if (value !== undefined) return value;
    if (kind === "?") throw new Error(`${name}: ${rest}`);
    return rest;
  });
}

function configOf(name: string, given: Readonly<Record<string, string>> = {}): Config {
  const environment = Object.entries(services[name]!.environment).map(([key, value]) => [
    key,
    interpolate(value, given).replace("/run/secrets/", `${secretsFolder}/`),
  ]);
  const loaded = loadConfig(Object.fromEntries(environment));
  if (!loaded.ok) throw new Error(loaded.error.join("; "));
  return loaded.value;
}

const publishedBy = (name: string) =>
  (services[name]!.ports ?? []).map((port) => {
    const [, hostAddress, hostPort, containerPort, protocol] =
      /^(?:([\d.]+):)?(\d+):(\d+)(?:\/(tcp|udp))?$/.exec(port) ?? [];
    return {
      hostAddress,
      hostPort: Number(hostPort),
      containerPort: Number(containerPort),
      protocol: protocol ?? "tcp",
    };
  });

test("docker-compose.yml follows the compose schema and the linter's rules", () => {
  const linter = new DCLinter({
    rules: {
      // The file tells its story from the database outwards, in each service from what it runs to what it shows.
      "service-keys-order": 0,
      "services-alphabetical-order": 0,
      "top-level-properties-order": 0,
      "service-ports-alphabetical-order": 0,
      // Each service is built and named, and `pull_policy` says that the name is never fetched.
      // Ours are for all addresses, IPv6 ones too; which they are, and that all others are this machine's, is tested below.
      "no-unbound-port-interfaces": 0,
      "no-build-and-image": [2, { checkPullPolicy: true }],
      "require-quotes-in-ports": [2, { quoteType: "double" }],
    },
    quiet: false,
    debug: false,
    exclude: [],
  });
  const messages = linter.lintFiles([composeFile], false).flatMap((file: { messages: unknown[] }) => file.messages);
  expect(messages).toEqual([]);
});

test("the containers are the services, the database, the migration, the proxy, and what a profile adds", () => {
  const always = Object.keys(services).filter((name) => services[name]!.profiles === undefined);
  expect(always.sort()).toEqual([...ownContainers, "database", "migrate", "proxy"].sort());
  const byProfile = Object.entries(services).map(([name, { profiles = [] }]) => `${profiles.join()}:${name}`);
  expect(byProfile).toEqual(expect.arrayContaining(["monitoring:prometheus", "monitoring:grafana", "secondary:knot"]));
  for (const name of ownContainers) expect(services[name]!.command).toEqual(["start", name]);
  expect(services.migrate!.command).toEqual(["migrate", "--roles", "/run/secrets"]);
  expect(services.database!.image).toBe("postgres:18");
});

test("the ports of the documentation are published; what has no proxy before it and is no protocol of ours, on this machine only", () => {
  const published = Object.keys(services).flatMap(publishedBy);
  expect(published.map(({ hostPort, protocol }) => `${hostPort}/${protocol}`).sort()).toEqual(
    [
      ...["25/tcp", "53/tcp", "53/udp", "80/tcp", "443/tcp", "465/tcp", "587/tcp"],
      ...["3000/tcp", "5353/tcp", "5353/udp"],
    ].sort(),
  );
  for (const { hostAddress, hostPort } of published) {
    expect(hostAddress).toBe(hostPort >= 1024 ? "127.0.0.1" : undefined);
  }
});

test.each(Object.keys(services))("%s has limits, no privileges to gain, and a health check", (name) => {
  const { mem_limit, cpus = 1, pids_limit, healthcheck } = services[name]!;
  expect(mem_limit).toMatch(/^\d+[mg]$/);
  // An engine refuses more than the machine has.
  expect(cpus).toBe(1);
  expect(pids_limit).toBeGreaterThan(0);
  expect(services[name]).toMatchObject({ security_opt: ["no-new-privileges:true"] });
  if (name !== "migrate") expect(healthcheck.test?.[0]).toBe("CMD");
});

test("secrets come from files, each of which deploy/prepare makes, and from nowhere else", () => {
  for (const { file } of Object.values(secrets))
    expect(existsSync(join(secretsFolder, basename(file))), file).toBe(true);
  const used = Object.values(services).flatMap(({ secrets: names = [] }) => names);
  expect(new Set(used)).toEqual(new Set(Object.keys(secrets)));
  expect(composeText).not.toMatch(/^\s+(\w*PASSWORD|\w*SECRET|DATABASE_URL):/m);
});

test("whoever reads secrets has the group that deploy/prepare gives them to; PostgreSQL's container reads its own as root", () => {
  const [, group] = /^group=\$\{2:-(\d+)\}$/m.exec(readFileSync(join(packageFolder, "deploy/prepare"), "utf8"))!;
  for (const [name, { secrets: names, group_add }] of Object.entries(services)) {
    const reads = names?.some((secret) => secret !== "postgres_password") ?? false;
    expect(group_add?.includes(group!) ?? false, name).toBe(reads);
  }
});

test.each(ownContainers)("%s connects with a role of its own, and is told nobody else's password or keys", (name) => {
  const own = `database_url_${name.replaceAll("-", "_")}`;
  const tls = ["submission", "bounce"].includes(name) ? ["tls_certificate", "tls_key"] : [];
  expect(services[name]!.secrets).toEqual([own, keyFileName(name), ...tls]);
  expect(services[name]!.environment.DATABASE_URL_FILE).toBe(`/run/secrets/${own}`);
  expect(new URL(configOf(name).databaseUrl!).username).toBe(`palomar_${name.replaceAll("-", "_")}`);
});

test("mail is offered over TLS with the certificate that the proxy has", () => {
  for (const name of ["submission", "bounce"]) {
    expect(configOf(name).tls).toEqual({
      certPath: join(secretsFolder, "tls_certificate"),
      keyPath: join(secretsFolder, "tls_key"),
    });
  }
  expect(services.proxy!.secrets).toEqual(["tls_certificate", "tls_key"]);
});

test.each(ownContainers)("%s has the keys of its purposes, as the secret gives them", (name) => {
  const { keys } = configOf(name);
  expect(keys!.purposes).toEqual(purposesOf(name));
  const made = readFileSync(join(secretsFolder, keyFileName(name)), "utf8");
  expect(made).toBe(formatKeyFile(findKeys(configOf("migrate")), name));
});

test("a secret that takes another's place is told with the other, and every service has the keys of both", () => {
  const file = join(secretsFolder, "palomar_secret_previous");
  const before = readFileSync(file, "utf8");
  expect(configOf("migrate").previousSecrets).toEqual([]);
  const previous = ["the secret before this one", "and another: ñ % ' \\ \" $HOME"];
  writeFileSync(file, previous.join(" , "));
  execFileSync(join(packageFolder, "deploy/prepare"), [secretsFolder]);
  expect(configOf("migrate").previousSecrets).toEqual(previous);
  for (const name of ownContainers) {
    const made = readFileSync(join(secretsFolder, keyFileName(name)), "utf8");
    expect(made).toBe(formatKeyFile(findKeys(configOf("migrate")), name));
    expect(configOf(name).keys!.keysFor(purposesOf(name)[0]!)).toHaveLength(3);
  }
  writeFileSync(file, before);
  execFileSync(join(packageFolder, "deploy/prepare"), [secretsFolder]);
});

test("the migration is the owner's, and makes every role", () => {
  const roles = ownContainers.map((name) => `database_url_${name.replaceAll("-", "_")}`);
  expect([...services.migrate!.secrets!].sort()).toEqual(
    ["database_url", ...roles, "palomar_secret", "palomar_secret_previous", "tls_certificate", "tls_key"].sort(),
  );
  expect(new URL(configOf("migrate").databaseUrl!).username).toBe("palomar");
});

test("deploy/prepare leaves what is there as it is", () => {
  const before = readFileSync(join(secretsFolder, "palomar_secret"), "utf8");
  execFileSync(join(packageFolder, "deploy/prepare"), [secretsFolder]);
  expect(readFileSync(join(secretsFolder, "palomar_secret"), "utf8")).toBe(before);
});

describe.each(ownContainers)("%s", (name) => {
  const service = services[name]!;

  test("is started again, is checked for health, and waits for the migration", () => {
    expect(service.restart).toBe("unless-stopped");
    expect(service.healthcheck.test?.join(" ")).toContain("http://127.0.0.1:9464/readyz");
    expect(service.depends_on).toEqual({ migrate: { condition: "service_completed_successfully" } });
  });

  test("has a lawful configuration and listens where its ports and its health check look", () => {
    const config = configOf(name);
    expect(config.listen.metrics).toEqual([{ host: "0.0.0.0", port: 9464 }]);
    const open = Object.values(config.listen)
      .flat()
      .filter(({ host, port }) => host === "0.0.0.0" && port !== 9464);
    const behindProxy = [...proxyConfig.matchAll(new RegExp(`http://${name}:(\\d+)`, "g"))].map(([, port]) =>
      Number(port),
    );
    const targets = new Set([...publishedBy(name).map(({ containerPort }) => containerPort), ...behindProxy]);
    expect(new Set(open.map(({ port }) => port))).toEqual(targets);
  });

  test("finds the listeners of the other containers under their names", () => {
    const { listen } = configOf(name);
    for (const { setting } of Object.values(LISTENERS)) {
      for (const { host, port } of listen[setting]) {
        if (["0.0.0.0", "127.0.0.1"].includes(host)) continue;
        const own = configOf(host).listen[setting];
        expect(own, `${setting} of ${host}`).toEqual([{ host: "0.0.0.0", port }]);
      }
    }
  });

  test("can write its data folder, and nothing else", () => {
    const writable = [...(service.tmpfs ?? []), ...(service.volumes ?? []).map((volume) => volume.split(":")[1])];
    expect(writable.some((path) => path?.startsWith("/data"))).toBe(true);
    expect(service).toMatchObject({ read_only: true, cap_drop: ["ALL"], security_opt: ["no-new-privileges:true"] });
  });
});

test("the migration waits for a healthy database", () => {
  expect(services.migrate!.depends_on).toEqual({ database: { condition: "service_healthy" } });
  expect(services.database!.healthcheck.test).toContain("pg_isready");
});

test("the database takes the connections of all services", () => {
  const setting = services.database!.command.find((option) => option.startsWith("max_connections="));
  // Each container: the service's pool, the supervisor's two, and the connection that listens.
  const wanted = ownContainers.length * (configOf("console").databaseConnections + 2 + 1 + 1);
  expect(Number(setting?.split("=")[1])).toBeGreaterThan(2 * wanted);
});

test("every variable of the product that the files name exists", () => {
  const named = `${composeText}\n${dockerfile}`.match(/\bPALOMAR_[A-Z_]+\b/g) ?? [];
  expect(named.length).toBeGreaterThan(0);
  const known = new Set([...Object.keys(VARIABLES), ...FILE_VARIABLES]);
  expect(named.filter((name) => !known.has(name))).toEqual([]);
});

describe("Dockerfile", () => {
  const stages = dockerfile.split(/^(?=FROM )/m).filter((stage) => stage.startsWith("FROM "));

  test("is lawful", () => {
    expect(validate(dockerfile)).toEqual([]);
  });

  test("builds in stages on Node 24, and the last one runs as an ordinary user", () => {
    expect(stages.length).toBeGreaterThan(1);
    for (const stage of stages) expect(stage).toMatch(/^FROM node:24-slim( AS \w+)?\n/);
    expect(stages.at(-1)).toMatch(/^USER node$/m);
    expect(stages.at(-1)).toMatch(/^HEALTHCHECK /m);
  });

  test("copies files that exist and that .dockerignore lets through", () => {
    const allowed = readFileSync(join(packageFolder, ".dockerignore"), "utf8").match(/(?<=^!).+$/gm) ?? [];
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap((match) => match[1]!.split(" "));
    expect(new Set(copied)).toEqual(new Set(allowed));
    for (const name of copied) expect(existsSync(join(packageFolder, name)), name).toBe(true);
  });
});
