import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { EventKind } from "../../services/core/mail/event-kind.ts";
import { recordBounces, recordComplaint } from "../../services/operations/mail/outcomes.ts";
import { storeTouches } from "../../services/operations/mail/tracking-events.ts";
import { EachByItself } from "../../services/platform/each-by-itself.ts";
import { countEvents, foldEventCounts } from "../../services/store/mail/events/event-counts.ts";
import { listContactEvents } from "../../services/store/mail/events/event-pages.ts";
import { prepareEventMonths } from "../../services/store/mail/events/event-partitions.ts";
import { applyRetention } from "../../services/store/mail/events/event-retention.ts";
import { type NewEvent, recordEvents } from "../../services/store/mail/events/events.ts";
import { readSeries } from "../../services/store/mail/events/statistics.ts";
import { findInstanceByName, setInstanceSettings } from "../../services/store/mail/instances/instances.ts";
import { findDelivery } from "../../services/store/mail/queue/deliveries.ts";
import { removeMessages } from "../../services/store/mail/sends/message-retention.ts";
import { eachThrown } from "../support/each-thrown.ts";
import { startMailApi, type TestMailApi } from "../support/mail-api.ts";
import { changeTriggers, listWaiting, queuedDeliveries } from "../support/spread-tables.ts";
import { eventually } from "../support/stack.ts";

let api: TestMailApi;
let contactId: number;
let campaign: { numid: number };
beforeAll(async () => {
  api = await startMailApi();
  contactId = (await api.north.call("POST", "/v1/contacto", { email: "e@example.org" })).body.contacto.numid;
  campaign = (await api.north.call("POST", "/v1/campania", { tipo: "normal", nombre: "Campaña" })).body;
});
afterAll(async () => {
  await api.stop();
  expect(api.failures).toEqual([]);
});

const event = (at: string | Date, kind: EventKind = "sent", more: Partial<NewEvent> = {}): NewEvent => ({
  instanceId: api.north.id,
  contactId,
  at: new Date(at),
  kind,
  ...more,
});

describe("cantidad_eventos", () => {
  test("counts each type that occurred, both ends included, machines left out", async () => {
    await recordEvents(api.db, [
      event("2024-03-01T09:59:59.999Z", "viewed"),
      event("2024-03-01T10:00:00.000Z", "sent"),
      event("2024-03-01T10:30:00.000Z", "sent"),
      event("2024-03-01T10:30:00.500Z", "hard-bounce"),
      event("2024-03-01T10:40:00.000Z", "viewed", { machine: true }),
      event("2024-03-01T11:00:00.999Z", "clicked"),
      event("2024-03-01T11:00:01.000Z", "converted"),
      event("2024-03-01T10:30:00.000Z", "sent", { instanceId: api.south.id }),
    ]);
    const expected = {
      status: "ok",
      eventos: [
        { count: 2, event: "envio" },
        { count: 1, event: "click" },
        { count: 1, event: "rebote_hard" },
      ],
    };
    const period = { fechahora_desde: "2024-03-01_10:00:00", fechahora_hasta: "2024-03-01_11:00:00" };
    for (const fold of [false, true]) {
      if (fold) await foldEventCounts(api.db);
      for (const answer of [
        await api.north.call("GET", "/v1/cantidad_eventos", period),
        await api.north.call(
          "GET",
          "/v1/cantidad_eventos/?fechahora_desde=2024-03-01T10:00:00&fechahora_hasta=2024-03-01T11:00:00",
        ),
      ]) {
        expect([answer.status, answer.body]).toEqual([200, expected]);
      }
    }
  });

  test("every type has its name", async () => {
    const kinds: [EventKind, string][] = [
      ["sent", "envio"],
      ["viewed", "vista"],
      ["clicked", "click"],
      ["hard-bounce", "rebote_hard"],
      ["soft-bounce", "rebote-soft"],
      ["unsubscribed", "desuscripcion"],
      ["converted", "conversion"],
      ["invalidated", "invalidacion"],
      ["not-sent", "unknown"],
      ["revalidated", "revalidacion"],
      ["complained", "queja"],
    ];
    await recordEvents(
      api.db,
      kinds.map(([kind]) => event("2023-01-01T00:00:00Z", kind)),
    );
    const { body } = await api.north.call("GET", "/v1/cantidad_eventos", {
      fechahora_desde: "2023-01-01T00:00:00",
      fechahora_hasta: "2023-01-01T00:00:00",
    });
    expect(body.eventos).toEqual(kinds.map(([, name]) => ({ count: 1, event: name })));
  });

  test.each([
    [{}, "falta fechahora_desde"],
    [{ fechahora_desde: "2024-01-01_00:00:00" }, "falta fechahora_hasta"],
    [{ fechahora_desde: "2024-01-01", fechahora_hasta: "2024-01-01_00:00:00" }, "fechahora_desde invalido"],
    [{ fechahora_desde: "", fechahora_hasta: "2024-01-01_00:00:00" }, "fechahora_desde invalido"],
    [{ fechahora_desde: "0000-01-01_00:00:00", fechahora_hasta: "2024-01-01_00:00:00" }, "fechahora_desde invalido"],
    [{ fechahora_desde: "2024-02-30_00:00:00", fechahora_hasta: "2024-03-01_00:00:00" }, "fechahora_desde invalido"],
    [{ fechahora_desde: "2024-01-01_00:00:00", fechahora_hasta: 5 }, "fechahora_hasta invalido"],
    [{ fechahora_desde: "2024-01-02_00:00:00", fechahora_hasta: "2024-01-01_00:00:00" }, "fechahora_desde invalido"],
  ])("%j is 400 %s", async (body, on) => {
    for (const path of ["cantidad_eventos", "ver_eventos"]) {
      const answer = await api.north.call("GET", `/v1/${path}`, { ...body, pagina: 1, cantidad: 10 });
      expect([answer.status, answer.body]).toEqual([400, { status: "err", on }]);
    }
  });

  test("an instance's time zone is that of its timestamps", async () => {
    const zone = "America/Argentina/Buenos_Aires";
    await recordEvents(api.db, [
      event("2022-06-01T02:30:00Z", "sent", { instanceId: api.south.id, contactId: null, email: "x@example.org" }),
    ]);
    await setInstanceSettings(api.db, api.south.id, { timeZone: zone });
    const { body } = await api.south.call("GET", "/v1/ver_eventos", {
      fechahora_desde: "2022-05-31_23:30:00",
      fechahora_hasta: "2022-05-31_23:30:00",
      pagina: 1,
      cantidad: 10,
    });
    expect(body.eventos).toMatchObject([{ timestamp: "2022-05-31T23:30:00", email: "x@example.org" }]);
    const always = { fechahora_desde: "0001-01-01T00:00:00", fechahora_hasta: "9999-12-31T23:59:59" };
    const everything = await api.south.call("GET", "/v1/ver_eventos", { ...always, pagina: 1, cantidad: 10 });
    expect(everything.body.eventos).toContainEqual(body.eventos[0]);
  });

  test("times that the clocks skip hold nothing, and make no period end before it begins", async () => {
    const zone = (await findInstanceByName(api.db, "south"))!.timeZone;
    await setInstanceSettings(api.db, api.south.id, { timeZone: "Europe/Madrid" });
    const at = { instanceId: api.south.id, contactId: null, email: "x@example.org" };
    await recordEvents(api.db, [
      event("2022-03-27T00:59:59Z", "sent", at),
      event("2022-03-27T01:00:00Z", "sent", at),
      event("2022-03-27T01:30:00Z", "sent", at),
    ]);
    const times = async (from: string, to: string) => {
      const period = { fechahora_desde: `2022-03-27_${from}`, fechahora_hasta: `2022-03-27T${to}` };
      const page = await api.south.call("GET", "/v1/ver_eventos", { ...period, pagina: 1, cantidad: 10 });
      const counts = await api.south.call("GET", "/v1/cantidad_eventos", period);
      expect(counts.body.eventos[0]?.count ?? 0).toBe(page.body.total);
      return page.body.eventos.map(({ timestamp }: { timestamp: string }) => timestamp.slice(-8));
    };
    expect(await times("01:00:00", "01:59:59")).toEqual(["01:59:59"]);
    expect(await times("02:00:00", "02:59:59")).toEqual([]);
    expect(await times("03:00:00", "03:59:59")).toEqual(["03:00:00", "03:30:00"]);
    expect(await times("02:30:00", "03:10:00")).toEqual(["03:00:00"]);
    expect(await times("01:30:00", "02:30:00")).toEqual(["01:59:59"]);
    await setInstanceSettings(api.db, api.south.id, { timeZone: zone });
  });

  test("writers at once, while counts are folded: no event is lost or counted twice", async () => {
    const day = "2021-05-05";
    const writers = Array.from({ length: 8 }, async (_, writer) => {
      for (let batch = 0; batch < 10; batch++) {
        const hour = String((writer + batch) % 24).padStart(2, "0");
        await recordEvents(
          api.db,
          Array.from({ length: 50 }, (_, n) => event(`${day}T${hour}:${String(n).padStart(2, "0")}:00Z`)),
        );
      }
    });
    let writing = true;
    const all = Promise.all(writers).finally(() => {
      writing = false;
    });
    const period = { from: new Date(`${day}T00:00:00Z`), until: new Date("2021-05-06T00:00:00Z") };
    let seen = 0;
    while (writing) {
      await foldEventCounts(api.db);
      const [sent] = await countEvents(api.db, api.north.id, period);
      expect(sent?.count ?? 0).toBeGreaterThanOrEqual(seen);
      seen = sent?.count ?? 0;
    }
    await all;
    expect(await countEvents(api.db, api.north.id, period)).toEqual([{ kind: "sent", count: 4_000 }]);
  });
});

test("events of one moment are listed in the order in which they were stored, by whatever connections", async () => {
  const email = "moment@example.org";
  const { numid } = (await api.north.call("POST", "/v1/contacto", { email })).body.contacto;
  const kinds = ["sent", "viewed", "clicked", "soft-bounce", "hard-bounce", "invalidated"] as const;
  await prepareEventMonths(api.db, new Date("2024-07-01"));
  await api.db.transaction((one) =>
    api.db.transaction(async (other) => {
      for (const [index, kind] of kinds.entries()) {
        const stored = event("2024-07-01T00:00:00.000Z", kind, { contactId: numid });
        await recordEvents(index % 2 ? one : other, [stored]);
      }
    }),
  );
  const events = await listContactEvents(api.db, api.north.id, numid);
  expect(events.map(({ kind }) => kind)).toEqual(kinds);
});

describe("ver_eventos", () => {
  const at = (n: number) => new Date(Date.UTC(2020, 0, 1) + n * 977_000);

  beforeAll(async () => {
    const events = Array.from({ length: 2_500 }, (_, n) =>
      event(at(n), n % 3 ? "sent" : "viewed", {
        machine: n % 5 === 0,
        campaignNumid: n % 2 ? campaign.numid : undefined,
        eeid: n % 2 ? "6f9619ff-8b86-4d01-b42d-00c04fc964ff" : undefined,
      }),
    );
    await recordEvents(api.db, events.slice(0, 1_700));
    await foldEventCounts(api.db);
    await recordEvents(api.db, events.slice(1_700));
  });

  const whole = { fechahora_desde: "2020-01-01_00:00:00", fechahora_hasta: "2020-12-31_23:59:59" };

  test("a page has the fields of the table, oldest first", async () => {
    const { body } = await api.north.call("GET", "/v1/ver_eventos", { ...whole, pagina: 1, cantidad: 10 });
    expect(body).toMatchObject({ status: "ok", pagina: 1, cantidad: 10, total: 2_500 });
    expect(body.eventos.slice(0, 2)).toEqual([
      {
        evento: "vista",
        timestamp: "2020-01-01T00:00:00",
        email: "e@example.org",
        campania: "",
        campana_id: null,
        eeid: null,
        maquina: true,
      },
      {
        evento: "envio",
        timestamp: "2020-01-01T00:16:17",
        email: "e@example.org",
        campania: "Campaña",
        campana_id: campaign.numid,
        eeid: "6f9619ff-8b86-4d01-b42d-00c04fc964ff",
      },
    ]);
  });

  test.each([10, 37, 500, 1000])("pages of %i are the whole period, once each and in order", async (cantidad) => {
    const timestamps: string[] = [];
    for (let pagina = 1; ; pagina++) {
      const { body } = await api.north.call("GET", `/v1/ver_eventos?pagina=${pagina}&cantidad=${cantidad}`, whole);
      expect(body.total).toBe(2_500);
      timestamps.push(...body.eventos.map(({ timestamp }: { timestamp: string }) => timestamp));
      if (body.eventos.length < cantidad) break;
    }
    expect(timestamps).toEqual(Array.from({ length: 2_500 }, (_, n) => at(n).toISOString().slice(0, 19)));
  });

  test("digits in the query may begin with zeros, and stand in where the body has null", async () => {
    const { status, body } = await api.north.call("GET", "/v1/ver_eventos?pagina=02&cantidad=010", {
      ...whole,
      pagina: null,
    });
    expect([status, body.eventos.length]).toEqual([200, 10]);
    expect(body.eventos[0].timestamp).toBe(at(10).toISOString().slice(0, 19));
  });

  test("a period that begins and ends within a minute", async () => {
    const from = at(100).toISOString().slice(0, 19);
    const to = at(120).toISOString().slice(0, 19);
    const { body } = await api.north.call("GET", "/v1/ver_eventos", {
      fechahora_desde: from,
      fechahora_hasta: to,
      pagina: 2,
      cantidad: 20,
    });
    expect(body.total).toBe(21);
    expect(body.eventos).toMatchObject([{ timestamp: to }]);
  });

  test("behind the last page there is nothing", async () => {
    for (const pagina of [252, Number.MAX_SAFE_INTEGER]) {
      const { body } = await api.north.call("GET", "/v1/ver_eventos", { ...whole, pagina, cantidad: 10 });
      expect(body).toMatchObject({ total: 2_500, eventos: [] });
    }
    const other = await api.south.call("GET", "/v1/ver_eventos", { ...whole, pagina: 1, cantidad: 10 });
    expect(other.body).toEqual({ status: "ok", pagina: 1, cantidad: 10, total: 0, eventos: [] });
  });

  test.each([
    [{ cantidad: 10 }, "falta pagina"],
    [{ pagina: 1 }, "falta cantidad"],
    [{ pagina: "1", cantidad: 10 }, "pagina invalido"],
    [{ pagina: 0, cantidad: 10 }, "pagina invalido"],
    [{ pagina: 1.5, cantidad: 10 }, "pagina invalido"],
    [{ pagina: 1, cantidad: "10" }, "cantidad invalido"],
    [{ pagina: 1, cantidad: 9 }, "cantidad invalido"],
    [{ pagina: 1, cantidad: 1001 }, "cantidad invalido"],
  ])("%j is 400 %s", async (body, on) => {
    const answer = await api.north.call("GET", "/v1/ver_eventos", { ...whole, ...body });
    expect([answer.status, answer.body]).toEqual([400, { status: "err", on }]);
  });
});

describe("retention", () => {
  test("removes an instance's old events with their counts, and the months that hold nothing any more", async () => {
    const now = new Date("2025-02-15T12:00:00Z");
    await recordEvents(api.db, [
      event("2019-12-31T23:59:59Z", "sent", { instanceId: api.south.id }),
      event("2025-02-04T23:59:59Z"),
      event("2025-02-05T00:00:00Z"),
    ]);
    await setInstanceSettings(api.db, api.north.id, { eventRetentionDays: 10 });
    await applyRetention(api.db, now, eachThrown());
    const count = (from: string, until: string, instanceId = api.north.id) =>
      countEvents(api.db, instanceId, { from: new Date(from), until: new Date(until) });
    expect(await count("2019-01-01T00:00:00Z", "2025-02-05T00:00:00Z")).toEqual([]);
    expect(await count("2025-02-05T00:00:00Z", "2025-02-06T00:00:00Z")).toEqual([{ kind: "sent", count: 1 }]);
    expect(await count("2019-01-01T00:00:00Z", "2020-01-01T00:00:00Z", api.south.id)).toHaveLength(1);
    const months = (
      await api.db.raw("select inhrelid::regclass::text as name from pg_inherits where inhparent = 'events'::regclass")
    ).rows;
    const names = months.map(({ name }: { name: string }) => name);
    expect(names).toContain("events_2019_12");
    expect(names).not.toContain("events_2020_01");
    await recordEvents(api.db, [event("2020-01-05T00:00:00Z")]);
  });

  test("goes on to others after an instance for which it fails", async () => {
    await setInstanceSettings(api.db, api.south.id, { eventRetentionDays: 10 });
    await recordEvents(api.db, [
      event("2024-01-01T00:00:00Z"),
      event("2024-01-01T00:00:00Z", "sent", { instanceId: api.south.id }),
    ]);
    await changeTriggers(
      api.db,
      "create function keep_events() returns trigger language plpgsql as $$ begin raise 'kept'; end $$",
      `create trigger kept before delete on events for each row when (old.instance_id = ${api.north.id}) execute function keep_events()`,
    );
    const failed: number[] = [];
    await applyRetention(api.db, new Date("2025-02-15T12:00:00Z"), new EachByItself<number>((id) => failed.push(id)));
    expect(failed).toEqual([api.north.id]);
    expect(await api.db("events").where({ instance_id: api.south.id }).where("at", "<", "2025-01-01")).toEqual([]);
    await changeTriggers(api.db, "drop trigger kept on events");
    await api.db.raw("drop function keep_events()");
    await setInstanceSettings(api.db, api.south.id, { eventRetentionDays: null });
    await api.db("events").where("at", "<", "2025-01-01").delete();
  });

  test("the months ahead are made before they come", async () => {
    await prepareEventMonths(api.db, new Date("2031-12-31T23:00:00Z"));
    const { rows } = await api.db.raw("select to_regclass('events_2031_12') a, to_regclass('events_2032_02') b");
    expect(rows[0].a).not.toBeNull();
    expect(rows[0].b).not.toBeNull();
  });
});

describe("retention of messages", () => {
  const TABLES = ["messages", "message_attachments", "tracked_links", "partitions", "deliveries", "inbound_messages"];
  const RULE = { hardBouncesToInvalidate: 3 };

  beforeAll(() => setInstanceSettings(api.db, api.north.id, { eventRetentionDays: null, messageRetentionDays: 30 }));
  afterAll(() => setInstanceSettings(api.db, api.north.id, { messageRetentionDays: null }));

  const applyNow = () => applyRetention(api.db, new Date(), eachThrown());
  const isKept = async (eeid: string) => (await api.north.call("GET", `/v1/eeid_info/${eeid}`)).status === 200;

  async function send(emails: readonly string[], more: object = {}, from = api.north) {
    const { numid } = (
      await from.call("POST", "/v1/campania", { tipo: "normal", nombre: `Sent ${crypto.randomUUID()}` })
    ).body;
    const { status, body } = await from.call("POST", "/v1/envio/send_one_inline", {
      campana_id: numid,
      remitente: "news@example.org",
      asunto: "Hello",
      email: true,
      contacto: { email: emails[0] },
      copia: emails.slice(1).map((cc_email) => ({ cc_email })),
      html: "<p>Hello</p>",
      adjuntos: [{ filename: "a.txt", content: ["YQ=="] }],
      ...more,
    });
    expect([status, body]).toEqual([200, { status: "ok", sent: emails.length, eeid: expect.any(String) }]);
    return { eeid: body.eeid as string, numid: numid as number };
  }

  /** As it is once everything of it was delivered, some days ago. */
  async function deliver(eeid: string, daysAgo = 40): Promise<void> {
    const at = new Date(Date.now() - daysAgo * 86_400_000);
    await api.db.raw(
      `update deliveries set state = 'delivered', personal = null, finished_at = ?
       where partition_id in (select id from partitions where eeid = ?)`,
      [at, eeid],
    );
    await api.db("partitions").where({ eeid }).update({ state: "finished", modified_at: at });
    await api.db("messages").where({ eeid }).update({ created_at: at });
    await api.db("batches").where({ eeid }).update({ created_at: at, modified_at: at });
  }

  async function deliveriesOf(eeid: string): Promise<number[]> {
    return queuedDeliveries(api.db).where({ eeid }).orderBy("deliveries.id").pluck("deliveries.id");
  }

  const report = (deliveryId: number, state: string) => ({
    delivery_id: deliveryId,
    mail_from: "",
    octets: Buffer.from("it came back"),
    state,
  });

  async function countRows(): Promise<Record<string, number>> {
    const counts = TABLES.map(async (table) => [table, Number((await api.db(table).count())[0]!.count)] as const);
    return Object.fromEntries(await Promise.all(counts));
  }

  test("a batch goes with all that hangs on it, and its events stay", async () => {
    const before = await countRows();
    const { eeid, numid } = await send(["old@example.org", "copy@example.net", "other@example.org"]);
    const [deliveryId] = await deliveriesOf(eeid);
    const [message] = await api.db("messages").where({ eeid }).select("id", "instance_id");
    await api
      .db("tracked_links")
      .insert({ instance_id: message!.instance_id, message_id: message!.id, link: "l", target: "t" });
    await api.db("inbound_messages").insert([report(deliveryId!, "applied")]);
    await deliver(eeid);
    const selection = {
      instanceId: api.north.id,
      campaignNumid: numid,
      from: new Date(Date.now() - 3_600_000),
      until: new Date(Date.now() + 3_600_000),
    };
    const sent = async () => (await readSeries(api.db, selection, "day")).reduce((sum, point) => sum + point.sent, 0);
    expect(await sent()).toBe(3);
    expect(await isKept(eeid)).toBe(true);

    await applyNow();
    expect(await countRows()).toEqual(before);
    expect(await api.db("batches").where({ eeid })).toEqual([]);
    expect(await sent()).toBe(3);
    expect(await api.db("events").where({ eeid })).toHaveLength(3);
    const contact = (await api.north.call("GET", "/v1/contacto/old@example.org")).body;
    expect(contact).toMatchObject({ status: "ok" });
    const unknown = { status: 404, body: { status: "err", on: "no existe" } };
    expect(await api.north.call("GET", `/v1/eeid_info/${eeid}`)).toMatchObject(unknown);
    expect(await api.north.call("GET", `/v1/eeid_eml/${eeid}/old@example.org`)).toMatchObject(unknown);
    const joining = {
      campana_id: numid,
      remitente: "news@example.org",
      email: true,
      html: "x",
      reuse_eeid: true,
      eeid,
    };
    expect(
      await api.north.call("POST", "/v1/envio/send_one_inline", { ...joining, contacto: { email: "j@example.org" } }),
    ).toMatchObject(unknown);

    // What its recipients, and their servers, do now is about a delivery that nobody knows.
    const events = await api.db("events").count();
    await api.db.transaction(async (transaction) => {
      const at = new Date();
      const bounce = { instanceId: api.north.id, deliveryId: deliveryId!, hard: true, at, detail: {} };
      expect(await recordBounces(transaction, [bounce], RULE)).toEqual([]);
      expect(
        await recordComplaint(transaction, { instanceId: api.north.id, deliveryId: deliveryId!, at, detail: {} }),
      ).toBe(false);
      await storeTouches(
        transaction,
        [{ kind: "conversion", deliveryId: deliveryId!, atMs: at.getTime(), reference: "order" }],
        {
          machineSeconds: 0,
          allLinks: [{ atLeast: 3, withinSeconds: 10 }],
          recall: () => ({ device: "", deviceSubtypeId: null }),
        },
      );
    });
    expect(await findDelivery(api.db, deliveryId!)).toBeUndefined();
    expect(await api.db("events").count()).toEqual(events);
  });

  test("what is recent, unfinished, gathered for, paused, archived or another's stays", async () => {
    const { eeid: south } = await send(["s@example.org"], {}, api.south);
    await deliver(south);
    const kept = new Map<string, string>();
    const keep = async (why: string, change: (eeid: string, numid: number) => PromiseLike<unknown>) => {
      const { eeid, numid } = await send([`${why}@example.org`]);
      await deliver(eeid);
      await change(eeid, numid);
      kept.set(eeid, why);
    };
    await keep("recent", (eeid) => deliver(eeid, 29));
    await keep("retried", (eeid) => api.db("partitions").where({ eeid }).update({ modified_at: new Date() }));
    await keep("unfinished", (eeid) => api.db("partitions").where({ eeid }).update({ state: "deferred" }));
    await keep("gathering", (eeid) => api.db("batches").where({ eeid }).update({ gathering: true }));
    await keep("paused", (eeid) => api.db("batches").where({ eeid }).update({ held_at: new Date() }));
    await keep("archived", async (eeid) => {
      const [deliveryId] = await deliveriesOf(eeid);
      const row = { delivery_id: deliveryId, instance_id: api.north.id, eeid, recipient_key: "archived@example.org" };
      await api.db("archived_messages").insert({ ...row, octets: Buffer.from("x"), sent_at: new Date() });
    });
    await keep("joined", async (eeid) => {
      await send(["joining@example.org"], { reuse_eeid: true, eeid });
      await api
        .db("partitions")
        .where({ eeid })
        .update({ state: "finished", modified_at: new Date(0) });
    });
    await keep("sending", (eeid, numid) =>
      api.db("campaign_sends").insert({
        ...{ campaign_numid: numid, instance_id: api.north.id, sender: "news@example.org", sender_name: "" },
        ...{ subject: "s", html: "h", groups: [], filters: [], creator: "ana", state: "sending", eeid },
      }),
    );
    await applyNow();
    const left = await Promise.all([...kept].map(async ([eeid, why]) => [why, await isKept(eeid)]));
    expect(left).toEqual([...kept.values()].map((why) => [why, true]));
    expect((await api.south.call("GET", `/v1/eeid_info/${south}`)).status).toBe(200);

    // The archive's time ends, the campaign has been sent.
    await api.db("archived_messages").update({ sent_at: new Date(0) });
    await api.db("campaign_sends").update({ state: "sent" });
    await setInstanceSettings(api.db, api.north.id, { archiveRetentionDays: 40 });
    await applyNow();
    await setInstanceSettings(api.db, api.north.id, { archiveRetentionDays: null });
    const gone = new Set(["archived", "sending"]);
    for (const [eeid, why] of kept) expect([why, await isKept(eeid)]).toEqual([why, !gone.has(why)]);
  });

  test("many recipients go in portions, by several processes at once", async () => {
    const many = await Promise.all(Array.from({ length: 4 }, (_, i) => send([`m${i}@example.org`])));
    for (const { eeid } of many) {
      await api.db.raw(
        `insert into deliveries (instance_id, partition_id, role, recipient)
         select instance_id, id, 'bcc', 'r' || n || '@example.org' from partitions, generate_series(1, 2000) as n
         where eeid = ?`,
        [eeid],
      );
      await deliver(eeid);
    }
    const old = { instanceId: api.north.id, before: new Date(Date.now() - 30 * 86_400_000) };
    await Promise.all([removeMessages(api.db, old), removeMessages(api.db, old), removeMessages(api.db, old)]);
    await applyNow(); // what one of them passed over because another held it
    const eeids = many.map(({ eeid }) => eeid);
    expect(await api.db("batches").whereIn("eeid", eeids)).toEqual([]);
    expect(await api.db("partitions").whereIn("eeid", eeids)).toEqual([]);
  });

  test("what somebody holds, or a report is being read of, goes the next time", async () => {
    const { eeid } = await send(["held@example.org", "reported@example.net", "free@example.com"]);
    const [held, reported] = (await deliveriesOf(eeid)) as [number, number];
    await deliver(eeid);
    await api.db("inbound_messages").insert(report(reported, "waiting"));
    const holder = await api.db.transaction();
    try {
      await holder("deliveries").where({ instance_id: api.north.id, id: held }).forUpdate();
      await applyNow();
    } finally {
      await holder.rollback();
    }
    // For whoever asks it is gone at once.
    expect(await isKept(eeid)).toBe(false);
    expect(await deliveriesOf(eeid)).toEqual([held, reported]);
    await applyNow();
    expect(await deliveriesOf(eeid)).toEqual([reported]);
    await api.db("inbound_messages").where({ delivery_id: reported }).update({ state: "applied" });
    await applyNow();
    expect(await api.db("batches").where({ eeid })).toEqual([]);
    expect(await api.db("inbound_messages").where({ delivery_id: reported })).toEqual([]);
  });

  test.each([
    { how: "whose time ends", column: "expired_at", status: 404, on: "no existe" },
    { how: "that is cancelled", column: "cancelled_at", status: 400, on: "envio cancelado" },
  ])("who joins a batch $how meanwhile is told so", async ({ column, status, on }) => {
    const { eeid, numid } = await send(["meanwhile@example.org"]);
    // Locked, as it is while it ends: the call has found it, and waits to join it.
    const ending = await api.db.transaction();
    await ending("batches")
      .where({ eeid })
      .update({ [column]: new Date() });
    const joining = api.north.call("POST", "/v1/envio/send_one_inline", {
      ...{ campana_id: numid, remitente: "news@example.org", asunto: "x", email: true, html: "x" },
      ...{ contacto: { email: "late@example.org" }, reuse_eeid: true, eeid },
    });
    await waitForLock();
    await ending.commit();
    expect(await joining).toMatchObject({ status, body: { on } });
  });

  const waitForLock = () =>
    eventually(
      () => listWaiting(api.db),
      (waiting) => waiting.length > 0,
    );
});
