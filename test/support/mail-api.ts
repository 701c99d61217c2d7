import { KeyRing } from "../../services/core/key-ring.ts";
import { makeMailApp } from "../../services/mail-api/app.ts";
import { ContentScanner } from "../../services/operations/mail/content-scan.ts";
import { CredentialPlaces } from "../../services/operations/mail/credential-places.ts";
import { loadConfig } from "../../services/platform/config/config.ts";
import { guardPolicy } from "../../services/platform/config/guard-policy.ts";
import { listenHttp } from "../../services/platform/http/listen.ts";
import type { Lookup, Resolver } from "../../services/platform/lookups/resolver.ts";
import type { Db } from "../../services/platform/postgres/db.ts";
import { findInstanceByName, type Instance } from "../../services/store/mail/instances/instances.ts";
import { type ApiAnswer, callApi } from "./api-client.ts";
import { createTestDatabase } from "./database.ts";
import { addTestInstance } from "./instances.ts";

export interface TestInstance extends Instance {
  readonly key: string;
  /** Calls the API as this instance. */
  call(method: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<ApiAnswer>;
}

export interface TestMailApi {
  readonly url: string;
  readonly db: Db;
  readonly keyRing: KeyRing;
  /** Two customers side by side, both allowed to send from example.org and, each, from a domain of its own. */
  readonly north: TestInstance;
  readonly south: TestInstance;
  /** Answers of the DNS; anything else does not exist. */
  readonly dns: Map<string, Lookup<never>["kind"]>;
  /** What was logged as an error: bugs, never a caller's mistake. */
  readonly failures: unknown[];
  stop(): Promise<void>;
}

const KEY_RING = KeyRing.ofSecret("a secret for tests only");

/** The real API over HTTP on a database of its own. */
export async function startMailApi(env: Readonly<Record<string, string>> = {}): Promise<TestMailApi> {
  const { db, drop } = await createTestDatabase();
  const config = loadConfig({ PALOMAR_SENDER_DOMAIN_CHECK: "true", ...env });
  if (!config.ok) throw new Error(config.error.join("\n"));
  const dns: TestMailApi["dns"] = new Map([["example.org", "found"]]);
  const failures: unknown[] = [];
  const app = makeMailApp(
    {
      db,
      keyRing: KEY_RING,
      config: config.value,
      clock: { nowMs: () => Date.now() },
      resolver: makeTestResolver(dns),
      content: new ContentScanner(config.value.rspamd, guardPolicy.content, () => {}),
      places: new CredentialPlaces(
        db,
        () => undefined,
        () => {},
      ),
    },
    (observation) => {
      if (observation.level === "error") failures.push(observation);
    },
  );
  const listener = await listenHttp(app, [{ host: "127.0.0.1", port: 0 }], { observe: () => {} });
  const url = listener!.url;
  const makeInstance = async (name: string): Promise<TestInstance> => {
    const key = `api-key-of-${name}`;
    const domains = ["example.org", `${name}.example.net`, "missing.example.net", "slow.example.net"];
    await addTestInstance(db, KEY_RING, { name, host: `${name}.test`, key, archive: false, domains });
    const instance = (await findInstanceByName(db, name)) as Instance;
    return {
      ...instance,
      key,
      call: (method, path, body, headers = {}) =>
        callApi(method, url + path, { Authorization: key, Host: instance.host, ...headers }, body),
    };
  };
  return {
    url,
    db,
    keyRing: KEY_RING,
    north: await makeInstance("north"),
    south: await makeInstance("south"),
    dns,
    failures,
    stop: async () => {
      await listener!.close(0);
      await drop();
    },
  };
}

function makeTestResolver(dns: TestMailApi["dns"]): Resolver {
  const look = async (name: string): Promise<Lookup<never>> => {
    const kind = dns.get(name) ?? "nxdomain";
    return kind === "found" ? { kind, records: [] } : { kind };
  };
  return { resolveMx: look, resolveA: look, resolveAaaa: look };
}
