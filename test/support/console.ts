import { start } from "../../services/console/main.ts";
import { hashApiKey } from "../../services/core/api-key.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { addCompany } from "../../services/operations/dns/companies.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { loadConfig } from "../../services/platform/config/config.ts";
import { makeLogger } from "../../services/platform/observability/logger.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import { openListenConnection } from "../../services/platform/postgres/db.ts";
import type { AddressName, RunningService, ServiceContext, StartService } from "../../services/platform/service.ts";
import { addUser, type User } from "../../services/store/console/users.ts";
import { addReseller } from "../../services/store/dns/resellers.ts";
import { type ApiAnswer, callApi } from "./api-client.ts";
import { createTestDatabase, type TestDatabase } from "./database.ts";
import { addTestInstance } from "./instances.ts";
import { makeDataDir, removeDataDir } from "./stack.ts";

const SECRET = "a secret for tests only";
const KEY_RING = KeyRing.ofSecret(SECRET);
export const PASSWORD = "correct horse battery staple";
/** As it is stored at a cost of next to nothing, where every sign-in of a user costs a tenth of a second. */
const PASSWORD_HASH = "scrypt$16$8$1$BwcHBwcHBwcHBwcHBwcHBw$dEBxRa0B7ubPMcP--pAJYsSJRiR4twtXSovDF89yRMg";

/** A user that is signed in: calls carry the cookie and the CSRF token. */
export interface SignedIn {
  readonly cookie: string;
  readonly csrf: string;
  call(method: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<ApiAnswer>;
}

/** The console on a database of its own, with two resellers and two instances side by side, and whom it needs beside it. */
export interface TestConsole {
  readonly url: string;
  readonly context: ServiceContext;
  readonly database: TestDatabase;
  readonly clock: {
    nowMs(): number;
    advance(milliseconds: number): void;
    /** From now on time goes by only when it is advanced. */
    stand(): void;
  };
  /** What was logged as an error. */
  readonly failures: readonly Observation[];
  /** One of each kind: everybody's password is `PASSWORD`. */
  readonly users: { readonly [name in keyof typeof USERS]: SignedIn };
  signIn(login: string, password?: string): Promise<SignedIn>;
  /** Calls without a session. */
  call(method: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<ApiAnswer>;
  /** Starts one more service beside the console. */
  run(service: StartService): Promise<RunningService>;
  stop(): Promise<void>;
}

/** Reseller one with the companies acme and other, reseller two with acme; instances north and south. */
const USERS = {
  operator: { login: "operator", role: "operator", scope: null },
  one: { login: "one", role: "reseller", scope: "one" },
  two: { login: "two", role: "reseller", scope: "two" },
  acme: { login: "acme", role: "company", scope: "one/acme" },
  north: { login: "north", role: "instance", scope: "north" },
  south: { login: "south", role: "instance", scope: "south" },
} as const satisfies Record<string, User>;

export async function startConsole(
  services: readonly StartService[] = [],
  environment: Readonly<Record<string, string>> = {},
): Promise<TestConsole> {
  const database = await createTestDatabase(20);
  await addCustomers(database);
  const failures: Observation[] = [];
  const addresses = new Map<AddressName, string>();
  let offsetMs = 0;
  let stoodAtMs: number | undefined;
  const clock = {
    nowMs: () => (stoodAtMs ?? systemClock.nowMs()) + offsetMs,
    stand: () => {
      stoodAtMs = systemClock.nowMs();
    },
    advance: (milliseconds: number) => {
      offsetMs += milliseconds;
    },
  };
  const dataDir = makeDataDir();
  const config = loadConfig({
    ...{ DATABASE_URL: database.url, PALOMAR_SECRET: SECRET, PALOMAR_DATA_DIR: dataDir },
    ...{ ...FREE_PORTS, ...environment },
  });
  if (!config.ok) throw new Error(config.error.join("\n"));
  const context: ServiceContext = {
    config: config.value,
    keyRing: KEY_RING,
    db: database.db,
    clock,
    logger: makeLogger("test", "silent"),
    observe: (observation) => {
      if (observation.level === "error") failures.push(observation);
    },
    openListenConnection: () => openListenConnection(database.url, "test"),
    addressOf: async (name) => addresses.get(name) ?? "http://127.0.0.1:9",
  };
  const running: RunningService[] = [];
  const run = async (service: StartService) => {
    const started = await service(context);
    running.push(started);
    for (const [name, address] of Object.entries(started.addresses)) addresses.set(name as AddressName, address!);
    return started;
  };
  for (const service of [...services, start]) await run(service);
  const url = addresses.get("console")!;
  const call: TestConsole["call"] = (method, path, body, headers = {}) =>
    callApi(method, `${url}/admin/v1${path}`, headers, body);
  const signIn = async (login: string, password = PASSWORD): Promise<SignedIn> => {
    const answer = await call("POST", "/session", { login, password });
    if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
    const cookie = String(answer.headers["set-cookie"]).split(";")[0]!;
    const { csrf } = answer.body;
    return {
      cookie,
      csrf,
      call: (method, path, body, headers = {}) =>
        call(method, path, body, { Cookie: cookie, ...(method === "GET" ? {} : { "X-CSRF-Token": csrf }), ...headers }),
    };
  };
  const users = Object.fromEntries(
    await Promise.all(Object.keys(USERS).map(async (login) => [login, await signIn(login)])),
  ) as TestConsole["users"];
  return {
    ...{ url, context, database, clock, failures, users, signIn, call, run },
    stop: async () => {
      for (const service of running.reverse()) await service.stop();
      await database.drop();
      removeDataDir(dataDir);
    },
  };
}

const FREE_PORTS = Object.fromEntries(
  ["CONSOLE", "DNS_API", "MAIL_API", "DNS", "SANDBOX"].map((name) => [`PALOMAR_${name}_LISTEN`, "127.0.0.1:0"]),
);

async function addCustomers({ db }: TestDatabase): Promise<void> {
  for (const id of ["one", "two"]) {
    const keyHash = hashApiKey(KEY_RING, "dns", `key-of-reseller-${id}`);
    await addReseller(db, { id, name: `Reseller ${id}`, rpzLicence: id === "one", keyHash });
  }
  for (const [resellerId, crmId] of [
    ["one", "acme"],
    ["one", "other"],
    ["two", "acme"],
  ] as const) {
    await addCompany(db, KEY_RING, { resellerId, crmId, name: crmId, apikey: `key-of-${resellerId}-${crmId}` });
  }
  for (const name of ["north", "south"]) {
    const instance = {
      name,
      host: `${name}.test`,
      key: `api-key-of-${name}`,
      archive: false,
      domains: [`${name}.example.org`],
    };
    await addTestInstance(db, KEY_RING, instance);
  }
  for (const user of Object.values(USERS)) await addUser(db, { ...user, passwordHash: PASSWORD_HASH });
}
