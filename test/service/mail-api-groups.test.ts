import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { FilterCondition } from "../../services/core/mail/filter-condition.ts";
import { searchContacts } from "../../services/store/mail/contacts/contact-search.ts";
import {
  addFilter,
  changeFilter,
  countMatches,
  findFilter,
  removeFilter,
} from "../../services/store/mail/contacts/filters.ts";
import { recordEvents } from "../../services/store/mail/events/events.ts";
import { globalValues } from "../../services/store/mail/instances/globals.ts";
import { startMailApi, type TestMailApi } from "../support/mail-api.ts";

let api: TestMailApi;
beforeAll(async () => {
  api = await startMailApi();
});
afterAll(async () => {
  await api.stop();
  expect(api.failures).toEqual([]);
});

describe("grupo, base", () => {
  test.each(["grupo", "base"])("POST %s makes a group; repeating it is no error", async (path) => {
    for (let time = 0; time < 2; time++) {
      const answer = await api.north.call("POST", `/v1/${path}/`, { nombre: "Boletín" });
      expect([answer.status, answer.body]).toEqual([200, { status: "ok", nombre: "Boletín" }]);
    }
    expect(await api.db("groups").where({ instance_id: api.north.id, name: "Boletín" })).toHaveLength(1);
  });

  test.each([
    [{}, "falta nombre"],
    [{ nombre: "" }, "nombre invalido"],
    [{ nombre: "  " }, "nombre invalido"],
    [{ nombre: [] }, "nombre invalido"],
  ])("%j is 400 %s", async (body, on) => {
    for (const path of ["grupo", "base"]) {
      const answer = await api.north.call("POST", `/v1/${path}`, body);
      expect([answer.status, answer.body]).toEqual([400, { status: "err", on }]);
    }
  });
});

describe("groups of an instance", () => {
  test("are 50,000 at most, however many come at once; what is there stays", async () => {
    const { id: instanceId } = api.south;
    const full = { status: "err", on: "grupos: mas de 50000 en total" };
    await api.db.raw("insert into groups (instance_id, name) select ?, 'G' || n from generate_series(1, 49998) as n", [
      instanceId,
    ]);
    const add = async (nombre: string) => (await api.south.call("POST", "/v1/grupo", { nombre })).status;
    const save = (email: string, ...grupos: string[]) => api.south.call("POST", "/v1/contacto", { email, grupos });
    expect((await save("a@example.org", "N1", "N2", "N3")).body).toEqual(full);
    expect((await api.south.call("GET", "/v1/contacto/a@example.org")).status).toBe(404);
    const statuses = await Promise.all(["N1", "N2", "N3", "N4"].map(add));
    expect(statuses.sort()).toEqual([200, 200, 400, 400]);
    expect((await save("a@example.org", "N5")).body).toEqual(full);
    expect((await save("a@example.org", "G1", "G2")).body.contacto.grupos).toEqual(["G1", "G2"]);
    expect(await add("G7")).toBe(200);
    await api.db("groups").where({ instance_id: instanceId }).delete();
  });
});

describe("global", () => {
  test("is set, replaced, listed, removed; wrapped and bare names are one; each instance has its own", async () => {
    const set = await api.north.call("POST", "/v1/global/", { nombre: "XYZMARCAXYZ", valor: "Uno" });
    expect([set.status, set.body]).toEqual([200, { status: "ok", nombre: "XYZMARCAXYZ", valor: "Uno" }]);
    expect((await api.north.call("GET", "/v1/global")).body).toEqual({
      status: "ok",
      globales: [{ nombre: "XYZMARCAXYZ", valor: "Uno" }],
    });
    await api.north.call("POST", "/v1/global", { nombre: "MARCA", valor: "" });
    expect((await api.north.call("GET", "/v1/global/")).body.globales).toEqual([{ nombre: "MARCA", valor: "" }]);
    expect(await globalValues(api.db, api.north.id, ["MARCA", "NADA"])).toEqual(new Map([["MARCA", ""]]));
    expect((await api.south.call("GET", "/v1/global")).body.globales).toEqual([]);
    await api.south.call("DELETE", "/v1/global", { nombre: "MARCA", valor: "" });
    expect((await api.north.call("GET", "/v1/global")).body.globales).toHaveLength(1);
    const removed = await api.north.call("DELETE", "/v1/global/", { nombre: "XYZMARCAXYZ", valor: 7 });
    expect([removed.status, removed.body]).toEqual([200, { status: "ok", nombre: "XYZMARCAXYZ" }]);
    expect((await api.north.call("GET", "/v1/global")).body.globales).toEqual([]);
    expect((await api.north.call("DELETE", "/v1/global?nombre=MARCA")).status).toBe(200);
  });

  test("are a thousand at most, and 4 MiB; what is there stays, and may become less", async () => {
    const oversized = { status: "err", on: "global: mas de 1000 variables, o de 4 MiB en total" };
    const set = async (nombre: string, valor: string) => {
      const { status, body } = await api.south.call("POST", "/v1/global", { nombre, valor });
      return status === 200 ? 200 : [status, body];
    };
    const fill = (count: number, octets: number) =>
      api.db.raw(
        "insert into globals select ?, 'V' || n, 'V' || n, repeat('x', ?) from generate_series(1, ?::int) as n",
        [api.south.id, octets, count],
      );
    await fill(999, 10);
    expect(await set("W", "1")).toBe(200);
    expect(await set("X", "1")).toEqual([400, oversized]);
    expect(await set("XYZWXYZ", "2")).toBe(200);
    const { body } = await api.south.call("GET", "/v1/global");
    const names = await api.db("globals").where({ instance_id: api.south.id }).orderBy("key").pluck("name");
    expect(body.globales.map(({ nombre }: { nombre: string }) => nombre)).toEqual(names);
    await api.db("globals").where({ instance_id: api.south.id }).delete();

    await fill(63, 65_536);
    expect(await set("W", "x".repeat(65_000))).toBe(200);
    expect(await set("X", "x".repeat(1_000))).toEqual([400, oversized]);
    await api.db("globals").insert({ instance_id: api.south.id, key: "Y", name: "Y", value: "y".repeat(65_536) });
    expect(await set("Y", "y".repeat(65_535))).toBe(200);
    expect(await set("Y", "y".repeat(65_536))).toEqual([400, oversized]);
    const all = await Promise.all(Array.from({ length: 8 }, (_, n) => set(`Z${n}`, "z")));
    expect(all).toEqual(Array(8).fill([400, oversized]));
    await api.db("globals").where({ instance_id: api.south.id }).delete();
  });

  test.each([
    ["POST", {}, "falta nombre"],
    ["POST", { nombre: "X" }, "falta valor"],
    ["POST", { nombre: "X", valor: null }, "falta valor"],
    ["POST", { nombre: "X", valor: 1 }, "valor invalido"],
    ["POST", { nombre: "", valor: "1" }, "nombre invalido"],
    ["DELETE", {}, "falta nombre"],
    ["DELETE", { nombre: 5 }, "nombre invalido"],
  ])("%s %j is 400 %s", async (method, body, on) => {
    const answer = await api.north.call(method, "/v1/global", body);
    expect([answer.status, answer.body]).toEqual([400, { status: "err", on }]);
  });
});

describe("filtros", () => {
  const now = new Date("2026-06-15T12:00:00Z");

  beforeAll(async () => {
    for (const instance of [api.north, api.south]) {
      const people = [
        {
          email: "ana@gmail.com",
          nombre: "Ana",
          edad: 30,
          grupos: ["clientes"],
          campos: [{ nombre: "PUNTOS", valor: "120" }],
        },
        { email: "beto@example.org", nombre: "Beto", edad: 50, campos: [{ nombre: "PUNTOS", valor: "pocos" }] },
        { email: "caro@example.org", nombre: "Caro%_", invalido: true },
      ];
      for (const person of people) await instance.call("POST", "/v1/contacto", person);
    }
    const ids = new Map(
      (await api.db("contacts").where({ instance_id: api.north.id })).map((row) => [
        row.email as string,
        row.id as number,
      ]),
    );
    const event = (
      kind: "viewed" | "clicked",
      email: string,
      daysAgo: number,
      campaignNumid: number,
      machine = false,
    ) => ({
      kind,
      machine,
      campaignNumid,
      instanceId: api.north.id,
      contactId: ids.get(email)!,
      at: new Date(now.getTime() - daysAgo * 86_400_000),
    });
    await recordEvents(api.db, [
      event("viewed", "ana@gmail.com", 10, 12),
      event("viewed", "beto@example.org", 40, 12),
      event("clicked", "caro@example.org", 1, 13, true),
    ]);
  });

  test.each<[FilterCondition, string[]]>([
    [{ all: [] }, ["ana", "beto", "caro"]],
    [{ any: [] }, []],
    [{ field: "firstName", is: "=", value: "Ana" }, ["ana"]],
    [{ field: "firstName", is: "!=", value: "Ana" }, ["beto", "caro"]],
    [{ field: "firstName", is: "contains", value: "%_" }, ["caro"]],
    [{ field: "email", is: "starts-with", value: "BET" }, ["beto"]],
    [{ field: "age", is: ">", value: 30 }, ["beto"]],
    [{ not: { field: "age", is: ">", value: 30 } }, ["ana", "caro"]],
    [{ field: "age", is: "!=", value: 30 }, ["beto", "caro"]],
    [{ field: "domainGroupId", is: "=", value: 1 }, ["ana"]],
    [{ customField: "PUNTOS", is: ">=", value: 100.5 }, ["ana"]],
    [{ customField: "PUNTOS", is: "=", value: "pocos" }, ["beto"]],
    [{ customField: "PUNTOS", is: "=", value: "" }, ["caro"]],
    [{ group: "clientes" }, ["ana"]],
    [{ not: { group: "clientes" } }, ["beto", "caro"]],
    [{ invalid: true }, ["caro"]],
    [{ not: { event: "viewed", campaignNumid: 12, withinDays: 30 } }, ["beto", "caro"]],
    [{ event: "viewed" }, ["ana", "beto"]],
    [{ event: "clicked" }, []],
    [
      { any: [{ group: "clientes" }, { all: [{ invalid: true }, { field: "email", is: "contains", value: "@" }] }] },
      ["ana", "caro"],
    ],
  ])("%j selects %j", async (condition, names) => {
    expect(await countMatches(api.db, api.north.id, condition, now)).toBe(names.length);
    const { contacts } = await searchContacts(api.db, api.north.id, { condition }, { skip: 0, take: 10, now });
    expect(contacts.map(({ email }) => email.split("@")[0]).sort()).toEqual(names);
  });

  test.each<FilterCondition>([
    { not: { group: "removed" } },
    { any: [{ field: "firstName", is: "=", value: "Ana" }, { group: "removed" }] },
    { all: [{ not: { group: "clientes" } }, { not: { all: [{ group: "removed" }] } }] },
  ])("%j selects nobody, as there is no such group", async (condition) => {
    expect(await countMatches(api.db, api.north.id, condition, now)).toBe(0);
    const id = Number(await addFilter(api.db, api.north.id, { name: "but", condition }));
    expect((await api.north.call("GET", "/v1/filtros")).body.filtros).toMatchObject([{ id, contactos: 0 }]);
    await removeFilter(api.db, api.north.id, id);
  });

  test("are a thousand at most, and 4 MiB of conditions, however many are saved at once; what is there stays", async () => {
    const { id: instanceId } = api.south;
    const has = (octets: number): FilterCondition => ({ field: "firstName", is: "=", value: "x".repeat(octets) });
    const fill = (count: number, octets: number) =>
      api.db.raw(
        `insert into filters (instance_id, name, conditions)
         select ?, 'F' || lpad(n::text, 4, '0'), ?::jsonb from generate_series(1, ?::int) as n`,
        [instanceId, JSON.stringify(has(octets)), count],
      );
    await fill(998, 10);
    const names = ["A", "B", "C", "D"];
    const saved = await Promise.all(names.map((name) => addFilter(api.db, instanceId, { name, condition: has(1) })));
    expect(saved.filter((outcome) => outcome === "oversized")).toHaveLength(2);
    const { body } = await api.south.call("GET", "/v1/filtros/");
    const listed = await api.db("filters").where({ instance_id: instanceId }).orderBy("name").pluck("name");
    expect(body.filtros.map(({ nombre }: { nombre: string }) => nombre)).toEqual(listed);
    await api.db("filters").where({ instance_id: instanceId }).delete();

    await fill(13, 330_000);
    const [{ id }] = await api.db("filters").where({ instance_id: instanceId, name: "F0001" }).select("id");
    expect(await addFilter(api.db, instanceId, { name: "A", condition: has(1) })).toBe("oversized");
    expect(await changeFilter(api.db, instanceId, id, { condition: has(330_001) })).toBe("oversized");
    expect(await changeFilter(api.db, instanceId, id, { name: "F", condition: has(329_999) })).toBe("done");
    expect(await changeFilter(api.db, instanceId, id, { condition: has(10) })).toBe("done");
    expect(await addFilter(api.db, instanceId, { name: "A", condition: has(1) })).toEqual(expect.any(Number));
    await api.db("filters").where({ instance_id: instanceId }).delete();
  });

  test("GET filtros is made as it is read", async () => {
    const { id: instanceId, key, host } = api.south;
    const condition: FilterCondition = { field: "firstName", is: "=", value: "x".repeat(100_000) };
    for (let n = 0; n < 9; n += 1) await addFilter(api.db, instanceId, { name: `F${n}`, condition });
    const headers = { Authorization: key, Host: host };
    const length = await new Promise((resolve, reject) => {
      const asked = request(`${api.url}/v1/filtros`, { headers }, (response) => {
        resolve(response.headers["content-length"]);
        response.destroy();
      });
      asked.on("error", reject).end();
    });
    expect(length).toBeUndefined();
    await api.db("filters").where({ instance_id: instanceId }).delete();
  });

  test("GET filtros lists the caller's in the API's words, with their counts", async () => {
    expect((await api.north.call("GET", "/v1/filtros/")).body).toEqual({ status: "ok", filtros: [] });
    const condition: FilterCondition = {
      any: [
        {
          all: [
            { field: "age", is: ">=", value: 30 },
            { customField: "PUNTOS", is: "contains", value: "1" },
          ],
        },
        { not: { event: "sent", campaignNumid: 12, withinDays: 30 } },
        { group: "clientes" },
        { invalid: false },
      ],
    };
    const id = Number(await addFilter(api.db, api.north.id, { name: "Mayores", condition: { all: [] } }));
    expect(await addFilter(api.db, api.north.id, { name: "Mayores", condition })).toBe("name-taken");
    expect(await changeFilter(api.db, api.south.id, id, { condition })).toBe("unknown");
    expect(await changeFilter(api.db, api.north.id, id, { condition })).toBe("done");
    expect((await api.north.call("GET", "/v1/filtros")).body).toEqual({
      status: "ok",
      filtros: [
        {
          id,
          nombre: "Mayores",
          condiciones: {
            alguna: [
              {
                todas: [
                  { campo: "edad", es: ">=", valor: 30 },
                  { campo: "XYZPUNTOSXYZ", es: "contiene", valor: "1" },
                ],
              },
              { no: { evento: "envio", campana_id: 12, dias: 30 } },
              { grupo: "clientes" },
              { invalido: false },
            ],
          },
          contactos: 3,
        },
      ],
    });
    expect((await api.south.call("GET", "/v1/filtros")).body.filtros).toEqual([]);
    expect(await findFilter(api.db, api.south.id, id)).toBeUndefined();
    expect(await removeFilter(api.db, api.south.id, id)).toBe(false);
    expect(await findFilter(api.db, api.north.id, id)).toEqual({ id, name: "Mayores", condition });
    expect(await removeFilter(api.db, api.north.id, id)).toBe(true);
  });
});
