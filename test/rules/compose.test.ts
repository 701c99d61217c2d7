import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { DCLinter } from "dclint";
import { validate } from "dockerfile-utils";
import { describe, expect, test } from "vitest";
import { LISTENERS } from "../../services/cli/address-book.ts";
import { type Config, loadConfig, VARIABLES } from "../../services/platform/config.ts";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { SERVICE_NAMES } from "../../services/platform/service.ts";

interface ComposeService {
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
const dockerfile = readFileSync(join(packageFolder, "Dockerfile"), "utf8");

// The YAML reader that the linter brings.
const { parse } = createRequire(createRequire(import.meta.url).resolve("dclint"))("yaml") as {
  parse(text: string, options: { merge: boolean }): { services: Record<string, ComposeService> };
};
const { services } = parse(composeText, { merge: true });

/** The sandbox's inbox is part of delivery. */
const ownContainers = SERVICE_NAMES.filter((name) => name !== "sandbox");
const SECRETS = { POSTGRES_PASSWORD: "an-example", PALOMAR_SECRET: "an-example-of-a-secret" };

/** As compose does it: `${NAME:-default}` and `${NAME:?reason}`. */
function interpolate(text: string, given: Readonly<Record<string, string>>): string {
  return text.replace(/\$\{(\w+):([-?])([^}]*)\}/g, (_whole, name: string, kind: string, rest: string) => {
    const value = given[name];
    if (value !== undefined) return value;
    if (kind === "?") throw new Error(`${name}: ${rest}`);
    return rest;
  });
}

function configOf(name: string, given: Readonly<Record<string, string>> = SECRETS): Config {
  const environment = Object.entries(services[name]!.environment).map(([key, value]) => [
    key,
    interpolate(value, given),
  ]);
  const loaded = loadConfig(Object.fromEntries(environment));
  if (!loaded.ok) throw new Error(loaded.error.join("; "));
  return loaded.value;
}

const publishedBy = (name: string) =>
  (services[name]!.ports ?? []).map((port) => {
    const [, hostAddress, hostPort, containerPort, protocol] =
      /^([\d.]+):(\d+):(\d+)(?:\/(tcp|udp))?$/.exec(port) ?? [];
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

test("the containers are the services, the database, and the migration", () => {
  expect(Object.keys(services).sort()).toEqual([...ownContainers, "database", "migrate"].sort());
  for (const name of ownContainers) expect(services[name]!.command).toEqual(["start", name]);
  expect(services.migrate!.command).toEqual(["migrate"]);
  expect(services.database!.image).toBe("postgres:18");
});

test("the ports of the documentation are published, HTTP on this machine only", () => {
  const published = Object.keys(services).flatMap(publishedBy);
  expect(published.map(({ hostPort, protocol }) => `${hostPort}/${protocol}`).sort()).toEqual(
    ["25/tcp", "53/tcp", "53/udp", "465/tcp", "587/tcp", "8025/tcp", "8026/tcp", "8053/tcp", "8080/tcp"].sort(),
  );
  for (const { hostAddress, hostPort } of published) {
    expect(hostAddress).toBe(hostPort >= 8000 ? "127.0.0.1" : "0.0.0.0");
  }
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
    const targets = new Set(publishedBy(name).map(({ containerPort }) => containerPort));
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
  // Each container: the service's pool, the supervisor's, and the connection that listens.
  const wanted = ownContainers.length * (configOf("console").databaseConnections + 2 + 1);
  expect(Number(setting?.split("=")[1])).toBeGreaterThan(2 * wanted);
});

test.each(["POSTGRES_PASSWORD", "PALOMAR_SECRET"] as const)("%s is asked for, never assumed", (missing) => {
  const { [missing]: _left, ...given } = SECRETS;
  expect(() => configOf("console", given)).toThrow(missing);
});

test("every variable of the product that the files name exists", () => {
  const named = `${composeText}\n${dockerfile}`.match(/\bPALOMAR_[A-Z_]+\b/g) ?? [];
  expect(named.length).toBeGreaterThan(0);
  expect(named.filter((name) => !(name in VARIABLES))).toEqual([]);
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
