import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { hashApiKey, makeApiKey } from "../core/api-key.ts";
import type { KeyRing } from "../core/key-ring.ts";
import { hashPassword, makePassword } from "../core/password.ts";
import { addCompany } from "../operations/dns/companies.ts";
import { writeFileOnce } from "../platform/config/secret.ts";
import type { Db } from "../platform/postgres/db.ts";
import { addUser } from "../store/console/users.ts";
import { addReseller } from "../store/dns/resellers.ts";
import { addInstance } from "../store/mail/instances/instances.ts";

/** What `<data dir>/credentials.json` holds. */
export interface Credentials {
  readonly reseller: { readonly id: string; readonly key: string };
  readonly company: { readonly crm_id: string; readonly apikey: string };
  readonly instance: { readonly name: string; readonly host: string; readonly key: string; readonly domain: string };
  readonly operator: { readonly login: string; readonly password: string };
}

const MADE = "demo-made";
/** There until the credentials were printed: a start may fail before that, such as by a port that is taken. */
const UNSHOWN = "demo-unshown";

/**
 * Makes the demonstration accounts on the first start with the embedded database. The file is written before the
 * rows are committed, and read back when a start was interrupted in between, so that neither is ever without the other.
 * @returns the credentials as long as they were not printed, see {@link noteDemoShown}
 */
export async function makeDemoOnce(db: Db, keyRing: KeyRing, dataDir: string): Promise<Credentials | undefined> {
  const path = credentialsPath(dataDir);
  const facts = await db("deployment_facts").whereIn("name", [MADE, UNSHOWN]).pluck("name");
  if (facts.includes(MADE)) return facts.includes(UNSHOWN) && existsSync(path) ? readCredentials(path) : undefined;
  writeFileOnce(path, `${JSON.stringify(newCredentials(), null, 2)}\n`);
  const credentials = readCredentials(path);
  await db.transaction(async (transaction) => {
    await transaction.raw("select pg_advisory_xact_lock(hashtextextended('palomar demo', 0))");
    // Another start may have made them meanwhile, of the same file.
    if (!(await transaction("deployment_facts").where({ name: MADE }).first()))
      await insertDemo(transaction, keyRing, credentials);
  });
  return credentials;
}

/** Has the credentials printed no more. */
export async function noteDemoShown(db: Db): Promise<void> {
  await db("deployment_facts").where({ name: UNSHOWN }).delete();
}

function readCredentials(path: string): Credentials {
  return JSON.parse(readFileSync(path, "utf8"));
}

export function credentialsPath(dataDir: string): string {
  return join(dataDir, "credentials.json");
}

function newCredentials(): Credentials {
  return {
    reseller: { id: "demo", key: makeApiKey() },
    company: { crm_id: "demo", apikey: makeApiKey() },
    instance: { name: "demo", host: "demo.localhost", key: makeApiKey(), domain: "demo.example" },
    operator: { login: "operator", password: makePassword() },
  };
}

async function insertDemo(
  db: Db,
  keyRing: KeyRing,
  { reseller, company, instance, operator }: Credentials,
): Promise<void> {
  const value = new Date().toISOString();
  await db("deployment_facts").insert([MADE, UNSHOWN].map((name) => ({ name, value })));
  await addReseller(db, {
    id: reseller.id,
    name: "Demo",
    rpzLicence: false,
    keyHash: hashApiKey(keyRing, "dns", reseller.key),
  });
  await addCompany(db, keyRing, {
    resellerId: reseller.id,
    crmId: company.crm_id,
    name: "Demo",
    apikey: company.apikey,
  });
  await addInstance(db, keyRing, {
    name: instance.name,
    host: instance.host,
    key: instance.key,
    domains: [instance.domain],
    archive: false,
  });
  await addUser(db, {
    login: operator.login,
    role: "operator",
    scope: null,
    passwordHash: await hashPassword(operator.password),
  });
}
