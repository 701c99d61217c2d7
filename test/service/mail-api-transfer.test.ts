import { Readable } from "node:stream";
import { parse } from "csv-parse/sync";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type EmailAddress, validateAddress } from "../../services/core/mail/address.ts";
import { acceptSend } from "../../services/operations/mail/accept-sends.ts";
import { eraseAddress } from "../../services/operations/mail/contact-erasure.ts";
import { exportContacts, readAddressRecords } from "../../services/operations/mail/contact-export.ts";
import { importContacts } from "../../services/operations/mail/contact-import.ts";
import { addMissingContacts } from "../../services/store/mail/contacts/recipients.ts";
import { countEvents } from "../../services/store/mail/events/event-counts.ts";
import { accepted } from "../support/accepted.ts";
import { startMailApi, type TestMailApi } from "../support/mail-api.ts";

let api: TestMailApi;
beforeAll(async () => {
  api = await startMailApi();
});
afterAll(async () => {
  await api.stop();
  expect(api.failures).toEqual([]);
});

/** The report with its reasons in words. */
async function load(csv: string | Buffer | Readable, dryRun = false, instanceId = api.north.id) {
  const octets = csv instanceof Readable ? csv : Readable.from([Buffer.from(csv)]);
  const { errors, ...report } = await importContacts(api.db, instanceId, octets, { dryRun });
  return { ...report, errors: errors.map(({ line, reason }) => ({ line, on: reason.message })) };
}

async function dump(instanceId: number): Promise<string> {
  let csv = "";
  for await (const line of exportContacts(api.db, instanceId)) csv += line;
  return csv;
}

function address(email: string): EmailAddress {
  const parsed = validateAddress(email, { allowSmtputf8: false });
  if (!parsed.ok) throw new Error(parsed.error.message);
  return parsed.value;
}

describe("import", () => {
  const TOO_LONG = "linea de mas de 4 MiB, o con comillas sin cerrar: el resto no se leyo";

  test("a file that is given up at its header is read no further, and closed", async () => {
    let lines = 0;
    const endless = (function* () {
      for (;;) yield Buffer.from(`nombre,apellido ${lines++}\n`.repeat(1_000));
    })();
    const csv = Readable.from(endless);
    const report = await load(csv);
    expect(report.errors).toEqual([{ line: 1, on: "falta email" }]);
    expect(csv.destroyed).toBe(true);
  });

  test("creates and updates; bad lines are reported with their numbers and do not stop good ones", async () => {
    const report = await load(
      [
        "\ufeffemail,nombre,apellido,edad,sexo,grupos,COLOR",
        "ana@example.org,Ana,,30,F,clientes|vip,rojo",
        "no-address,X,,,,,",
        "",
        '"beto@example.org","Beto ""el\nGrande""",,,,,',
        "caro@example.org,Caro,,x,,,",
        "ana@example.org,,Pérez,,,,",
        ",Nadie,,,,,",
        "dora@example.org,Dora,,,,,,demasiado",
        "ana@exämple.org,Ä,,,,,",
      ].join("\n"),
    );
    expect(report).toEqual({
      created: 3 - 1,
      updated: 1,
      rejected: 5,
      errors: [
        { line: 3, on: "invalid email The email address is not valid. It must have exactly one @-sign." },
        { line: 5, on: "nombre invalido" },
        { line: 7, on: "edad invalido" },
        { line: 9, on: "falta email" },
        { line: 10, on: "demasiadas columnas" },
      ],
    });
    const { contacto } = (await api.north.call("GET", "/v1/contacto/ana@example.org")).body;
    expect(contacto).toMatchObject({
      nombre: "Ana",
      apellido: "Pérez",
      edad: 30,
      sexo: "F",
      operacion: "importacion",
      grupos: ["clientes", "vip"],
      campos: [{ nombre: "XYZCOLORXYZ", valor: "rojo" }],
    });
  });

  test("stray quotes, a quote that nobody closes, and what is no UTF-8 are bad lines", async () => {
    const report = await load(
      Buffer.concat([
        Buffer.from('email,nombre\n"broken"x@example.org,X\nfine@example.org,Fi"ne\n'),
        Buffer.from([0x6c, 0x40, 0x65, 0x2e, 0x6f, 0x72, 0x67, 0x2c, 0xff, 0x0a]),
        Buffer.from(' , \n\nlast@example.org,"open\n\nand on\nand on\n'),
      ]),
    );
    expect(report).toEqual({
      created: 1,
      updated: 0,
      rejected: 3,
      errors: [
        { line: 2, on: expect.stringMatching(/^invalid email .*invalid characters before the @-sign: "/) },
        { line: 4, on: "linea invalida: no es texto en UTF-8" },
        { line: 7, on: "csv invalido" },
      ],
    });
  });

  test.each([
    ["a quote that nobody closes", '"', "a"],
    ["a line that does not end", "last@example.org,", "a"],
    ["a line of nothing but cells", "last@example.org", ","],
  ])("%s is a bad line, and read no further than a record may be long", async (_, start, filling) => {
    let read = 0;
    const csv = Readable.from(
      (function* () {
        yield Buffer.from(`email,nombre\nfirst@example.org,\n\n${start}`);
        for (; read < 2 ** 26; read += 2 ** 16) yield Buffer.alloc(2 ** 16, filling);
      })(),
    );
    const report = await load(csv, true);
    expect(report).toEqual({ created: 1, updated: 0, rejected: 1, errors: [{ line: 4, on: TOO_LONG }] });
    expect(read).toBeLessThan(2 ** 23);
    expect(csv.destroyed).toBe(true);
  });

  test.each([false, true])("a contact has no more custom fields than it may have (dry run: %s)", async (dryRun) => {
    const most = 256 * 1024 - '{"A": "", "B": "", "C": "", "D": ""}'.length;
    const cells = Array(4).fill("x".repeat(most / 4));
    const email = `full${dryRun}@example.org`;
    const lines = (rest: string) => load(`email,A,B,C,D\n${rest}fine${dryRun}@example.org,,,,\n`, dryRun);
    expect(await lines(`${email},${cells}y\n`)).toMatchObject({
      ...{ created: 1, updated: 0, rejected: 1 },
      errors: [{ line: 2, on: "campos: mas de 256 KiB en total" }],
    });
    expect((await api.north.call("GET", `/v1/contacto/${email}`)).status).toBe(404);
    expect(await lines(`${email},${cells}\n`)).toMatchObject({ rejected: 0 });
    if (dryRun) return;
    const write = (valor: string | null) =>
      api.north.call("POST", "/v1/contacto", { email, nombre: "N", campos: [{ nombre: "E", valor }] });
    expect(await write("")).toMatchObject({ status: 400, body: { on: "campos: mas de 256 KiB en total" } });
    expect((await api.north.call("GET", `/v1/contacto/${email}`)).body.contacto).toMatchObject({ nombre: "" });
    expect(await write(null)).toMatchObject({ status: 200, body: { contacto: { nombre: "N" } } });
  });

  test("empty lines are no record, however many", async () => {
    const empty = Buffer.alloc(2 ** 16, "\n");
    const csv = Readable.from([Buffer.from("email"), ...Array(80).fill(empty), Buffer.from("first@example.org")]);
    const report = await load(csv, true);
    expect(report).toMatchObject({ created: 1, rejected: 0 });
  });

  test("an address beyond ASCII is updated where it is a contact's, as submission makes them, and else refused", async () => {
    const international = validateAddress("ñandú@example.org", { allowSmtputf8: true });
    if (!international.ok) throw new Error(international.error.message);
    await addMissingContacts(api.db, api.north.id, [{ address: international.value }]);
    const csv = "email,nombre\nñandú@example.org,Ñ\n";
    expect(await load(csv)).toMatchObject({ created: 0, updated: 1, rejected: 0 });
    expect(await dump(api.north.id)).toContain("ñandú@example.org,Ñ,");
    expect((await load(csv, false, api.south.id)).errors).toEqual([
      { line: 2, on: "invalid email Internationalized characters before the @-sign are not supported." },
    ]);
    await api.db("contacts").where({ email_key: international.value.key }).delete();
  });

  test("a dry run reports the same and changes nothing", async () => {
    const csv = "email,grupos\ndry@example.org,dry\ndry@example.org,\nbad,\n";
    const tried = await load(csv, true);
    expect(tried).toMatchObject({ created: 1, updated: 1, rejected: 1 });
    expect((await api.north.call("GET", "/v1/contacto/dry@example.org")).status).toBe(404);
    expect(await api.db("groups").where({ name: "dry" })).toEqual([]);
    expect(await load(csv)).toEqual(tried);
  });

  test("a dry run does not wait for who writes to a contact, nor does he for it", async () => {
    await load("email\nheld@example.org\n");
    await api.db.transaction(async (writer) => {
      await writer("contacts").where({ email: "held@example.org" }).update({ first_name: "Held" });
      const tried = await load("email,nombre\nheld@example.org,X\nunheard@example.org,Y\n", true);
      expect(tried).toEqual({ created: 1, updated: 1, rejected: 0, errors: [] });
    });
  });

  test.each([
    ["", { created: 0, updated: 0, rejected: 0, errors: [{ line: 1, on: "falta email" }] }],
    ["\ufeff\n\n", { created: 0, updated: 0, rejected: 0, errors: [{ line: 1, on: "falta email" }] }],
    ["nombre\nX\n", { created: 0, updated: 0, rejected: 0, errors: [{ line: 1, on: "falta email" }] }],
  ])("the header %j", async (csv, report) => {
    expect(await load(csv)).toEqual(report);
  });

  const NO_UTF8 = "el archivo no es texto en UTF-8";
  const COMMAS = "falta email: las columnas se separan con comas";
  test.each<[string, string | Buffer, string]>([
    ["unreadable", "\ufffd\ufffde\u0000m\n", NO_UTF8],
    ["in UTF-16", Buffer.from('\ufeffemail,nombre\na@example.org,"A"\n', "utf16le"), NO_UTF8],
    ["in UTF-16 without a mark", Buffer.from("email,nombre\na@example.org,A\n", "utf16le"), NO_UTF8],
    ["in Windows-1252", Buffer.from("email,tel\u00e9fono\na@example.org,1\n", "latin1"), NO_UTF8],
    ["with semicolons", "\ufeffemail;nombre\na@example.org;A\n", COMMAS],
    ["with quotes and semicolons", '"email";"nombre"\n', COMMAS],
    ["with tabs", "email\tnombre\n", COMMAS],
    ["with a line for Excel", "sep=,\nemail,nombre\n", COMMAS],
    ["with a column twice", "email,x,x\na@example.org,1,2\n", "x invalido"],
    ["with too many columns", `email${",x".repeat(10_000)}\n`, "mas de 10000 columnas"],
    ["with a field twice", "email,COLOR,XYZCOLORXYZ\na@example.org,1,2\n", "XYZCOLORXYZ invalido"],
  ])("the header of a file %s is refused", async (_, csv, on) => {
    expect(await load(csv)).toEqual({ created: 0, updated: 0, rejected: 0, errors: [{ line: 1, on }] });
  });

  test("what spreadsheets leave around the cells is passed over", async () => {
    const csv = [
      " email , nombre,edad ,SIZE,,",
      "wide@example.org,Wide, 41 ,L,,,,",
      ",,,,,",
      " , ",
      "blank@example.org,,  ",
      "much@example.org,,,,extra",
    ];
    expect(await load(csv.join("\r\n"))).toEqual({
      created: 2,
      updated: 0,
      rejected: 1,
      errors: [{ line: 6, on: "demasiadas columnas" }],
    });
    const { contacto } = (await api.north.call("GET", "/v1/contacto/wide@example.org")).body;
    expect(contacto).toMatchObject({ nombre: "Wide", edad: 41, campos: [{ nombre: "XYZSIZEXYZ", valor: "L" }] });
    for (const name of ["wide", "blank"]) await eraseAddress(api.db, api.north.id, address(`${name}@example.org`));
  });

  test("a cell of a column without a name is not lost without a word", async () => {
    const on = "la columna 2 no tiene nombre";
    const report = { created: 0, updated: 0, rejected: 1, errors: [{ line: 2, on }] };
    expect(await load("email,,nombre\nunnamed@example.org,x,Ana\n")).toEqual(report);
  });
});

test("the column invalido is the API's field, and no custom one; a custom field of that name is wrapped", async () => {
  const csv = "email,invalido\nbad@example.org,true\ngood@example.org,false\nkept@example.org,\nodd@example.org,si\n";
  await api.south.call("POST", "/v1/contacto", { email: "kept@example.org", invalido: true });
  await api.south.call("POST", "/v1/contacto", { email: "good@example.org", invalido: true });
  expect((await load(csv, false, api.south.id)).errors).toEqual([{ line: 5, on: "invalido invalido" }]);
  const contacts = ["bad", "good", "kept"].map(async (name) => {
    const { invalido, campos } = (await api.south.call("GET", `/v1/contacto/${name}@example.org`)).body.contacto;
    return { name, invalido, campos };
  });
  expect(await Promise.all(contacts)).toEqual([
    { name: "bad", invalido: true, campos: [] },
    { name: "good", invalido: false, campos: [] },
    { name: "kept", invalido: true, campos: [] },
  ]);
  for (const name of ["bad", "good", "kept"]) await eraseAddress(api.db, api.south.id, address(`${name}@example.org`));
  expect((await load("email,XYZinvalidoXYZ\nown@example.org,own\n", false, api.south.id)).errors).toEqual([]);
  const own = (await api.south.call("GET", "/v1/contacto/own@example.org")).body.contacto;
  expect(own).toMatchObject({ invalido: false, campos: [{ nombre: "XYZinvalidoXYZ", valor: "own" }] });
  await eraseAddress(api.db, api.south.id, address("own@example.org"));
});

test("an export read in again by another instance gives the same export", async () => {
  await api.north.call("POST", "/v1/contacto", {
    email: "quoted@example.org",
    nombre: ' "Q", ',
    localidad: "Río, Cuarto",
    codigo_pais: "AR",
    subtipo_dispositivo_id: 7,
    campos: [{ nombre: "NOTA", valor: 'line 1\nline "2"' }],
    grupos: ["a b", "c"],
  });
  // What parts groups in a cell, and what keeps it from that.
  const grupos = ["x|y", "x", "\\", "\\|", "ends\\", "in\\side", "|"];
  await api.north.call("POST", "/v1/contacto", {
    email: "groups@example.org",
    subtipo_dispositivo_id: -2147483648,
    grupos,
  });
  // Names that every object has something under.
  const inherited = ["constructor", "toString"].map((nombre) => ({ nombre, valor: "own" }));
  await api.north.call("POST", "/v1/contacto", { email: "inherited@example.org", campos: inherited });
  // Names that columns of the profile have, and one that would lose its own wrapping.
  const email = "columns@example.org";
  const campos = ["XYZXYZDOBLEXYZXYZ", "campos", "ciudad", "email", "grupos", "invalido", "nombre"].map((name) => ({
    nombre: name,
    valor: `custom ${name}`,
  }));
  const written = await api.north.call("POST", "/v1/contacto", { email, campos });
  // What a spreadsheet would evaluate, and what looks like the mark against it.
  const formulas = { nombre: "=1+1", apellido: "'=1+1", localidad: "@SUM(A1)", profesion: " -2" };
  const phones = [
    { nombre: "TELEFONO", valor: "+34600123123" },
    { nombre: "=NAME", valor: "\t=cmd|' /C calc'!A0" },
  ];
  const cautious = await api.north.call("POST", "/v1/contacto", {
    email: "+formula@example.org",
    ...formulas,
    campos: phones,
  });
  const csv = await dump(api.north.id);
  const cells = (parse(csv, { bom: true }) as string[][]).flat();
  expect(cells.filter((cell) => /^[\t\r]|^[\s\ufeff]*[=+\-@]/.test(cell))).toEqual([]);
  expect(cells).toEqual(
    expect.arrayContaining(["'+formula@example.org", "'=1+1", "''=1+1", "'+34600123123", "'=NAME"]),
  );
  expect(csv.match(/own/g)).toHaveLength(2);
  expect(csv).not.toContain("native code");
  expect(csv.split("\r\n")[0]).toMatch(
    /^email,nombre,apellido,edad,sexo,profesion,localidad,grupos,codigo_pais,subtipo_dispositivo_id,/,
  );
  const report = await load(csv, false, api.south.id);
  expect(report.errors).toEqual([]);
  const lines = (text: string) => text.split("\r\n").sort();
  expect(lines(await dump(api.south.id))).toEqual(lines(csv));
  const grouped = (await api.south.call("GET", "/v1/contacto/groups@example.org")).body.contacto;
  expect(grouped).toMatchObject({ grupos: grupos.toSorted(), subtipo_dispositivo_id: -2147483648 });
  const { contacto } = (await api.south.call("GET", `/v1/contacto/${email}`)).body;
  const again = (await api.south.call("GET", "/v1/contacto/+formula@example.org")).body.contacto;
  expect(again).toMatchObject({ ...formulas, campos: cautious.body.contacto.campos });
  expect(contacto).toMatchObject({ campos: written.body.contacto.campos, nombre: "", ciudad: "", grupos: [] });
});

describe("privacy", () => {
  test("export tells everything that is held on an address, erase removes it, counts included", async () => {
    const email = "subject@example.org";
    const { numid } = (await api.north.call("POST", "/v1/contacto", { email, grupos: ["g"] })).body.contacto;
    await api.north.call("GET", `/v1/invalidar/${email}`);
    await api.north.call("POST", `/v1/whitelist/${email}`);
    const eeid = "6f9619ff-8b86-4d01-b42d-00c04fc964ff";
    const db = api.db;
    const instance_id = api.north.id;
    await db("batches").insert({ eeid, instance_id, campaign_numid: 1, creator: "smtp" });
    const octets = Buffer.from("To: subject@example.org\r\n\r\n");
    const [message] = await db("messages").insert(
      { instance_id, eeid, campaign_numid: 1, sender_domain: "example.org", octets, content_octets: octets.length },
      ["id"],
    );
    const [partition] = await db("partitions").insert(
      { instance_id, eeid, message_id: message.id, destination: "example.org", recipients: 1 },
      ["id"],
    );
    const [delivery] = await db("deliveries").insert(
      { instance_id, partition_id: partition.id, contact_id: numid, role: "to", recipient: email },
      ["id"],
    );
    await db("archived_messages").insert({
      instance_id,
      delivery_id: delivery.id,
      eeid,
      recipient_key: email,
      octets: Buffer.from("as it left"),
      sent_at: new Date(),
    });

    const records = await readAddressRecords(db, api.north.id, address(email));
    expect(records).toMatchObject({
      contact: { email },
      events: [{ kind: "invalidated" }],
      whitelisted: true,
      messages: [{ eeid, recipient: email, octets: Buffer.from("as it left") }],
    });
    const nothing = { contact: undefined, events: [], whitelisted: false, messages: [], returned: [] };
    expect(await readAddressRecords(db, api.south.id, address(email))).toEqual(nothing);
    expect(await eraseAddress(db, api.south.id, address(email))).toEqual({
      contacts: 0,
      events: 0,
      messages: 0,
      suppressed: false,
      whitelisted: false,
    });

    const today = { from: new Date(Date.now() - 3_600_000), until: new Date(Date.now() + 3_600_000) };
    expect(await countEvents(db, api.north.id, today)).toEqual([{ kind: "invalidated", count: 1 }]);
    expect(await eraseAddress(db, api.north.id, address(email))).toEqual({
      contacts: 1,
      events: 1,
      messages: 1,
      suppressed: false,
      whitelisted: true,
    });
    expect(await readAddressRecords(db, api.north.id, address(email))).toEqual(nothing);
    expect(await countEvents(db, api.north.id, today)).toEqual([]);
    expect(await db("messages").where({ id: message.id })).toEqual([]);
    expect((await api.north.call("GET", `/v1/contacto/${email}`)).status).toBe(404);
  });

  test("the U-labels and the A-labels of a domain are one address, in what copies left behind too", async () => {
    const spellings = ["copy@bücher.example.net", "copy@xn--bcher-kva.example.net"];
    const others = ["Copy@bücher.example.net", "copy@xn--bcher-kva.example.org"];
    for (const asked of spellings) {
      const { numid } = (await api.north.call("POST", "/v1/campania", { tipo: "normal", nombre: "copies" })).body;
      const outcome = await api.db.transaction((transaction) =>
        acceptSend(transaction, {
          instanceId: api.north.id,
          campaignNumid: numid,
          creator: "api",
          senderDomain: "example.org",
          sender: "info@example.org",
          content: { kind: "finished", octets: Buffer.from("Subject: x\r\n\r\n") },
          recipients: [{ address: address("first@example.org") }],
          copies: [...spellings.slice(0, 1), ...others].map((email) => ({ address: address(email), role: "bcc" })),
          archive: false,
        }),
      );
      const { eeid } = accepted(outcome);
      const records = await readAddressRecords(api.db, api.north.id, address(asked));
      expect(records.messages).toMatchObject([{ eeid, recipient: spellings[0] }]);
      const removed = { contacts: 0, events: 1, messages: 1, suppressed: false, whitelisted: false };
      expect(await eraseAddress(api.db, api.north.id, address(asked))).toEqual(removed);
      const left = await api.db("events").where({ eeid }).whereNull("contact_id").orderBy("email").pluck("email");
      expect(left.sort()).toEqual(others.toSorted());
      for (const other of others) await eraseAddress(api.db, api.north.id, address(other));
    }
  });
});
