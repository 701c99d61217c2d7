import { afterAll, beforeAll, expect, it } from "vitest";
import { hashApiKey } from "../../services/core/api-key.ts";
import { formatKeyFile } from "../../services/core/key-file.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { makeBounceToken, makeToken, readBounceToken, readToken } from "../../services/core/mail/tokens.ts";
import { open, seal } from "../../services/core/secret-box.ts";
import { addCompany, changeCompany } from "../../services/operations/dns/companies.ts";
import { findDomain, startRotation } from "../../services/operations/mail/domain-check.ts";
import { queryRows } from "../../services/platform/postgres/db.ts";
import { completeKeyRing, replaceLostKeys } from "../../services/store/deployment-keys.ts";
import { findCompany } from "../../services/store/dns/companies.ts";
import { addReseller } from "../../services/store/dns/resellers.ts";
import { addCampaign, readCampaignApikey, setCampaignApikey } from "../../services/store/mail/campaigns/campaigns.ts";
import { findSenderKeys, listFurtherKeys } from "../../services/store/mail/instances/dkim-keys.ts";
import { addInstance, findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { listUnopened, SEALED_COLUMNS } from "../../services/store/sealed-columns.ts";
import { resealAll } from "../../services/store/sealed-values.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

const OLD_SECRET = "the secret that was in force";
const NEW_SECRET = "the secret that takes its place";
const NEXT_SECRET = "and the one after that one";
const OLD = KeyRing.ofSecret(OLD_SECRET);
const NEW = KeyRing.ofSecret(NEW_SECRET);
const NEXT = KeyRing.ofSecret(NEXT_SECRET);
const BOTH = KeyRing.ofSecret(NEW_SECRET, [OLD_SECRET]);
const STRANGER = KeyRing.ofSecret("quite another secret");

/** What a service has that is started with a file of its own. */
function fileOf(keyRing: KeyRing, service: string): KeyRing {
  const read = KeyRing.parse(formatKeyFile(keyRing, service));
  if (!read.ok) throw new Error(read.error);
  return read.value;
}

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
  const claims = { deliveryId: 7, expiresAt: new Date("2026-12-20T00:00:00Z") };
  expect(readToken(BOTH, "tracking-click", makeToken(OLD, "tracking-click", "x")).ok).toBe(true);
  expect(readBounceToken(BOTH, makeBounceToken(OLD, claims), now).ok).toBe(true);
  expect(readToken(NEW, "tracking-click", makeToken(BOTH, "tracking-click", "x")).ok).toBe(true);
  expect(readBounceToken(NEW, makeBounceToken(BOTH, claims), now).ok).toBe(true);
  expect(readToken(NEW, "tracking-click", makeToken(OLD, "tracking-click", "x"))).toMatchObject({ error: "forged" });
  const sealed = seal(OLD, "dkim-key", "x");
  expect(open(BOTH, "dkim-key", sealed).ok && open(NEW, "dkim-key", seal(BOTH, "dkim-key", "x")).ok).toBe(true);
  expect(open(BOTH, "tsig-key", sealed)).toMatchObject({ error: "forged" });
  expect(open(BOTH.current(), "dkim-key", sealed)).toMatchObject({ error: "forged" });
});

it("a service with a file of its own, made of both, reads what either made", () => {
  const now = new Date("2026-11-20T12:00:00Z");
  const claims = { deliveryId: 7, expiresAt: new Date("2026-12-20T00:00:00Z") };
  const bounce = fileOf(BOTH, "bounce");
  for (const made of [OLD, NEW].map((keyRing) => makeBounceToken(fileOf(keyRing, "delivery"), claims))) {
    expect(readBounceToken(bounce, made, now).ok).toBe(true);
  }
  expect(readBounceToken(bounce.current(), makeBounceToken(OLD, claims), now)).toMatchObject({ error: "forged" });
});

it("API keys go on working whichever of the two is in force on a node: the first one is noted", async () => {
  const { db } = database;
  const digest = hashApiKey(OLD, "dns", "a key");
  // Of two, nobody can tell which came first.
  expect(await completeKeyRing(db, BOTH)).toBe(BOTH);
  await expect(completeKeyRing(db, fileOf(OLD, "dns-api"))).rejects.toThrow(
    "run `palomar migrate` with PALOMAR_SECRET",
  );
  await completeKeyRing(db, OLD);
  for (const keyRing of [OLD, KeyRing.ofSecret(OLD_SECRET, [NEW_SECRET]), BOTH, fileOf(BOTH, "dns-api")]) {
    expect(hashApiKey(await completeKeyRing(db, keyRing), "dns", "a key")).toEqual(digest);
  }
});

it("resealing lets the secret before be forgotten: nothing stored needs it, and API keys go on working", async () => {
  const { db } = database;
  const company = { resellerId: "acme", crmId: "company", name: "Company", apikey: "key-of-the-company" };
  const digest = hashApiKey(OLD, "dns", "key-of-the-reseller");
  await addReseller(db, { id: "acme", name: "Acme", rpzLicence: false, keyHash: digest });
  await addCompany(db, OLD, company);
  await addInstance(db, OLD, {
    name: "acme",
    host: "mail.test",
    key: "key",
    archive: false,
    domains: ["a.test", "b.test"],
  });

  const both = await completeKeyRing(db, BOTH);
  expect(hashApiKey(both, "dns", "key-of-the-reseller")).toEqual(digest);
  expect(await resealAll(db, both)).toMatchObject({
    "companies.apikey_sealed": 1,
    "instance_domains.dkim_key_sealed": 2,
  });
  expect(await resealAll(db, both)).toMatchObject({
    "companies.apikey_sealed": 0,
    "instance_domains.dkim_key_sealed": 0,
  });

  const alone = await completeKeyRing(db, KeyRing.ofSecret(NEW_SECRET));
  expect(hashApiKey(alone, "dns", "key-of-the-reseller")).toEqual(digest);
  expect(await findCompany(db, alone, "acme", "company")).toMatchObject({ apikey: "key-of-the-company" });
  // A token of the forgotten secret is worth nothing, though the digests were made with it.
  expect(readToken(alone, "tracking-click", makeToken(OLD, "tracking-click", "x")).ok).toBe(false);
  // Services with files of their own: the new ones work, the old ones say so.
  const files = await completeKeyRing(db, fileOf(NEW, "dns-api"));
  expect(hashApiKey(files, "dns", "key-of-the-reseller")).toEqual(digest);
  await expect(completeKeyRing(db, fileOf(OLD, "bounce"))).rejects.toThrow(
    'PALOMAR_KEYS are not those of this database: the key of "return-path" is another',
  );
});

it("it can be done again", async () => {
  const { db } = database;
  await resealAll(db, await completeKeyRing(db, KeyRing.ofSecret(NEXT_SECRET, [NEW_SECRET])));
  const alone = await completeKeyRing(db, NEXT);
  const key = "key-of-the-reseller";
  expect(hashApiKey(alone, "dns", key)).toEqual(hashApiKey(OLD, "dns", key));
  expect(await findCompany(db, alone, "acme", "company")).toMatchObject({ apikey: "key-of-the-company" });
});

it("a secret that is another database's is refused by name", async () => {
  await expect(completeKeyRing(database.db, STRANGER)).rejects.toThrow("PALOMAR_SECRET is not the one");
});

it("where nothing is noted yet, only a secret that opens what is sealed is noted; a lost one is given up on purpose", async () => {
  const { db } = database;
  const facts = () => db("deployment_facts").where({ name: "keys" });
  const digestOf = async (keyRing: KeyRing) => hashApiKey(await completeKeyRing(db, keyRing), "dns", "a key");
  await facts().delete();
  await expect(completeKeyRing(db, STRANGER)).rejects.toThrow("PALOMAR_SECRET is not the one");
  await facts().insert({ name: "keys", value: "" });
  await expect(completeKeyRing(db, STRANGER)).rejects.toThrow("PALOMAR_SECRET is not the one");
  await expect(completeKeyRing(db, fileOf(NEXT, "dns-api"))).rejects.toThrow("the database knows no keys yet");
  expect(await digestOf(NEXT)).toEqual(hashApiKey(NEXT, "dns", "a key"));
  expect(await replaceLostKeys(db, NEXT)).toBe(false);
  expect(await replaceLostKeys(db, KeyRing.ofSecret("quite another secret", [NEXT_SECRET]))).toBe(false);
  expect(await replaceLostKeys(db, STRANGER)).toBe(true);
  expect(await digestOf(STRANGER)).toEqual(hashApiKey(STRANGER, "dns", "a key"));
  await expect(completeKeyRing(db, NEXT)).rejects.toThrow("PALOMAR_SECRET is not the one");
});

it("what was sealed under a lost secret is told, and made anew", async () => {
  const { db } = database;
  const keyRing = await completeKeyRing(db, STRANGER);
  const instanceId = (await findInstanceByName(db, "acme"))!.id;
  const texts = { sender: "", senderName: "", subject: "", subjectUri: "", replyTo: "", url: "", charset: "utf8" };
  const campaign = { instanceId, type: "api", name: "Campaign", ...texts, unsubscribe: false } as const;
  const { numid } = await addCampaign(db, NEXT, campaign);
  expect(await listUnopened(db, keyRing)).toEqual([
    ...[
      "companies.apikey_sealed",
      "instance_domains.dkim_key_sealed",
      "dkim_keys.key_sealed",
      "campaigns.apikey_sealed",
    ],
  ]);
  // A service is told of what it has the keys of.
  expect(await listUnopened(db, fileOf(STRANGER, "dns-api"))).toEqual(["companies.apikey_sealed"]);
  const apikey = "another-key-of-the-company";
  const which = { resellerId: "acme", crmId: "company" };
  expect(await changeCompany(db, keyRing, which, { apikey })).toMatchObject({ value: { company: { apikey } } });
  await setCampaignApikey(db, keyRing, { instanceId, numid }, "another-key");
  expect(await readCampaignApikey(db, keyRing, instanceId, numid)).toBe("another-key");

  const now = new Date("2026-11-20T12:00:00Z");
  const states = async (domain: string) =>
    (await listFurtherKeys(db, { instanceId, domain })).map(({ algorithm, state }) => `${algorithm} ${state}`);
  for (const domain of ["a.test", "b.test"]) {
    const of = { instanceId, domain };
    const { own, upkeep } = (await findDomain(db, instanceId, domain))!;
    await expect(findSenderKeys(db, keyRing, of)).rejects.toThrow("was sealed under another keyRing");
    expect(await states(domain)).toEqual(["ed25519 new"]);
    expect(await startRotation({ db, keyRing }, upkeep, now)).toBe(2);
    const { keys } = (await findSenderKeys(db, keyRing, of))!;
    expect(keys.map(({ selector }) => selector)).toEqual([`p${instanceId}-20261120r`]);
    // The record of before stays published, for what is on its way.
    const [old] = await listFurtherKeys(db, of);
    expect(old).toMatchObject({ selector: own.dkimSelector, record: own.dkimRecord });
    expect(await states(domain)).toEqual(["rsa old", "ed25519 new"]);
    // From then on it is a rotation like any.
    expect(await startRotation({ db, keyRing }, upkeep, now)).toBe(1);
    expect((await findSenderKeys(db, keyRing, of))!.keys).toEqual(keys);
  }
  expect(await listUnopened(db, keyRing)).toEqual([]);
  await resealAll(db, await completeKeyRing(db, KeyRing.ofSecret(NEW_SECRET, ["quite another secret"])));
});
