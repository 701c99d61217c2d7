import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { EventKind } from "../../services/core/mail/event-kind.ts";
import { countEvents, foldEventCounts } from "../../services/store/event-counts.ts";
import { prepareEventMonths } from "../../services/store/event-partitions.ts";
import { applyRetention } from "../../services/store/event-retention.ts";
import { type NewEvent, recordEvents } from "../../services/store/events.ts";
import { setInstanceSettings } from "../../services/store/instances.ts";
import { startMailApi, type TestMailApi } from "../support/mail-api.ts";

let api: TestMailApi;
let contactId: number;
let campaign: { numid: number };
beforeAll(async () => {
  api = await startMailApi();
  contactId = (await api.north.call("POST", "/v1/contacto", { email: "e@example.org" })).body.contacto.numid;
  campaign = (await api.north.call("POST", "/v1/campania", { tipo: "normal", nombre: "Campaña" })).body;
});
afterAll(async () => {
  expect(api.failures).toEqual([]);
  await api.stop();
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
    await applyRetention(api.db, now);
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

  test("the months ahead are made before they come", async () => {
    await prepareEventMonths(api.db, new Date("2031-12-31T23:00:00Z"));
    const { rows } = await api.db.raw("select to_regclass('events_2031_12') a, to_regclass('events_2032_02') b");
    expect(rows[0].a).not.toBeNull();
    expect(rows[0].b).not.toBeNull();
  });
});
