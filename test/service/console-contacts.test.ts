import { once } from "node:events";
import { lstatSync, readdirSync, readlinkSync } from "node:fs";
import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { validateAddress } from "../../services/core/mail/address.ts";
import { saveContacts } from "../../services/store/mail/contacts/contact-profiles.ts";
import { findInstanceByName } from "../../services/store/mail/instances/instances.ts";
import { startConsole, type TestConsole } from "../support/console.ts";
import { eventually } from "../support/stack.ts";

let palomar: TestConsole;
let at: string;

beforeAll(async () => {
  palomar = await startConsole();
  const people = [
    { email: "ana@example.org", firstName: "Ana", lastName: "García", groups: ["clientes", "boletín"], age: 30 },
    { email: "beto@example.org", firstName: "Beto", groups: ["clientes"], age: 50 },
    { email: "ñandú@example.net", fields: { COLOR: "rojo" } },
  ];
  for (const name of ["north", "south"]) {
    const { id } = (await findInstanceByName(palomar.context.db, name))!;
    const mine = name === "north" ? people : people.slice(0, 1);
    const changes = mine.map(({ email, ...change }) => ({ address: address(email), ...change }));
    await saveContacts(palomar.context.db, id, changes, "modified");
  }
  at = "/instances/north";
});
afterAll(async () => {
  await palomar.stop();
  expect(palomar.failures).toEqual([]);
});

const north: TestConsole["users"]["north"]["call"] = (...args) => palomar.users.north.call(...args);

/** What is said to PostgreSQL while something is asked for. */
async function statementsOf(ask: () => ReturnType<typeof north>) {
  const queries = vi.spyOn(pg.Client.prototype, "query");
  const answer = await ask();
  const statements = queries.mock.calls.map(([given]) => {
    const statement: unknown = given;
    return typeof statement === "string" ? statement : String((statement as { text?: string }).text);
  });
  queries.mockRestore();
  return { answer, statements };
}

describe("who may", () => {
  const paths = [
    ["GET", "/contacts"],
    ["GET", "/contacts/export"],
    ["GET", "/contacts/ana@example.org"],
    ["DELETE", "/contacts/ana@example.org"],
    ["GET", "/filters"],
    ["POST", "/filters", { nombre: "x", condiciones: { todas: [] } }],
    ["POST", "/filters/count", { condiciones: { todas: [] } }],
    ["PUT", "/filters/1", {}],
    ["DELETE", "/filters/1"],
    ["GET", "/groups"],
    ["POST", "/groups", { nombre: "x" }],
    ["DELETE", "/groups/clientes"],
    ["GET", "/webhooks"],
    ["POST", "/webhooks", { url: "https://hook.example.net/" }],
    ["DELETE", "/webhooks/events"],
    ["GET", "/webhooks/events/deliveries"],
    ["POST", "/webhooks/events/replay", { delivery: 1 }],
  ] as const;

  test.each(paths)(
    "%s %s of another instance is 404, of the whole area for a reseller 403",
    async (method, path, body?: object) => {
      const foreign = await palomar.users.south.call(method, at + path, body);
      expect(foreign).toMatchObject({ status: 404, body: { msg: "no such instance", code: "no-such-instance" } });
      expect((await palomar.users.one.call(method, at + path, body)).status).toBe(403);
      expect((await palomar.call(method, at + path, body)).status).toBe(401);
    },
  );

  test("the operator may, and nothing of the above was done", async () => {
    const answer = await palomar.users.operator.call("GET", `${at}/contacts?limit=1`);
    expect([answer.status, answer.body.total]).toEqual([200, 3]);
  });
});

/** Files of uploads that this process has open. */
const openUploads = () =>
  readdirSync("/proc/self/fd")
    .map((name) => `/proc/self/fd/${name}`)
    // The descriptor that read the folder is there no more.
    .filter((path) => lstatSync(path, { throwIfNoEntry: false }) && readlinkSync(path).includes(".upload"));

describe("contacts", () => {
  const found = async (query: string) =>
    (await north("GET", `${at}/contacts?${query}`)).body.contactos.map(({ email }: { email: string }) => email);

  test.each([
    ["", ["ana@example.org", "beto@example.org", "ñandú@example.net"]],
    ["search=EXAMPLE.org", ["ana@example.org", "beto@example.org"]],
    ["search=garc%C3%ADa", ["ana@example.org"]],
    ["search=%25", []],
    ["group=clientes", ["ana@example.org", "beto@example.org"]],
    ["group=clientes&search=be", ["beto@example.org"]],
    ["group=nobody", []],
    ["limit=2&page=2", ["ñandú@example.net"]],
  ])("?%s finds %j", async (query, emails) => {
    expect(await found(query)).toEqual(emails);
  });

  test("a filter restricts the search; one of another instance does not exist", async () => {
    const condiciones = { campo: "edad", es: ">", valor: 40 };
    const mine = (await north("POST", `${at}/filters`, { nombre: "Mayores de 40", condiciones })).body.id;
    const theirs = (
      await palomar.users.south.call("POST", "/instances/south/filters", { nombre: "Mayores de 40", condiciones })
    ).body.id;
    expect(await found(`filter=${mine}`)).toEqual(["beto@example.org"]);
    expect((await north("GET", `${at}/contacts?filter=${theirs}`)).status).toBe(404);
  });

  test("a profile has fields, history and the whitelist; addresses beyond ASCII too", async () => {
    const { body } = await north("GET", `${at}/contacts/${encodeURIComponent("ñandú@EXAMPLE.net")}`);
    expect(body).toMatchObject({
      whitelist: false,
      contacto: { email: "ñandú@example.net", campos: [{ nombre: "XYZCOLORXYZ", valor: "rojo" }], eventos: [] },
    });
    expect((await north("GET", `${at}/contacts/nobody@example.org`)).status).toBe(404);
    expect((await north("GET", `${at}/contacts/nobody`)).status).toBe(400);
  });

  test("an import runs as a job and tells of the lines that it left out; a dry run changes nothing", async () => {
    const csv = "email,nombre,grupos\r\ncaro@example.org,Caro,clientes\r\nnobody,x,\r\nana@example.org,,\r\n";
    for (const [dryRun, total] of [
      [true, 3],
      [false, 4],
    ] as const) {
      const started = await north("POST", `${at}/contacts/import?dry_run=${dryRun}`, csv, {
        "Content-Type": "text/csv",
      });
      expect(started.status).toBe(200);
      expect(await settled(started.body.job)).toMatchObject({
        kind: "contact-import",
        state: "done",
        result: { created: 1, updated: 1, rejected: 1, dry_run: dryRun },
        errors: [{ line: 3, msg: "invalid email The email address is not valid. It must have exactly one @-sign." }],
      });
      expect((await north("GET", `${at}/contacts`)).body.total).toBe(total);
    }
    expect((await north("POST", `${at}/contacts/import?dry_run=perhaps`, csv)).status).toBe(400);
  });

  test.each([
    ["contacts", "nombre,grupos\nCaro,clientes\n", "column-missing", "email"],
    ["suppressions", "kind,note\nby-hand,x\n", "suppression-column-missing", "address"],
    ["suppressions", "", "suppression-column-missing", "address"],
  ])("an import of %s that is refused as a whole has failed, with its reason", async (list, csv, code, column) => {
    const started = await north("POST", `${at}/${list}/import`, csv, { "Content-Type": "text/csv" });
    expect(await settled(started.body.job)).toMatchObject({
      state: "failed",
      result: null,
      errors: [{ code, values: { column } }],
    });
  });

  test("an import that cannot become a job leaves no file open", async () => {
    const { db } = palomar.context;
    await db.raw("alter table console_jobs rename to console_jobs_away");
    const failed = await north("POST", `${at}/contacts/import`, "email\r\n", { "Content-Type": "text/csv" });
    await db.raw("alter table console_jobs_away rename to console_jobs");
    expect(failed.status).toBe(500);
    // It is no failure of the tests that follow.
    expect((palomar.failures as unknown[]).splice(0)).toHaveLength(1);
    await expect.poll(openUploads).toEqual([]);
  });

  test("of a file that is wrong line by line the first lines are told, all are counted, and nobody waits for it", async () => {
    const csv = `email\n${"x\n".repeat(200_000)}`;
    const started = await north("POST", `${at}/contacts/import`, csv, { "Content-Type": "text/csv" });
    let turns = 0;
    const counting = setInterval(() => {
      turns += 1;
    });
    const { result, errors } = await settled(started.body.job);
    clearInterval(counting);
    expect(result).toEqual({ created: 0, updated: 0, rejected: 200_000, dry_run: false });
    expect(errors.map(({ line }: { line: number }) => line)).toEqual(Array.from({ length: 1_000 }, (_, i) => i + 2));
    expect(turns).toBeGreaterThan(20);
  });

  test("whose jobs are unfinished begins no more than four, and holds nobody else up", async () => {
    const { cookie, csrf } = palomar.users.north;
    const headers = { Cookie: cookie, "X-CSRF-Token": csrf, "Content-Type": "text/csv", "Content-Length": 6 };
    const coming = Array.from({ length: 4 }, () => {
      const upload = request(`${palomar.url}/admin/v1${at}/contacts/import`, { method: "POST", headers });
      upload.write("ema");
      return { upload, answer: once(upload, "response") };
    });
    const begin = (who: TestConsole["users"]["north"], name: string) =>
      who.call("POST", `/instances/${name}/contacts/import`, "email\n", { "Content-Type": "text/csv" });
    await eventually(
      async () => openUploads().length,
      (count) => count === coming.length,
    );
    const refused = await begin(palomar.users.north, "north");
    expect(refused).toMatchObject({ status: 429, body: { code: "jobs-unfinished" } });
    expect(refused.headers["retry-after"]).toBe("10");
    expect((await begin(palomar.users.south, "south")).status).toBe(200);
    for (const { upload, answer } of coming) {
      upload.end("il\n");
      expect((await answer)[0].resume().statusCode).toBe(200);
    }
    await eventually(
      () => begin(palomar.users.north, "north"),
      ({ status }) => status === 200,
    );
  });

  test("the export is what an import takes", async () => {
    const exported = await north("GET", `${at}/contacts/export`);
    expect(exported.headers["content-type"]).toBe("text/csv; charset=utf-8");
    expect(exported.headers["content-disposition"]).toBe('attachment; filename="contacts-north.csv"');
    expect(exported.body.split("\r\n")[0]).toBe("email,nombre,apellido,edad,sexo,profesion,localidad,grupos,COLOR");
    expect(exported.body).toContain("ana@example.org,Ana,García,30,,,,boletín|clientes,");
  });

  test("an erased contact is gone, and its address is in no log", async () => {
    const erased = await north("DELETE", `${at}/contacts/caro@example.org`);
    expect([erased.status, erased.body]).toEqual([200, { contactos: 1, eventos: 0, mensajes: 0 }]);
    expect((await north("DELETE", `${at}/contacts/caro@example.org`)).status).toBe(404);
    const { audit } = (await north("GET", "/audit")).body;
    expect(JSON.stringify(audit)).not.toContain("caro@");
    expect(audit[0]).toMatchObject({ action: "contact.erase", actor: "north" });
  });
});

describe("groups", () => {
  test("are counted, made, left and removed", async () => {
    const sizes = async () => (await north("GET", `${at}/groups`)).body.grupos;
    expect((await north("POST", `${at}/groups`, { nombre: "Nuevos" })).body).toEqual({ nombre: "Nuevos" });
    expect(await sizes()).toEqual([
      { nombre: "boletín", contactos: 1 },
      { nombre: "clientes", contactos: 2 },
      { nombre: "Nuevos", contactos: 0 },
    ]);
    const membership = `${at}/groups/clientes/contacts/ana@example.org`;
    expect((await north("DELETE", membership)).status).toBe(200);
    expect((await north("DELETE", membership)).status).toBe(404);
    expect((await north("DELETE", `${at}/groups/Nuevos`)).status).toBe(200);
    expect((await north("DELETE", `${at}/groups/Nuevos`)).status).toBe(404);
    expect(await sizes()).toEqual([
      { nombre: "boletín", contactos: 1 },
      { nombre: "clientes", contactos: 1 },
    ]);
  });

  test("are read page by page, sent as they are read, and 50,000 at most", async () => {
    const { db } = palomar.context;
    const { id } = (await findInstanceByName(db, "south"))!;
    const names =
      "select ?, case when n % 2 = 0 then 'g' else 'G' end || n || repeat('x', 20) from generate_series(1, 50000) as n";
    await db.raw(`insert into groups (instance_id, name) ${names}`, [id]);
    const { body, headers } = await palomar.users.south.call("GET", "/instances/south/groups");
    const known = await db("groups").where({ instance_id: id }).orderByRaw("lower(name), id").pluck("name");
    expect(body.grupos.map(({ nombre }: { nombre: string }) => nombre)).toEqual(known);
    expect(headers["content-length"]).toBeUndefined();
    const more = await palomar.users.south.call("POST", "/instances/south/groups", { nombre: "one more" });
    expect(more).toMatchObject({ status: 400, body: { code: "groups-full", values: { most: "50000" } } });
    await db("groups").where({ instance_id: id }).whereRaw("lower(name) like 'g%x'").delete();
  });
});

describe("filters", () => {
  test("are counted without being saved, saved, listed as the mail API does, changed and removed", async () => {
    const condiciones = { alguna: [{ grupo: "boletín" }, { campo: "XYZCOLORXYZ", es: "=", valor: "rojo" }] };
    expect((await north("POST", `${at}/filters/count`, { condiciones })).body).toEqual({ contactos: 2 });
    const added = (await north("POST", `${at}/filters`, { nombre: "Rojos", condiciones })).body;
    expect(added).toEqual({ id: added.id, nombre: "Rojos", condiciones, contactos: 2 });
    expect((await north("GET", `${at}/filters`)).body.filtros).toContainEqual(added);

    const twice = await north("POST", `${at}/filters`, { nombre: "Rojos", condiciones });
    expect(twice).toMatchObject({
      status: 409,
      body: { msg: "there is a filter of that name", code: "filter-exists" },
    });
    const changed = await north("PUT", `${at}/filters/${added.id}`, { condiciones: { no: condiciones } });
    expect(changed.body).toEqual({ ...added, condiciones: { no: condiciones }, contactos: 1 });
    expect((await north("PUT", `${at}/filters/${added.id}`, { nombre: "Otros" })).body.nombre).toBe("Otros");
    expect((await north("PUT", `${at}/filters/${added.id}`, { nombre: "Mayores de 40" })).status).toBe(409);
    const theirs = `/instances/south/filters/${added.id}`;
    expect((await palomar.users.south.call("PUT", theirs, { nombre: "x" })).status).toBe(404);
    expect((await palomar.users.south.call("DELETE", theirs)).status).toBe(404);
    expect((await north("DELETE", `${at}/filters/${added.id}`)).body).toEqual({ msg: "deleted" });
    expect((await north("DELETE", `${at}/filters/${added.id}`)).status).toBe(404);
  });

  test("are a thousand at most", async () => {
    const { db } = palomar.context;
    const { id } = (await findInstanceByName(db, "south"))!;
    await db.raw(
      "insert into filters (instance_id, name, conditions) select ?, 'F' || n, '{\"all\":[]}' from generate_series(1, 1000) as n",
      [id],
    );
    const south = { nombre: "one more", condiciones: { todas: [] } };
    expect(await palomar.users.south.call("POST", "/instances/south/filters", south)).toMatchObject({
      status: 400,
      body: { code: "filters-oversized", values: { most: "1000", mebibytes: "4" } },
    });
    await db("filters").where({ instance_id: id }).whereLike("name", "F%").delete();
  });

  test("however many there are, they and their groups are read by few statements", async () => {
    const { db } = palomar.context;
    const { id: instanceId } = (await findInstanceByName(db, "north"))!;
    const many = Array.from({ length: 20 }, (_, at) => ({
      ...{ instance_id: instanceId, name: `many ${at}` },
      conditions: JSON.stringify({ not: { group: "clientes" } }),
    }));
    const ids: number[] = await db("filters")
      .insert(many, "id")
      .then((rows) => rows.map(({ id }) => id));
    const [campaign] = await db("campaigns").insert(
      { instance_id: instanceId, type: "normal", name: "many", sender: "a@north.example.org", sender_name: "" },
      "numid",
    );
    const fields = { asunto: "Hola", html: "<p>Hola</p>", filtros: [...ids, ...ids] };

    const put = await statementsOf(() => north("PUT", `${at}/campaigns/${campaign.numid}/message`, fields));
    expect(put.answer).toMatchObject({ status: 200, body: { filtros: ids } });
    expect(put.statements.filter((text) => /from "filters"/.test(text))).toHaveLength(1);
    expect(put.statements.filter((text) => /from "groups"/.test(text))).toHaveLength(1);
    const list = await statementsOf(() => north("GET", `${at}/filters`));
    expect(list.answer.body.filtros.length).toBeGreaterThanOrEqual(many.length);
    // Eight at a time.
    expect(list.statements.filter((text) => /from "filters"/.test(text))).toHaveLength(3);
    expect(list.statements.filter((text) => /from "groups"/.test(text))).toHaveLength(3);
    await db("filters").whereIn("id", ids).delete();
  });

  test.each(["http://127.0.0.1/\r\nX: y", "http://127.0.0.1/\n", "http://exa\tmple.org/", "ftp://example.org/", "x"])(
    "a webhook at %j is refused",
    async (url) => {
      const refused = await north("POST", `${at}/webhooks`, { url, name: "odd" });
      expect(refused).toMatchObject({ status: 400, body: { values: { field: "url" } } });
      expect((await north("GET", `${at}/webhooks`)).body.webhooks).toEqual([]);
    },
  );

  test("one that names a group which is gone selects nobody, and is refused wherever it would be used", async () => {
    const condiciones = { no: { grupo: "quitado" } };
    await north("POST", `${at}/groups`, { nombre: "quitado" });
    const { id, ...added } = (await north("POST", `${at}/filters`, { nombre: "Sin", condiciones })).body;
    expect(added).toEqual({ nombre: "Sin", condiciones, contactos: 3 });
    await north("POST", `${at}/webhooks`, { url: "https://hook.example.net/", name: "sin", filter: id });
    await north("DELETE", `${at}/groups/quitado`);

    expect((await north("GET", `${at}/filters`)).body.filtros).toContainEqual({
      ...{ id, nombre: "Sin", condiciones, contactos: 0, grupo_ausente: "quitado" },
    });
    expect(await north("POST", `${at}/filters/count`, { condiciones })).toMatchObject({
      status: 400,
      body: { msg: "grupo quitado no existe", code: "group-gone", values: { group: "quitado" } },
    });
    const refusal = {
      status: 400,
      body: {
        ...{ msg: "filtro Sin: grupo quitado no existe", code: "filter-group-gone" },
        values: { filter: "Sin", group: "quitado" },
      },
    };
    expect(await north("GET", `${at}/contacts?filter=${id}`)).toMatchObject(refusal);
    expect(await north("POST", `${at}/webhooks`, { url: "https://h.example.net/", filter: id })).toMatchObject(refusal);
    const { webhooks } = (await north("GET", `${at}/webhooks`)).body;
    expect(webhooks).toMatchObject([{ id: "sin", grupo_ausente: "quitado" }]);
    await north("DELETE", `${at}/webhooks/sin`);
    await north("DELETE", `${at}/filters/${id}`);
  });

  test.each([
    [{ condiciones: { todas: [{ grupo: "x" }, { campo: "edad", es: "contiene", valor: 1 }] } }, "condiciones.todas[1]"],
    [{ condiciones: { campo: "password", es: "=", valor: "x" } }, "condiciones"],
  ])("%j is 400 and names the place", async (body, place) => {
    for (const path of ["", "/count"]) {
      const answer = await north("POST", `${at}/filters${path}`, { nombre: "x", ...body });
      expect(answer).toMatchObject({ status: 400, body: { msg: `invalid field: ${place}: is no condition` } });
    }
  });
});

describe("webhooks", () => {
  test("one is set, shown without its secret, told, replayed, removed", async () => {
    const set = await north("POST", `${at}/webhooks`, { url: "https://hook.example.net/events?token=abc" });
    expect(set.body).toEqual({
      id: "events",
      url: "https://hook.example.net/events?token=abc",
      secret: expect.stringMatching(/^[\w-]{32}$/),
    });
    expect((await north("GET", `${at}/webhooks`)).body.webhooks).toEqual([
      { id: "events", url: "https://hook.example.net/events?token=abc", failures: 0, next_attempt: expect.any(String) },
    ]);
    const { audit } = (await north("GET", "/audit")).body;
    expect(audit[0]).toMatchObject({ action: "webhook.set", object: "https://hook.example.net/events" });

    const { id: instanceId } = (await findInstanceByName(palomar.context.db, "north"))!;
    const [batch] = await palomar.context
      .db("webhook_batches")
      .insert({ instance_id: instanceId, body: "{}", events: 3, state: "failed", attempts: 9, give_up_at: new Date() })
      .returning("id");
    const log = async () => (await north("GET", `${at}/webhooks/events/deliveries`)).body.deliveries;
    expect(await log()).toMatchObject([{ id: batch.id, events: 3, state: "failed", attempts: 9, finished: null }]);
    expect((await north("POST", `${at}/webhooks/events/replay`, { delivery: batch.id })).status).toBe(200);
    expect(await log()).toMatchObject([{ id: batch.id, state: "waiting", attempts: 0 }]);
    expect((await north("POST", `${at}/webhooks/events/replay`, { delivery: batch.id + 1 })).status).toBe(404);
    expect((await north("GET", `${at}/webhooks/other/deliveries`)).status).toBe(404);
    expect((await north("DELETE", `${at}/webhooks/events`)).status).toBe(200);
    expect((await north("DELETE", `${at}/webhooks/events`)).status).toBe(404);
  });

  test.each(["ftp://example.net/", "example.net", ""])("%j is no URL", async (url) => {
    expect((await north("POST", `${at}/webhooks`, { url })).status).toBe(400);
  });

  test.each(["https://ana:pw@h.example.net/", "https://ana@h.example.net/"])("%s is refused", async (url) => {
    expect(await north("POST", `${at}/webhooks`, { url })).toMatchObject({
      status: 400,
      body: { code: "invalid-field", values: { field: "url", reason: expect.stringContaining("no password") } },
    });
  });

  test.each([
    ["https://ana:p@w@h.example.net/a@b", "https://h.example.net/a@b"],
    ["https:\\\\ana:pw@h.example.net/", "https:\\\\h.example.net/"],
    ["https://h.example.net/?to=a@b", "https://h.example.net/?to=a@b"],
  ])("a stored %s is shown as %s", async (stored, shown) => {
    await north("POST", `${at}/webhooks`, { url: "https://h.example.net/" });
    await palomar.context.db("webhooks").update({ url: stored });
    expect((await north("GET", `${at}/webhooks`)).body.webhooks).toMatchObject([{ url: shown }]);
    await north("DELETE", `${at}/webhooks/events`);
  });
});

describe("quarantine", () => {
  test("is the operator's: listed, read, given back, dropped", async () => {
    const { db } = palomar.context;
    const ids: number[] = [];
    for (const problem of ["cannot be interpreted", "its workers never finished"]) {
      const [row] = await db("inbound_messages")
        .insert({
          feedback_address: "fbl@bounces.localhost",
          mail_from: "",
          client_address: "192.0.2.1",
          octets: Buffer.from("Subject: poison\r\n\r\n\xff", "latin1"),
          state: "quarantined",
          attempts: 5,
          problem,
          quarantined_at: new Date(),
        })
        .returning("id");
      ids.push(row.id);
    }
    const [first, second] = ids as [number, number];
    const { operator } = palomar.users;
    const list = async (query = "") => (await operator.call("GET", `/quarantine${query}`)).body.quarantine;
    expect(await list()).toMatchObject([
      { id: second, problem: "its workers never finished", attempts: 5, octets: 20, from: "", client: "192.0.2.1" },
      { id: first, problem: "cannot be interpreted", feedback_address: "fbl@bounces.localhost", delivery: null },
    ]);
    expect(await list(`?before=${second}&limit=1`)).toMatchObject([{ id: first }]);
    const read = await operator.call("GET", `/quarantine/${first}`);
    expect([read.headers["content-type"], read.body.slice(0, 15)]).toEqual(["message/rfc822", "Subject: poison"]);

    expect((await operator.call("POST", `/quarantine/${first}/retry`)).status).toBe(200);
    expect(await db("inbound_messages").where({ id: first }).first("state", "attempts", "problem")).toEqual({
      state: "waiting",
      attempts: 0,
      problem: null,
    });
    expect((await operator.call("DELETE", `/quarantine/${second}`)).status).toBe(200);
    expect(await list()).toEqual([]);
    for (const [method, path] of [
      ["GET", ""],
      ["DELETE", ""],
      ["POST", "/retry"],
    ] as const) {
      expect((await operator.call(method, `/quarantine/${second}${path}`)).status).toBe(404);
      expect((await north(method, `/quarantine/${second}${path}`)).status).toBe(403);
    }
    expect((await north("GET", "/quarantine")).status).toBe(403);
  });
});

async function settled(job: string) {
  for (;;) {
    const { body } = await north("GET", `/jobs/${job}`);
    if (body.state !== "running") return body;
    await sleep(20);
  }
}

function address(text: string) {
  const valid = validateAddress(text, { allowSmtputf8: true });
  if (!valid.ok) throw new Error(valid.error.message);
  return valid.value;
}
