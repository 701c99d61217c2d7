import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { sentence } from "../../services/core/sentences.ts";
import { watchInstances } from "../../services/delivery/guard-watch.ts";
import { CredentialPlaces } from "../../services/operations/mail/credential-places.ts";
import { holdInstance, releaseInstance } from "../../services/operations/mail/instance-hold.ts";
import { systemClock } from "../../services/platform/clock.ts";
import { guardPolicy } from "../../services/platform/config/guard-policy.ts";
import { EachByItself } from "../../services/platform/each-by-itself.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import type { Db } from "../../services/platform/postgres/db.ts";
import { listAudit } from "../../services/store/console/audit.ts";
import { foldEventCounts } from "../../services/store/mail/events/event-counts.ts";
import { type NewEvent, recordEvents } from "../../services/store/mail/events/events.ts";
import { readInstanceGuard, setGuardSettings } from "../../services/store/mail/guard/holds.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { start as startSubmission } from "../../services/submission/main.ts";
import { eachThrown } from "../support/each-thrown.ts";
import { addTestInstance } from "../support/instances.ts";
import { MAIL_SERVICES, type MailStack, startMailStack, TEST_DOMAIN } from "../support/mail-stack.ts";
import { eventually, makeDataDir, removeDataDir } from "../support/stack.ts";
import { submitMessage } from "../support/submit.ts";

// The tests look by themselves, when they want to.
vi.mock("../../services/delivery/guard-watch.ts", async (original) => ({
  ...(await original<object>()),
  startGuardWatch: () => ({ stop: async () => {} }),
}));

const dataDir = makeDataDir();
let stack: MailStack;
let db: Db;
let submissions: string;
let numid: number;
let apikey: string;
let otherId: number;
/** Of an instance that sends nothing: what it does is made up. */
let watchedId: number;
const observed: Observation[] = [];

beforeAll(async () => {
  // The first campaign of a database has the number 1.
  stack = await startMailStack(Object.values(MAIL_SERVICES), {
    PALOMAR_DATA_DIR: dataDir,
    PALOMAR_NOTICE_CAMPAIGN: "1",
    PALOMAR_NOTICE_ADDRESSES: "operator@example.net",
  });
  db = stack.context.db;
  submissions = (await stack.run(startSubmission)).addresses.submissions!;
  numid = await stack.addCampaign();
  apikey = (await stack.call("GET", `/campania_apikey?numid=${numid}`)).body.camp_apikey;
  const other = { name: "other", host: "other.test", key: "key-of-other", archive: false, domains: [TEST_DOMAIN] };
  await addTestInstance(db, stack.context.keyRing, other);
  otherId = (await findInstanceByName(db, "other"))!.id;
  await addTestInstance(db, stack.context.keyRing, {
    ...other,
    name: "watched",
    host: "watched.test",
    key: "key-of-watched",
  });
  watchedId = (await findInstanceByName(db, "watched"))!.id;
  // All have been here for long.
  await db("instances").update({ created_at: new Date(Date.now() - 100 * 86_400_000) });
});
afterAll(async () => {
  await stack?.stop();
  removeDataDir(dataDir);
});
beforeEach(() => {
  observed.length = 0;
});
afterEach(async () => {
  for (const table of [
    "instance_guards",
    "event_counts",
    "event_count_deltas",
    "outcome_counts",
    "credential_places",
  ]) {
    await db(table).delete();
  }
  await db("events").delete();
});

const change = (reason: string, name = "test") => ({
  ...{
    instance: { id: name === "test" ? stack.instanceId : watchedId, name },
    reason: sentence("guard-by-hand", { reason }),
    by: "ana",
  },
  ...{ address: "192.0.2.1", audited: true, now: new Date() },
});
const send = (email: string) =>
  stack.call("POST", "/envio/send_one_inline", {
    ...{ campana_id: numid, email: true, contacto: { email }, html: "<p>Hi</p>", asunto: "Hi" },
  });
const submit = () =>
  submitMessage(
    submissions,
    { user: `test-${numid}`, key: apikey },
    {
      ...{ from: `info@${TEST_DOMAIN}`, recipients: ["submitted@example.net"] },
    },
  );
const arrived = (email: string) =>
  eventually(
    () => stack.inbox(email),
    (found) => found.length > 0,
  );
const audit = async (scope = "test") =>
  (await listAudit(db, { role: "instance", scope }, { limit: 10 })).map(({ action, actor, detail, outcome }) => ({
    ...{ action, actor, outcome, reason: (detail as { reason: { message: string } }).reason.message },
  }));

/** Has so many things happened to an instance just now. */
async function happened(instanceId: number, counts: { tried?: number; [kind: string]: number | undefined }) {
  const { tried = 0, ...kinds } = counts;
  const at = new Date();
  const events = Object.entries(kinds).flatMap(([kind, count]) =>
    Array.from({ length: count! }, (_, n) => ({
      ...{ instanceId, at, contactId: null, email: `e${n}@example.net` },
      kind: (kind === "unknown-address" ? "hard-bounce" : kind) as NewEvent["kind"],
      detail: { reason: kind === "unknown-address" ? "userunknown" : "hostunknown" },
    })),
  );
  await recordEvents(db, events);
  await foldEventCounts(db);
  await db("outcome_deltas").insert({ instance_id: instanceId, minute: db.raw("date_trunc('minute', now())"), tried });
}
const watch = (each = eachThrown<string>()) =>
  watchInstances(
    {
      ...{ db, clock: systemClock },
      policy: guardPolicy,
      notices: stack.context.config.notices,
      observe: (observation) => observed.push(observation),
      judges: true,
    },
    each,
  );
const heldReason = async (instanceId = stack.instanceId) =>
  (await readInstanceGuard(db, instanceId)).hold?.reason.message;

describe("a held instance", () => {
  it("keeps its mail, is told to come again, and goes on when it is released; others notice nothing", async () => {
    expect(await holdInstance(db, change("stolen key"))).toBe(true);
    expect(await holdInstance(db, change("again"))).toBe(false);
    expect(await send("kept@example.net")).toMatchObject({ status: 200, body: { sent: 1 } });
    expect(await submit()).toBe("451 4.7.1 sending is held: stolen key\r\n");
    const asOther = { Authorization: "key-of-other" };
    const others = (
      await stack.call(
        "POST",
        "/campania/",
        {
          ...{ tipo: "api", nombre: "o", remitente: `o@${TEST_DOMAIN}`, remitente_nombre: "O", asunto: "x" },
          ...{ url: "http://example.org/", charset: "utf8", desusc: "no" },
        },
        asOther,
      )
    ).body.numid;
    const body = { campana_id: others, email: true, contacto: { email: "neighbour@example.net" }, html: "x" };
    expect((await stack.call("POST", "/envio/send_one_inline", body, asOther)).status).toBe(200);
    await arrived("neighbour@example.net");
    expect(await stack.inbox("kept@example.net")).toEqual([]);
    expect(await db("partitions").where({ instance_id: stack.instanceId, state: "ready" })).toHaveLength(1);

    await setGuardSettings(db, stack.instanceId, { heldSends: "refuse" });
    expect(await send("refused@example.net")).toMatchObject({
      status: 403,
      body: { status: "err", on: "envios retenidos: stolen key" },
    });
    expect(await releaseInstance(db, change("key replaced"))).toBe(true);
    expect(await releaseInstance(db, change("again"))).toBe(false);
    await arrived("kept@example.net");
    expect(await submit()).toMatch(/^250 /);
    expect(await audit()).toEqual([
      { action: "instance.release", actor: "ana", outcome: "done", reason: "key replaced" },
      { action: "instance.hold", actor: "ana", outcome: "done", reason: "stolen key" },
    ]);
  });

  it("what a worker holds of it is stopped, and does not age meanwhile", async () => {
    expect((await send("defer+aging@example.net")).status).toBe(200);
    const partition = () => db("partitions").where({ instance_id: stack.instanceId }).orderBy("id", "desc").first();
    await eventually(partition, ({ taken_at }) => taken_at !== null);
    const before = await partition();
    await holdInstance(db, change("look"));
    await db("instance_guards").update({ held_at: new Date(Date.now() - 3_600_000) });
    await db("partitions")
      .where({ id: before.id })
      .update({ taken_at: new Date(Date.now() - 4_000_000) });
    await releaseInstance(db, change("fine"));
    expect(Date.now() - (await partition()).taken_at.getTime()).toBeLessThan(500_000);
    await arrived("defer+aging@example.net");
  });
});

describe("who watches", () => {
  it("counts what delivery tries", async () => {
    expect((await send("counted@example.net")).status).toBe(200);
    await arrived("counted@example.net");
    await eventually(
      async () => {
        await watch();
        return db("outcome_counts").where({ instance_id: stack.instanceId }).sum("tried as tried").first();
      },
      (found) => Number(found!.tried) > 0,
    );
  });

  it.each([
    ["complaints", { tried: 2_000, complained: 6 }, "complaints: 6 of 2000 recipients (limit 0.3%)"],
    ["hard bounces", { tried: 300, "hard-bounce": 30 }, "hard bounces: 30 of 300 recipients (limit 10%)"],
    ["unknown addresses", { tried: 300, "unknown-address": 25 }, "unknown addresses: 25 of 300 recipients (limit 8%)"],
    ["a sudden rise", { sent: 5_000 }, "5000 recipients in an hour, where the busiest hour before had 40"],
  ])("holds an instance for %s, tells operator and owner, and not its neighbour", async (_, counts, reason) => {
    await setGuardSettings(db, watchedId, { notify: ["owner@example.net"] });
    const weekAgo = new Date(Date.now() - 7 * 86_400_000);
    await recordEvents(
      db,
      Array.from({ length: 40 }, () => ({
        instanceId: watchedId,
        at: weekAgo,
        kind: "sent" as const,
        contactId: null,
      })),
    );
    await foldEventCounts(db);
    const tenth = Object.fromEntries(Object.entries(counts).map(([kind, count]) => [kind, Math.floor(count / 10)]));
    await happened(otherId, tenth);
    await watch();
    expect([await heldReason(watchedId), await heldReason(otherId)]).toEqual([undefined, undefined]);
    await happened(watchedId, counts);
    await watch();
    expect([await heldReason(watchedId), await heldReason(otherId)]).toEqual([reason, undefined]);
    expect(observed).toMatchObject([{ kind: "instance-held", instance: "watched", reason }]);
    expect((await audit("watched"))[0]).toEqual({ action: "instance.hold", actor: "guard", outcome: "done", reason });
    // What was before the release speaks against nobody any more.
    await releaseInstance(db, change("looked at", "watched"));
    await watch();
    expect(await heldReason(watchedId)).toBeUndefined();
    const mail = await eventually(
      () => stack.inbox("owner@example.net"),
      (found) => found.some(({ octets }) => octets.includes(reason.slice(0, 12))),
    );
    expect(mail.at(-1)!.subject).toContain("watched is held");
  });

  it("holds for a credential from a new country, once it was known from another for days", async () => {
    const countries: Record<string, string> = { "192.0.2.1": "AR", "198.51.100.1": "BR" };
    const places = new CredentialPlaces(
      db,
      (address) => ({ countryCode: countries[address]!, regionCode: "", city: "" }),
      (one) => observed.push(one),
    );
    const seen = (count: number) =>
      eventually(
        () => db("credential_places"),
        (rows) => rows.length === count,
      );
    places.note(watchedId, "campaign 1", "192.0.2.1");
    await seen(1);
    await watch();
    expect(await heldReason(watchedId)).toBeUndefined();
    await db("credential_places").update({ first_seen_at: new Date(Date.now() - 80 * 3_600_000) });
    places.note(watchedId, "campaign 1", "192.0.2.1");
    places.note(otherId, "campaign 2", "198.51.100.1");
    await seen(2);
    await watch();
    expect([await heldReason(watchedId), await heldReason(otherId)]).toEqual([undefined, undefined]);
    places.note(watchedId, "campaign 1", "198.51.100.1");
    await seen(3);
    await watch();
    expect(await heldReason(watchedId)).toBe("campaign 1 is used from BR, and was known from AR");
    await releaseInstance(db, change("on a journey", "watched"));
    await watch();
    expect(await heldReason(watchedId)).toBeUndefined();
  });

  it("goes on to others after one that cannot be judged", async () => {
    await setGuardSettings(db, otherId, { detectors: { hardBounces: "tell" } });
    await db("instance_guards").where({ instance_id: otherId }).update({ told: "null" });
    for (const instanceId of [otherId, watchedId]) await happened(instanceId, { tried: 300, "hard-bounce": 30 });
    const failed: string[] = [];
    await watch(new EachByItself<string>((name) => failed.push(name)));
    expect(failed).toEqual(["other"]);
    expect(await heldReason(watchedId)).toMatch(/./);
  });

  it("only tells where that is wanted, and not again and again", async () => {
    await setGuardSettings(db, watchedId, { detectors: { hardBounces: "tell", unknownAddresses: "off" } });
    await happened(watchedId, { tried: 300, "unknown-address": 40 });
    await watch();
    await watch();
    expect(observed).toMatchObject([{ kind: "instance-suspicious", instance: "watched", detector: "hardBounces" }]);
    expect(await heldReason(watchedId)).toBeUndefined();
  });
});
