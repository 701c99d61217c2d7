import { createHmac, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { hashSessionToken } from "../../services/console/session-cookie.ts";
import { hashApiKey } from "../../services/core/api-key.ts";
import { DELEGATION_SCHEME, type Delegation, makeDelegationToken } from "../../services/core/delegation-token.ts";
import {
  ALL_PURPOSES,
  type ApiKeyKind,
  KEY_PURPOSES,
  type KeyPurpose,
  purposesOf,
  type SealPurpose,
} from "../../services/core/key-purposes.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { makeBounceToken, readBounceToken } from "../../services/core/mail/tokens.ts";
import {
  type DeliveryTokenPurpose,
  makeClickToken,
  makeDeliveryToken,
  readClickToken,
  readDeliveryToken,
} from "../../services/core/mail/tracking-tokens.ts";
import { open, seal } from "../../services/core/secret-box.ts";
import { start as startDnsApi } from "../../services/dns-api/main.ts";
import { pipelineSettings } from "../../services/dns-server/settings.ts";
import { openAccess, sealAccess } from "../../services/dns-server/transfer/sealed-access.ts";
import { start as startMailApi } from "../../services/mail-api/main.ts";
import { loadConfig } from "../../services/platform/config/config.ts";
import { packageFolder } from "../../services/platform/package-folder.ts";
import { type Db, openDb, queryRows } from "../../services/platform/postgres/db.ts";
import { rolePolicy } from "../../services/store/database-roles.ts";
import { completeKeyRing } from "../../services/store/deployment-keys.ts";
import { SEALED_COLUMNS } from "../../services/store/sealed-columns.ts";
import { callApi } from "../support/api-client.ts";
import { startConsole, type TestConsole } from "../support/console.ts";
import { keyRingOfFile, makeRoles } from "../support/service-roles.ts";

const services = Object.keys(rolePolicy.services);

/** Somebody who has taken over a service: its key file and its role in the database. */
interface Attacker {
  readonly keyRing: KeyRing;
  readonly db: Db;
}

let palomar: TestConsole;
let whole: KeyRing;
const attackers = new Map<string, Attacker>();

beforeAll(async () => {
  palomar = await startConsole([startDnsApi, startMailApi]);
  const { db, url } = palomar.database;
  whole = await completeKeyRing(db, palomar.context.keyRing);
  const urls = await makeRoles(palomar.database);
  for (const service of services) {
    const own = openDb(urls.get(service) ?? url, { connections: 1, name: service });
    attackers.set(service, { keyRing: keyRingOfFile(whole, service), db: own });
  }
});

afterAll(async () => {
  for (const { db } of attackers.values()) await db.destroy();
  await palomar.stop();
});

/** The keys that an attacker can try for a purpose: the right one, or else each that the service has in its place. */
function candidates(keyRing: KeyRing, purpose: KeyPurpose): KeyRing[] {
  if (keyRing.holds(purpose)) return [keyRing];
  return heldKeys(keyRing).map((key) => parse(`${purpose} ${key}`));
}

function heldKeys(keyRing: KeyRing): string[] {
  return keyRing.purposes.flatMap((purpose) => keyRing.keysFor(purpose).map((key) => key.export().toString("hex")));
}

function parse(text: string): KeyRing {
  const read = KeyRing.parse(text);
  if (!read.ok) throw new Error(read.error);
  return read.value;
}

async function anyOf<T>(values: readonly T[], attempt: (value: T) => boolean | Promise<boolean>): Promise<boolean> {
  for (const value of values) if (await attempt(value)) return true;
  return false;
}

/** A token that one of the APIs believes, by a real request. */
const actAt = (purpose: KeyPurpose, delegation: Delegation, path: string) => (attacker: Attacker) =>
  anyOf(candidates(attacker.keyRing, purpose), async (keyRing) => {
    // What the forger holds goes in where the right key would be.
    const token = makeDelegationToken(keyRing, delegation, Date.now());
    const url = await palomar.context.addressOf(delegation.audience === "dns" ? "dns_api" : "mail_api");
    const { status } = await callApi("GET", `${url}${path}`, { Authorization: `${DELEGATION_SCHEME} ${token}` });
    if (![200, 403].includes(status)) throw new Error(`status ${status}`);
    return status === 200;
  });

/** A session that the console takes, by a real request. */
async function actAtConsole({ db }: Attacker): Promise<boolean> {
  const token = randomBytes(32).toString("base64url");
  try {
    await queryRows(
      db,
      `insert into console_sessions (token_hash, user_id, created_at, seen_at, address, agent)
       select $1, id, now(), now(), '', '' from users where login = 'operator'`,
      [hashSessionToken(token)],
    );
  } catch (error) {
    if ((error as { code?: string }).code !== "42501") throw error;
  }
  const { status } = await palomar.call("GET", "/session", undefined, { Cookie: `palomar_session=${token}` });
  return status === 200;
}

/** The digest of a key that is stored: what tells a right guess from a wrong one. */
const testGuesses = (kind: ApiKeyKind) => (attacker: Attacker) =>
  anyOf([...candidates(attacker.keyRing, `api-key-${kind}`), ...digestCandidates(attacker, kind)], async (keyRing) => {
    const completed = await completeKeyRing(attacker.db, keyRing).catch(() => keyRing);
    try {
      return hashApiKey(completed, kind, "a guess").equals(hashApiKey(whole, kind, "a guess"));
    } catch {
      return false; // it has no digest key at all
    }
  });

function digestCandidates({ keyRing }: Attacker, kind: ApiKeyKind): KeyRing[] {
  return heldKeys(keyRing).map((key) => parse(`digest:${kind} ${key}`));
}

async function makeReturnPaths({ keyRing }: Attacker): Promise<boolean> {
  const claims = { deliveryId: 7, expiresAt: new Date(Date.now() + 86_400_000) };
  const bounce = attackers.get("bounce")!.keyRing;
  return anyOf(
    candidates(keyRing, "return-path"),
    (one) => readBounceToken(bounce, makeBounceToken(one, claims), new Date()).ok,
  );
}

const makeLink = (purpose: DeliveryTokenPurpose, { keyRing }: Attacker) =>
  anyOf(
    candidates(keyRing, `tracking-${purpose}`),
    (one) => readDeliveryToken(attackers.get("tracking")!.keyRing, purpose, makeDeliveryToken(one, purpose, 7)).ok,
  );

async function makeLinks(attacker: Attacker): Promise<boolean> {
  const clicks = await anyOf(candidates(attacker.keyRing, "tracking-click"), (one) => {
    const token = makeClickToken(one, { deliveryId: 7, messageId: 7, link: "0123456789ab" });
    return readClickToken(attackers.get("tracking")!.keyRing, token).ok;
  });
  // Both or none: a service that could make one of them has no row of its own.
  expect(await makeLink("open", attacker)).toBe(clicks);
  return clicks;
}

/** What somebody else sealed, which a stolen database gives: whatever the role lets the service read. */
const openSealed = (purpose: SealPurpose) => (attacker: Attacker) => {
  const sealed = seal(whole, purpose, "what nobody else may know");
  return anyOf(candidates(attacker.keyRing, purpose), (keyRing) => open(keyRing, purpose, sealed).ok);
};

async function openSnapshot({ keyRing }: Attacker): Promise<boolean> {
  const sealed = sealAccess({ version: 1, keys: [], grants: [], restricted: [] } as never, whole);
  return anyOf(candidates(keyRing, "transfer-access"), (one) => {
    try {
      return openAccess(sealed, one).version === 1;
    } catch {
      return false;
    }
  });
}

async function makeCookies({ keyRing }: Attacker): Promise<boolean> {
  const config = loadConfig({ PALOMAR_DNS_NSID: "test" });
  if (!config.ok) throw new Error(config.error.join());
  const cookieSecret = (one: KeyRing) => Buffer.from(pipelineSettings(config.value, one).edns.cookieSecret);
  return anyOf(candidates(keyRing, "dns-cookie"), (one) => cookieSecret(one).equals(cookieSecret(whole)));
}

async function makeBackup({ keyRing }: Attacker): Promise<boolean> {
  const markWith = (one: KeyRing) => createHmac("sha256", one.keyFor("backup")).update("x").digest();
  return anyOf(candidates(keyRing, "backup"), (one) => markWith(one).equals(markWith(whole)));
}

const dnsUser = { audience: "dns", login: "one", resellerId: "one" } as const;
const mailUser = { audience: "mail", login: "north", instance: "north" } as const;

/** As docs/security.md words them. */
const CAPABILITIES: Readonly<Record<string, (attacker: Attacker) => Promise<boolean>>> = {
  "act at the DNS API in somebody's name": actAt("console-token-dns", dnsUser, "/api/v1/domain_list"),
  "act at the mail API in somebody's name": actAt("console-token-mail", mailUser, "/v1/filtros"),
  "act at the console in somebody's name": actAtConsole,
  "test guesses at keys of resellers and companies": testGuesses("dns"),
  "test guesses at keys of instances": testGuesses("instance"),
  "test guesses at keys of campaigns": testGuesses("campaign"),
  "make return paths": makeReturnPaths,
  "make links of opens and clicks": makeLinks,
  "make links of unsubscriptions": (attacker) => makeLink("unsubscribe", attacker),
  "make links of conversions": (attacker) => makeLink("conversion", attacker),
  "open DKIM keys": openSealed("dkim-key"),
  "open DNSSEC keys": openSealed("dnssec-key"),
  "open TSIG secrets": openSealed("tsig-key"),
  "open keys of companies": openSealed("company-apikey"),
  "open keys of campaigns": openSealed("campaign-apikey"),
  "open secrets of webhooks": openSealed("webhook-secret"),
  "open passwords of mailboxes": openSealed("mailbox-password"),
  "open secrets of one-time codes": openSealed("console-totp"),
  "open a name server's snapshot": openSnapshot,
  "make DNS cookies": makeCookies,
  "make a backup that passes for ours": makeBackup,
};

const document = readFileSync(join(packageFolder, "docs/security.md"), "utf8");
const rowsAfter = (head: string) => {
  const [, rest = ""] = document.split(`\n${head}\n`);
  const [table = ""] = rest.split("\n\n");
  const rows = table.split("\n").slice(1);
  return rows.map((row) =>
    row
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
};
const head = `| | ${services.join(" | ")} |`;
const documented = rowsAfter(head);

it("docs/security.md names every purpose, with the services that have its key", () => {
  const named = rowsAfter("| purpose | makes or seals | checks or opens | what the others could do with it |");
  const list = (names: readonly string[]) => names.join(", ") || "–";
  expect(named.map((cells) => cells.slice(0, 3))).toEqual(
    Object.entries(KEY_PURPOSES).map(([purpose, { makes, reads }]) => [`\`${purpose}\``, list(makes), list(reads)]),
  );
});

it("docs/security.md has a row for each thing that is tried here, and no other", () => {
  expect(documented.map(([capability]) => capability)).toEqual(Object.keys(CAPABILITIES));
});

describe.each(documented)("%s", (capability, ...cells) => {
  it.each(services.map((service, index) => [service, cells[index]] as const))("%s: %s", async (service, cell) => {
    const attempt = CAPABILITIES[capability!]!;
    expect(await attempt(attackers.get(service)!)).toBe(cell === "yes");
    expect(["yes", "–"]).toContain(cell);
  });
});

it("what a service's key opens, its role may read", async () => {
  for (const { table, column, purpose } of SEALED_COLUMNS) {
    const readers: readonly string[] = KEY_PURPOSES[purpose].reads;
    for (const service of readers) {
      const { db } = attackers.get(service)!;
      await expect(queryRows(db, `select ${column} from ${table} limit 1`)).resolves.toBeDefined();
    }
  }
});

/** What roles may read sealed, and have no key to: the rest of the row is their business. */
const READ_SEALED: Readonly<Record<string, readonly string[]>> = {
  "companies.apikey_sealed": ["console"],
  "instance_domains.dkim_key_sealed": ["mail-api", "submission", "bounce"],
  "campaigns.apikey_sealed": ["submission", "delivery", "bounce", "tracking", "console"],
  "zone_keys.private_key_sealed": ["console"],
  "mailboxes.password_sealed": ["console"],
  // What a role reads through a view, a Citus asks the tables for in its name.
  ...(inject("citusWorkers").length > 0 && {
    "webhooks.secret_sealed": ["mail-api", "submission", "delivery", "bounce"],
  }),
};

it("what a service has no key for, its role may not read sealed either, but for what is told here", async () => {
  const found: Record<string, string[]> = {};
  for (const { table, column, purpose } of SEALED_COLUMNS) {
    for (const service of services.filter((name) => !purposesOf(name).includes(purpose))) {
      const { db } = attackers.get(service)!;
      const reads = await queryRows(db, `select ${column} from ${table} limit 1`).then(
        () => true,
        (error: { code?: string }) => error.code !== "42501",
      );
      if (reads) found[`${table}.${column}`] = [...(found[`${table}.${column}`] ?? []), service];
    }
  }
  expect(found).toEqual(READ_SEALED);
});

it("no service has the secret, and together they have every purpose but the operator's", () => {
  for (const [service, { keyRing }] of attackers) {
    expect(keyRing.secretCount, service).toBe(0);
    expect(keyRing.purposes, service).toEqual(purposesOf(service));
  }
  const held = new Set([...attackers.values()].flatMap(({ keyRing }) => keyRing.purposes));
  expect(ALL_PURPOSES.filter((purpose) => !held.has(purpose))).toEqual(["backup"]);
});
