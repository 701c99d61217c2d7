import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { FullEvents } from "../../services/operations/mail/told-events.ts";
import { addGroups } from "../../services/store/mail/contacts/groups.ts";
import { TOLD_KINDS } from "../../services/store/mail/events/event-kinds.ts";
import { recordEvents } from "../../services/store/mail/events/events.ts";
import { withdrawBatch } from "../../services/store/mail/queue/queue-stops.ts";
import {
  findFeedPosition,
  forgetDeliveries,
  keepForStreams,
  placeEvents,
  readFeed,
  tidyFeeds,
} from "../../services/store/mail/tracking/event-feed.ts";
import {
  addWebhook,
  leaseWebhook,
  listWebhooks,
  MOST_WEBHOOKS,
  nextWebhookBatch,
  releaseWebhook,
  removeWebhook,
} from "../../services/store/mail/tracking/webhooks.ts";
import { attemptFacts } from "../support/attempts.ts";
import { startMailApi, type TestMailApi } from "../support/mail-api.ts";
import { listWaiting, queuedDeliveries } from "../support/spread-tables.ts";
import { storeOutcomes } from "../support/store-outcomes.ts";
import { setWebhook } from "../support/webhooks.ts";

let api: TestMailApi;
let campaign: number;
const ALL = { kinds: Object.values(TOLD_KINDS), campaigns: null, condition: null };

beforeAll(async () => {
  api = await startMailApi();
  const made = await api.north.call("POST", "/v1/campania", {
    ...{ tipo: "api", nombre: "news", remitente: "n@example.org", remitente_nombre: "N", asunto: "Hi" },
    ...{ url: "https://example.org/", charset: "utf8", desusc: "no" },
  });
  campaign = made.body.numid;
});
afterEach(async () => {
  for (const { name } of await listWebhooks(api.db, api.north.id)) await removeWebhook(api.db, api.north.id, name);
  await api.db("event_feeds").update({ streamed_until: new Date(0) });
  await api.db("webhook_events").delete();
});
afterAll(async () => {
  await api.stop();
  expect(api.failures).toEqual([]);
});

async function send(...to: readonly string[]): Promise<{ eeid: string; ids: number[] }> {
  const answer = await api.north.call("POST", "/v1/envio/send_many_inline/", {
    ...{ campana_id: campaign, email: true, html: "x", contactos: to.map((email) => ({ email })) },
  });
  expect(answer.status).toBe(200);
  const rows = await queuedDeliveries(api.db)
    .where({ eeid: answer.body.eeid })
    .orderBy("deliveries.recipient")
    .select("deliveries.id");
  return { eeid: answer.body.eeid, ids: rows.map(({ id }) => id) };
}

function outcome(deliveryId: number, state: "delivered" | "queued" | "refused", attempts: number) {
  return {
    ...{ instanceId: api.north.id, deliveryId, state, attempts, recipient: "x@example.org" },
    reply: `${state} by us`,
    ...(state === "queued" ? { retryInSeconds: 60 } : {}),
    ...(state === "refused" ? { bounce: { hard: true, detail: { reason: "userunknown", reply: "550 no" } } } : {}),
    attempt: attemptFacts({ status: "2.0.0", reason: state === "queued" ? "ratelimited" : "" }),
  };
}

const store = (...outcomes: readonly ReturnType<typeof outcome>[]) =>
  api.db.transaction((transaction) => storeOutcomes(transaction, outcomes, { hardBouncesToInvalidate: 9 }));

const read = (after: number, most = 100) => readFeed(api.db, api.north.id, ALL, { after, most, now: new Date() });

const json = async (after: number) => new FullEvents(api.keyRing).toJson(api.db, api.north, (await read(after)).events);

describe("the feed", () => {
  test("leaves nothing out that is given its place while it is read", async () => {
    await keepForStreams(api.db, api.north.id);
    const from = await placeEvents(api.db, api.north.id, 0);
    await send(...Array.from({ length: 300 }, (_, n) => `place${n}@feed.test`));
    const { rows } = await api.db.raw(
      "select serial from webhook_events where instance_id = ? and position is null order by serial",
      [api.north.id],
    );
    const placing = (async () => {
      for (const [index, { serial }] of rows.entries()) {
        await api
          .db("webhook_events")
          .where({ serial })
          .update({ position: from + index + 1 });
      }
      await api
        .db("event_feeds")
        .where({ instance_id: api.north.id })
        .update({ position: from + rows.length });
    })();
    const told: number[] = [];
    for (let through = from; through < from + rows.length; ) {
      const page = await read(through, 1_000);
      told.push(...page.events.map(({ position }) => position));
      through = page.through;
    }
    await placing;
    expect(told).toEqual(rows.map((_: unknown, index: number) => from + index + 1));
  });

  test("goes on where events are erased while they are given places", async () => {
    await keepForStreams(api.db, api.north.id);
    const { ids } = await send("gone@feed.test", "stays@feed.test", "too@feed.test");
    const from = await placeEvents(api.db, api.north.id, 0);
    await store(...ids.map((id) => outcome(id, "delivered", 1)));
    const erasure = await api.db.transaction();
    await forgetDeliveries(erasure, api.north.id, ids.slice(0, 1));
    const placing = placeEvents(api.db, api.north.id, 0);
    await expect.poll(() => listWaiting(api.db)).not.toEqual([]);
    await erasure.commit();
    expect(await placing).toBe(from + 3);
    await store(...(await send("later@feed.test")).ids.map((id) => outcome(id, "delivered", 1)));
    await placeEvents(api.db, api.north.id, 0);
    const { events } = await read(from);
    expect(events.map(({ email }) => email)).toEqual([
      "stays@feed.test",
      "too@feed.test",
      "later@feed.test",
      "later@feed.test",
    ]);
  });

  test("has nothing where nobody listens, and costs no row", async () => {
    const { ids } = await send("silent@feed.test");
    await store(outcome(ids[0]!, "delivered", 1));
    expect(await api.db("webhook_events").select()).toEqual([]);
  });

  test("tells what becomes of deliveries only where that is asked for", async () => {
    await setWebhook(api.db, api.keyRing, api.north.id, "https://hook.test/");
    const { ids } = await send("classic@feed.test");
    await store(outcome(ids[0]!, "delivered", 1));
    await placeEvents(api.db, api.north.id, 0);
    expect((await json(await start())).map(({ evento }) => evento)).toEqual(["envio"]);
  });

  test("has every kind in order, with why and how", async () => {
    await keepForStreams(api.db, api.north.id);
    const from = await placeEvents(api.db, api.north.id, 0);
    const { ids, eeid } = await send("a@feed.test", "b@feed.test", "c@feed.test");
    await store(outcome(ids[0]!, "queued", 1), outcome(ids[1]!, "refused", 1));
    await store(outcome(ids[0]!, "delivered", 2));
    // What is settled stays settled, and is not told again.
    await store(outcome(ids[0]!, "delivered", 3));
    await withdrawBatch(api.db, { instanceId: api.north.id, eeid });
    await placeEvents(api.db, api.north.id, 0);
    const told = await json(from);
    expect(told.map(({ evento, email }) => `${email[0]} ${evento}`)).toEqual([
      "a envio",
      "b envio",
      "c envio",
      "a diferido",
      "b rebote_hard",
      "a entregado",
      "c cancelado",
    ]);
    const about = {
      campania: "news",
      campana_id: campaign,
      eeid,
      message_id: expect.stringMatching(/^<[^@<>]+@example\.org>$/),
    };
    expect(told[3]).toMatchObject({
      ...{ ...about, delivery_id: ids[0], reason: "ratelimited", status: "2.0.0", reply: "queued by us", attempt: 1 },
      exchanger: attemptFacts({}).path!.exchanger,
    });
    expect(told[4]).toMatchObject({ ...about, reason: "userunknown", reply: "550 no", attempt: 1 });
    expect(new Set(told.filter(({ email }) => email === "a@feed.test").map(({ message_id }) => message_id)).size).toBe(
      1,
    );
    expect(told.map(({ id }) => id)).toEqual(told.map((_, index) => from + 1 + index));
  });

  test("says why nothing was sent", async () => {
    await keepForStreams(api.db, api.north.id);
    const from = await placeEvents(api.db, api.north.id, 0);
    await api.north.call("POST", "/v1/contacto", { email: "inv@feed.test", invalido: true });
    await send("inv@feed.test");
    await placeEvents(api.db, api.north.id, 0);
    expect(await json(from)).toMatchObject([{ evento: "unknown", reason: "invalid" }]);
  });

  test("misses nothing of transactions that end in another order than they began", async () => {
    await keepForStreams(api.db, api.north.id);
    const from = await placeEvents(api.db, api.north.id, 0);
    const contact = await api.db("contacts").first("id");
    const event = (eeid?: string) => ({
      ...{ instanceId: api.north.id, kind: "viewed" as const, contactId: contact.id, at: new Date() },
      ...(eeid === undefined ? {} : { eeid }),
    });
    let commitFirst = () => {};
    const late = new Promise<void>((resolve) => {
      commitFirst = resolve;
    });
    let begun = () => {};
    const isBegun = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const first = api.db.transaction(async (transaction) => {
      await recordEvents(transaction, [event()]);
      begun();
      await late;
    });
    await isBegun;
    await recordEvents(api.db, [event()]);
    expect(await placeEvents(api.db, api.north.id, 0)).toBe(from + 1);
    const early = await read(from);
    expect(early.events).toHaveLength(1);
    commitFirst();
    await first;
    await Promise.all(Array.from({ length: 5 }, () => placeEvents(api.db, api.north.id, 0)));
    expect((await read(early.through)).events).toHaveLength(1);
  });

  test("gives places by the time of what happened, once that has settled", async () => {
    await keepForStreams(api.db, api.north.id);
    const from = await placeEvents(api.db, api.north.id, 0);
    const contact = await api.db("contacts").first("id");
    const at = (ms: number) => ({
      ...{ instanceId: api.north.id, kind: "viewed" as const, contactId: contact.id, at: new Date(Date.now() - ms) },
    });
    await recordEvents(api.db, [at(0)]);
    await recordEvents(api.db, [at(60_000)]);
    expect(await placeEvents(api.db, api.north.id, 30)).toBe(from + 1);
    await recordEvents(api.db, [at(120_000)]);
    await placeEvents(api.db, api.north.id, 0);
    const ages = (await read(from)).events.map((event) => Math.round((Date.now() - event.at.getTime()) / 60_000));
    expect(ages).toEqual([1, 2, 0]);
  });

  test("forgets what nobody needs", async () => {
    await setWebhook(api.db, api.keyRing, api.north.id, "https://hook.test/");
    await send("tidy@feed.test");
    await tidyFeeds(api.db);
    expect(await api.db("webhook_events").select()).toHaveLength(1);
    await nextWebhookBatch(api.db, api.north.id, 10, () => "{}");
    await tidyFeeds(api.db);
    expect(await api.db("webhook_events").select()).toEqual([]);
    await keepForStreams(api.db, api.north.id);
    await send("kept@feed.test");
    await placeEvents(api.db, api.north.id, 0);
    await api.db("webhooks").update({ position: 1_000_000 });
    await tidyFeeds(api.db);
    expect(await api.db("webhook_events").select()).toHaveLength(1);
    await api.db("webhook_events").update({ stored_at: new Date(0) });
    await tidyFeeds(api.db);
    expect(await api.db("webhook_events").select()).toEqual([]);
  });
});

async function start(): Promise<number> {
  const [row] = await api.db("webhook_events").min("position as first").where({ instance_id: api.north.id });
  return (row!.first ?? (await findFeedPosition(api.db, api.north.id)) + 1) - 1;
}

describe("webhooks", () => {
  const hook = (name: string, choice: Partial<Parameters<typeof addWebhook>[3]> = {}) =>
    addWebhook(api.db, api.keyRing, api.north.id, {
      ...{ name, url: `https://${name}.test/`, kinds: null, campaigns: null, condition: null, isFull: false },
      ...choice,
    });
  const next = (name: string) =>
    nextWebhookBatch(api.db, { instanceId: api.north.id, name }, 100, (events) =>
      JSON.stringify(events.map(({ kind, email }) => `${email} ${kind}`)),
    );

  test("each is told what it asked for, at its own pace", async () => {
    await hook("all");
    await hook("bounces", { kinds: [TOLD_KINDS["hard-bounce"], TOLD_KINDS.delivered] });
    await hook("other", { campaigns: [campaign + 1] });
    await hook("red", { condition: { field: "email", is: "starts-with", value: "red" } });
    const { ids } = await send("red@hook.test", "sky@hook.test");
    await store(outcome(ids[0]!, "refused", 1), outcome(ids[1]!, "delivered", 1));
    const body = async (name: string) => JSON.parse((await next(name))?.body ?? "null");
    expect(await body("bounces")).toEqual(["sky@hook.test 12", "red@hook.test 4"]);
    expect(await body("other")).toBe(null);
    expect(await body("red")).toEqual(["red@hook.test 1", "red@hook.test 4"]);
    await send("late@hook.test");
    expect(await body("all")).toEqual(["red@hook.test 1", "sky@hook.test 1", "red@hook.test 4", "late@hook.test 1"]);
    // It waits until it is settled: the same again.
    expect(await body("all")).toHaveLength(4);
  });

  test("one whose filter names a group that is gone is told of nobody", async () => {
    await hook("but", { condition: { not: { group: "gone" } } });
    await send("but@hook.test");
    expect(await next("but")).toBeUndefined();
    await addGroups(api.db, api.north.id, ["gone"]);
    await send("again@hook.test");
    expect(JSON.parse((await next("but"))!.body)).toEqual(["again@hook.test 1"]);
  });

  test("what happened before one was set is not for it", async () => {
    await hook("first");
    await send("before@hook.test");
    await hook("second");
    expect(await next("second")).toBeUndefined();
    expect(await next("first")).toBeDefined();
  });

  test("an instance has so many at most, and another's stay out of reach", async () => {
    for (let index = 0; index < MOST_WEBHOOKS; index++) expect(await hook(`h${index}`)).toBeDefined();
    expect(await hook("more")).toBeUndefined();
    expect(await hook("h1")).toBeDefined();
    expect(await removeWebhook(api.db, api.south.id, "h1")).toBe(false);
    expect(await listWebhooks(api.db, api.south.id)).toEqual([]);
  });

  test("those that fail or are slow leave room for the others", async () => {
    await hook("bad");
    await hook("slow");
    await hook("good");
    await api.db("webhooks").where({ name: "bad" }).update({ failures: 3 });
    await send("room@hook.test");
    const lease = { workerId: "3d8e2b5c-9f5e-4c0e-8a53-0a6f6f2b8a11", leaseSeconds: 60 };
    const slow = [{ instanceId: api.north.id, name: "slow" }];
    const places = { fullInstances: [], troubled: false, slow };
    const full = { fullInstances: [api.north.id], troubled: true, slow: [] };
    expect(await leaseWebhook(api.db, api.keyRing, { ...lease, places: full })).toBeUndefined();
    const only = await leaseWebhook(api.db, api.keyRing, { ...lease, places });
    expect(only?.name).toBe("good");
    expect(await leaseWebhook(api.db, api.keyRing, { ...lease, places })).toBeUndefined();
    await removeWebhook(api.db, api.north.id, "slow");
    expect((await leaseWebhook(api.db, api.keyRing, lease))?.name).toBe("bad");
    await releaseWebhook(api.db, { instanceId: api.north.id, name: "bad", workerId: lease.workerId });
    expect((await leaseWebhook(api.db, api.keyRing, lease))?.name).toBe("bad");
  });
});
