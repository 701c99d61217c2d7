import { afterAll, beforeAll, expect, it } from "vitest";
import { hashApiKey } from "../../services/core/api-key.ts";
import { makeBounceToken, makeToken, readBounceToken, readToken } from "../../services/core/mail/tokens.ts";
import { makeKeyring, open, seal, secretsOf } from "../../services/core/secret-box.ts";
import { queryRows } from "../../services/platform/db.ts";
import { withApiKeySecret } from "../../services/store/api-key-secret.ts";
import { addCompany, findCompany } from "../../services/store/dns/companies.ts";
import { addReseller } from "../../services/store/dns/resellers.ts";
import { addInstance } from "../../services/store/mail/instances.ts";
import { SEALED_COLUMNS } from "../../services/store/sealed-columns.ts";
import { resealAll } from "../../services/store/sealed-values.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const OLD = "the secret that was in force";
const NEW = "the secret that takes its place";
const NEXT = "and the one after that one";

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
});

afterAll(() => database.drop());

it("every sealed column is known, so that none is left behind", async () => {
  const rows = await queryRows<{ place: string }>(
    database.db,
    `select table_name || '.' || column_name as place from information_schema.columns
      where table_schema = current_schema() and column_name like '%sealed%' order by 1`,
  );
  expect(rows.map(({ place }) => place)).toEqual(
    SEALED_COLUMNS.map(({ table, column }) => `${table}.${column}`).sort(),
  );
});

it("tokens of the secret before are accepted as long as it is named, and new ones are made with the new", () => {
  const now = new Date("2026-11-20T12:00:00Z");
  const claims = { deliveryId: 7n, expiresAt: new Date("2026-12-20T00:00:00Z") };
  const both = makeKeyring([NEW, OLD]);
  expect(readToken(both, "click", makeToken(OLD, "click", "x")).ok).toBe(true);
  expect(readBounceToken(both, makeBounceToken(OLD, claims), now).ok).toBe(true);
  expect(readToken(NEW, "click", makeToken(both, "click", "x")).ok).toBe(true);
  expect(readBounceToken(NEW, makeBounceToken(both, claims), now).ok).toBe(true);
  expect(readToken(NEW, "click", makeToken(OLD, "click", "x"))).toMatchObject({ error: "forged" });
  expect(open(both, "p", seal(OLD, "p", "x")).ok && open(NEW, "p", seal(both, "p", "x")).ok).toBe(true);
  expect(open(both, "other", seal(OLD, "p", "x"))).toMatchObject({ error: "forged" });
  expect(secretsOf(makeKeyring([NEW, OLD], "root"))).toEqual([NEW, OLD]);
});

it("API keys go on working whichever of the two is in force on a node: the first one is noted", async () => {
  const { db } = database;
  const digest = hashApiKey(OLD, "a key");
  // Of two, nobody can tell which came first.
  expect(await withApiKeySecret(db, makeKeyring([NEW, OLD]))).toBe(makeKeyring([NEW, OLD]));
  await withApiKeySecret(db, OLD);
  for (const secrets of [[OLD], [OLD, NEW], [NEW, OLD]]) {
    expect(hashApiKey(await withApiKeySecret(db, makeKeyring(secrets)), "a key")).toEqual(digest);
  }
});

it("resealing lets the secret before be forgotten: nothing stored needs it, and API keys go on working", async () => {
  const { db } = database;
  const company = { resellerId: "acme", crmId: "company", name: "Company", apikey: "key-of-the-company" };
  await addReseller(db, {
    id: "acme",
    name: "Acme",
    rpzLicence: false,
    keyHash: hashApiKey(OLD, "key-of-the-reseller"),
  });
  await addCompany(db, OLD, company);
  await addInstance(db, OLD, {
    name: "acme",
    host: "mail.test",
    key: "key",
    archive: false,
    domains: ["a.test", "b.test"],
  });

  const both = await withApiKeySecret(db, makeKeyring([NEW, OLD]));
  const digest = hashApiKey(OLD, "key-of-the-reseller");
  expect(hashApiKey(both, "key-of-the-reseller")).toEqual(digest);
  expect(await resealAll(db, both)).toMatchObject({
    "companies.apikey_sealed": 1,
    "instance_domains.dkim_key_sealed": 2,
  });
  expect(await resealAll(db, both)).toMatchObject({
    "companies.apikey_sealed": 0,
    "instance_domains.dkim_key_sealed": 0,
  });

  const alone = await withApiKeySecret(db, makeKeyring([NEW]));
  expect(hashApiKey(alone, "key-of-the-reseller")).toEqual(digest);
  expect(await findCompany(db, alone, "acme", "company")).toMatchObject({ apikey: "key-of-the-company" });
  // A token of the forgotten secret is worth nothing, though the digests were made with it.
  expect(readToken(alone, "click", makeToken(OLD, "click", "x")).ok).toBe(false);
});

it("it can be done again", async () => {
  const { db } = database;
  const both = await withApiKeySecret(db, makeKeyring([NEXT, NEW]));
  await resealAll(db, both);
  const alone = await withApiKeySecret(db, NEXT);
  expect(hashApiKey(alone, "key-of-the-reseller")).toEqual(hashApiKey(OLD, "key-of-the-reseller"));
  expect(await findCompany(db, alone, "acme", "company")).toMatchObject({ apikey: "key-of-the-company" });
});

it("a secret that is another database's is refused by name", async () => {
  await expect(withApiKeySecret(database.db, "quite another secret")).rejects.toThrow("PALOMAR_SECRET is not the one");
});

it("where nothing is noted yet, only a secret that opens what is sealed is noted; a lost one is given up by hand", async () => {
  const { db } = database;
  const facts = () => db("deployment_facts").where({ name: "api key secret" });
  await facts().delete();
  await expect(withApiKeySecret(db, "quite another secret")).rejects.toThrow("PALOMAR_SECRET is not the one");
  await expect(withApiKeySecret(db, NEXT)).resolves.toContain(NEXT);
  await facts().update({ value: "" });
  await expect(withApiKeySecret(db, "quite another secret")).resolves.toContain("quite another secret");
  await expect(withApiKeySecret(db, NEXT)).rejects.toThrow("PALOMAR_SECRET is not the one");
});
