import pg from "pg";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { validateAddress } from "../../services/core/mail/address.ts";
import {
  invalidateContact,
  revalidateContact,
  unsubscribeContact,
} from "../../services/operations/mail/contact-changes.ts";
import { countHardBouncedMessages, lockAddress } from "../../services/store/mail/contacts/contacts.ts";
import { findContacts, resolveRecipients } from "../../services/store/mail/contacts/recipients.ts";
import { recordEvents } from "../../services/store/mail/events/events.ts";
import { startMailApi, type TestMailApi } from "../support/mail-api.ts";
import { listWaiting } from "../support/spread-tables.ts";
import { eventually } from "../support/stack.ts";

let api: TestMailApi;
beforeAll(async () => {
  api = await startMailApi();
});
afterAll(async () => {
  await api.stop();
  expect(api.failures).toEqual([]);
});

let made = 0;
async function makeContact(state: { invalido?: boolean; whitelisted?: boolean } = {}) {
  const email = `c${++made}@example.org`;
  const { body } = await api.north.call("POST", "/v1/contacto", { email, invalido: state.invalido });
  if (state.whitelisted) await api.north.call("POST", `/v1/whitelist/${email}`);
  return { email, id: body.contacto.numid as number };
}

async function readContact(email: string) {
  const { contacto } = (await api.north.call("GET", `/v1/contacto/${email}`)).body;
  return {
    invalido: contacto.invalido as boolean,
    operacion: contacto.operacion as string,
    eventos: contacto.eventos.map(({ evento }: { evento: string }) => evento) as string[],
  };
}

describe("the transition table", () => {
  // State before, trigger → state after, event stored, message.
  test.each([
    [{ invalido: false, whitelisted: false }, "invalidar", true, ["invalidacion"], " invalidado"],
    [{ invalido: true, whitelisted: false }, "invalidar", true, ["invalidacion"], " invalidado"],
    [{ invalido: false, whitelisted: true }, "invalidar", false, [], "whitelisted"],
    [{ invalido: true, whitelisted: true }, "invalidar", true, [], "whitelisted"],
    [{ invalido: true, whitelisted: false }, "revalidar", false, ["revalidacion"], " revalidado"],
    [{ invalido: false, whitelisted: false }, "revalidar", false, ["revalidacion"], " revalidado"],
    [{ invalido: true, whitelisted: true }, "revalidar", true, [], "whitelisted"],
    [{ invalido: false, whitelisted: true }, "revalidar", false, [], "whitelisted"],
  ])("%o, %s → invalido %s, events %j", async (before, trigger, invalido, eventos, message) => {
    const { email } = await makeContact(before);
    const answer = await api.north.call("GET", `/v1/${trigger}/${email}`);
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({ status: "ok", msg: message.startsWith(" ") ? email + message : message });
    expect(await readContact(email)).toMatchObject({ invalido, eventos });
  });

  test("each request stores an event, with the moment it was made", async () => {
    const { email } = await makeContact();
    const before = new Date().toISOString().slice(0, 19);
    await api.north.call("GET", `/v1/invalidar/${email}/`);
    await api.north.call("GET", `/v1/invalidar/${email}`);
    await api.north.call("GET", `/v1/revalidar/${email}`);
    const { contacto } = (await api.north.call("GET", `/v1/contacto/${email}`)).body;
    expect(contacto.operacion).toBe("revalidacion");
    expect(contacto.eventos.map(({ evento }: { evento: string }) => evento)).toEqual([
      "invalidacion",
      "invalidacion",
      "revalidacion",
    ]);
    for (const { timestamp, campania } of contacto.eventos) {
      expect(timestamp >= before).toBe(true);
      expect(campania).toBe("");
    }
  });

  test.each([
    ["invalidar", false],
    ["revalidar", true],
  ])("HEAD of %s changes nothing", async (trigger, invalido) => {
    const { email } = await makeContact({ invalido });
    expect((await api.north.call("HEAD", `/v1/${trigger}/${email}`)).status).toBe(200);
    expect((await api.north.call("HEAD", `/v1/${trigger}/nobody@example.org`)).status).toBe(404);
    expect(await readContact(email)).toMatchObject({ invalido, eventos: [] });
  });

  test.each(["invalidar", "revalidar"])(
    "%s of an address that is no contact is 404, whitelisted or not",
    async (trigger) => {
      const unknown = await api.north.call("GET", `/v1/${trigger}/stranger@example.org`);
      expect([unknown.status, unknown.body]).toEqual([404, { status: "err", on: "no existe" }]);
      await api.north.call("PUT", "/v1/whitelist/stranger@example.org");
      expect((await api.north.call("GET", `/v1/${trigger}/stranger@example.org`)).status).toBe(404);
      expect((await api.north.call("GET", `/v1/${trigger}/no-address`)).status).toBe(404);
    },
  );

  test("another instance's key changes nothing", async () => {
    const { email } = await makeContact();
    expect((await api.south.call("GET", `/v1/invalidar/${email}`)).status).toBe(404);
    await api.south.call("POST", `/v1/whitelist/${email}`);
    await api.north.call("GET", `/v1/invalidar/${email}`);
    expect((await readContact(email)).invalido).toBe(true);
  });

  test("POST contacto sets validity whatever the whitelist says", async () => {
    const { email } = await makeContact({ whitelisted: true });
    await api.north.call("POST", "/v1/contacto", { email, invalido: true });
    expect(await readContact(email)).toMatchObject({ invalido: true, eventos: [] });
  });
});

describe("whitelist", () => {
  test("POST and PUT add, DELETE removes, GET tells; the domain's case does not matter", async () => {
    const answers = [];
    for (const [method, email] of [
      ["GET", "w@example.org"],
      ["POST", "w@example.org"],
      ["GET", "w@EXAMPLE.org"],
      ["PUT", "w@example.org"],
      ["DELETE", "w@example.org"],
      ["GET", "w@example.org"],
      ["DELETE", "w@example.org"],
    ] as const) {
      const { status, body } = await api.north.call(method, `/v1/whitelist/${email}`);
      expect(status).toBe(200);
      expect(body.status).toBe("ok");
      answers.push(body.msg);
    }
    expect(answers).toEqual([
      "w@example.org not whitelisted",
      "w@example.org added to whitelist",
      "w@EXAMPLE.org whitelisted",
      "w@example.org added to whitelist",
      "w@example.org removed from whitelist",
      "w@example.org not whitelisted",
      "w@example.org removed from whitelist",
    ]);
  });

  test("an address that is none is 400", async () => {
    for (const method of ["GET", "POST", "PUT", "DELETE"]) {
      const { status, body } = await api.north.call(method, "/v1/whitelist/plain");
      expect([status, body.on]).toEqual([
        400,
        "invalid email The email address is not valid. It must have exactly one @-sign.",
      ]);
    }
  });

  test("it is the instance's own", async () => {
    await api.north.call("POST", "/v1/whitelist/own@example.org");
    const { body } = await api.south.call("GET", "/v1/whitelist/own@example.org");
    expect(body.msg).toBe("own@example.org not whitelisted");
  });
});

describe("races", () => {
  test("once a whitelisting is answered, no invalidation that was under way takes effect", async () => {
    for (let round = 0; round < 15; round++) {
      const { email, id } = await makeContact();
      let whitelistedAt = Number.POSITIVE_INFINITY;
      const whitelisting = api.north.call("POST", `/v1/whitelist/${email}`).then(async () => {
        whitelistedAt = performance.now();
        return (await readContact(email)).invalido;
      });
      const [validWhenListed] = await Promise.all([
        whitelisting,
        ...Array.from({ length: 4 }, () => invalidateContact(api.db, api.north.id, id, { reason: "hard-bounces" })),
        api.north.call("GET", `/v1/invalidar/${email}`),
      ]);
      expect(whitelistedAt).toBeLessThan(Number.POSITIVE_INFINITY);
      // Whatever was true when the whitelisting was answered stays true.
      expect((await readContact(email)).invalido).toBe(validWhenListed);
    }
  });

  test("everything that locks a contact, at once on the same few: nobody waits in a circle", async () => {
    const contacts = await Promise.all(Array.from({ length: 4 }, () => makeContact()));
    const emails = contacts.map(({ email }) => email);
    const { numid } = (
      await api.north.call("POST", "/v1/campania", {
        tipo: "api",
        nombre: "carrera",
        remitente: "a@example.org",
        remitente_nombre: "",
        asunto: "a",
        url: "http://www.example.org/",
        charset: "utf8",
        desusc: "no",
      })
    ).body;
    const operations = [
      (email: string, n: number) =>
        api.north.call("POST", "/v1/contacto", { email, nombre: `N${n}`, grupos: [`a${n % 3}`, `b${n % 2}`] }),
      (email: string) => api.north.call("GET", `/v1/invalidar/${email}`),
      (email: string) => api.north.call("GET", `/v1/revalidar/${email}`),
      (email: string, n: number) => api.north.call(n % 2 ? "PUT" : "DELETE", `/v1/whitelist/${email}`),
      (_: string, n: number) =>
        api.north.call("POST", "/v1/envio/send_many_inline", {
          campana_id: numid,
          email: true,
          html: "<p>x</p>",
          contactos: (n % 2 ? emails : emails.toReversed()).map((email) => ({ email, nombre: `S${n}` })),
        }),
    ];
    const answers = await Promise.all(
      Array.from({ length: 120 }, (_, n) => operations[n % operations.length]!(emails[(n * 7) % emails.length]!, n)),
    );
    expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
  });

  test("invalidations and revalidations at once: the state is that of the last event", async () => {
    for (let round = 0; round < 20; round += 1) {
      const { email } = await makeContact();
      await Promise.all(
        Array.from({ length: 10 }, (_, index) =>
          api.north.call("GET", `/v1/${index % 2 ? "invalidar" : "revalidar"}/${email}`),
        ),
      );
      const { invalido, operacion, eventos } = await readContact(email);
      expect(eventos).toHaveLength(10);
      expect([operacion, invalido]).toEqual([eventos.at(-1), eventos.at(-1) === "invalidacion"]);
    }
  });

  test("who had to wait comes last in the history as well", async () => {
    const { email, id } = await makeContact();
    const { answer } = await api.db.transaction(async (transaction) => {
      await lockAddress(transaction, api.north.id, email);
      const answer = api.north.call("GET", `/v1/invalidar/${email}`);
      await eventually(
        () => listWaiting(api.db),
        (waiting) => waiting.some(({ wait_event }) => wait_event === "advisory"),
      );
      await revalidateContact(transaction, api.north.id, id);
      return { answer };
    });
    expect((await answer).status).toBe(200);
    expect(await readContact(email)).toEqual({
      invalido: true,
      operacion: "invalidacion",
      eventos: ["revalidacion", "invalidacion"],
    });
  });
});

describe("what delivery and bounces call", () => {
  const address = (text: string) => {
    const parsed = validateAddress(text, { allowSmtputf8: false });
    if (!parsed.ok) throw new Error(parsed.error.message);
    return parsed.value;
  };

  test("only a request confirms a contact that is invalid already", async () => {
    const { id, email } = await makeContact({ invalido: true });
    const cause = { reason: "complaint", at: new Date() } as const;
    expect(await invalidateContact(api.db, api.north.id, id, cause)).toBe("already-invalid");
    expect((await readContact(email)).eventos).toEqual([]);
    expect(await invalidateContact(api.db, api.south.id, id, cause)).toBe("unknown");
    expect(await revalidateContact(api.db, api.south.id, id)).toBe("unknown");
  });

  test("hard bounces count by message and from the last revalidation on", async () => {
    const { id, email } = await makeContact();
    const bounce = (deliveryId: number) =>
      recordEvents(api.db, [
        { instanceId: api.north.id, at: new Date(), kind: "hard-bounce", contactId: id, deliveryId },
      ]);
    await bounce(1);
    await bounce(1);
    expect(await countHardBouncedMessages(api.db, [{ instanceId: api.north.id, id }])).toEqual(new Map([[id, 1]]));
    await bounce(2);
    expect(await countHardBouncedMessages(api.db, [{ instanceId: api.north.id, id }])).toEqual(new Map([[id, 2]]));
    await api.north.call("GET", `/v1/revalidar/${email}`);
    expect(await countHardBouncedMessages(api.db, [{ instanceId: api.north.id, id }])).toEqual(new Map());
  });

  test("recipients of a send become contacts; names update, flags are told, order and duplicates are kept straight", async () => {
    const campaign = (await api.north.call("POST", "/v1/campania", { tipo: "normal", nombre: "resolve" })).body;
    const invalid = await makeContact({ invalido: true });
    const protectedOne = await makeContact({ whitelisted: true });
    const gone = await makeContact();
    await unsubscribeContact(api.db, {
      ...{ instanceId: api.north.id, contactId: gone.id, campaignNumid: campaign.numid, at: new Date() },
    });
    const recipients = [
      { address: address("new@gmail.com"), firstName: "New" },
      { address: address(invalid.email) },
      { address: address(protectedOne.email), lastName: "Protected" },
      { address: address(gone.email) },
      { address: address("new@GMAIL.com"), lastName: "Again" },
    ];
    const sends = [
      { campaignNumid: campaign.numid, recipients },
      { campaignNumid: 1, recipients: [{ address: address(gone.email), firstName: "Other" }] },
    ];
    const [found, others] = await resolveRecipients(api.db, api.north.id, sends);
    expect(found).toMatchObject([
      { emailKey: "new@gmail.com", firstName: "New", lastName: "Again", invalid: false },
      { contactId: invalid.id, invalid: true },
      { contactId: protectedOne.id, lastName: "Protected" },
      { contactId: gone.id, unsubscribedFromCampaign: true },
    ]);
    expect(found).toHaveLength(4);
    expect(others).toMatchObject([{ contactId: gone.id, unsubscribedFromCampaign: false, firstName: "Other" }]);
    expect(found![3]!.firstName).toBe("");
    const { contacto } = (await api.north.call("GET", "/v1/contacto/new@gmail.com")).body;
    expect(contacto).toMatchObject({ nombre: "New", apellido: "Again", operacion: "alta", grupo_de_dominio_id: 1 });
    expect((await findContacts(api.db, api.south.id, campaign.numid, ["new@gmail.com"])).size).toBe(0);
  });

  test("an unsubscription is stored once, and only within the instance", async () => {
    const { numid } = (await api.north.call("POST", "/v1/campania", { tipo: "normal", nombre: "boletín" })).body;
    const { id, email } = await makeContact();
    const from = { contactId: id, campaignNumid: numid, at: new Date() };
    expect(await unsubscribeContact(api.db, { ...from, instanceId: api.south.id })).toBe(false);
    expect(await unsubscribeContact(api.db, { ...from, instanceId: api.north.id })).toBe(true);
    expect(await unsubscribeContact(api.db, { ...from, instanceId: api.north.id })).toBe(false);
    const { contacto } = (await api.north.call("GET", `/v1/contacto/${email}`)).body;
    expect(contacto).toMatchObject({
      operacion: "desuscripcion",
      eventos: [{ evento: "desuscripcion", campania: "boletín" }],
      campanias: [{ numid, nombre: "boletín" }],
      campanias_desusc: [{ numid, nombre: "boletín" }],
    });
  });

  test("50,000 recipients are resolved in a few statements", async () => {
    const recipients = Array.from({ length: 50_000 }, (_, n) => ({
      address: { ...address("x@example.org"), key: `bulk${n}@example.org`, asGiven: `bulk${n}@example.org` },
      firstName: `N${n}`,
    }));
    const resolve = () => resolveRecipients(api.db, api.south.id, [{ campaignNumid: 1, recipients }]);
    const [found] = await resolve();
    expect(found).toHaveLength(50_000);
    const statements = vi.spyOn(pg.Client.prototype, "query");
    await resolve();
    expect(statements.mock.calls.length).toBeLessThan(10);
    statements.mockRestore();
  });
});
