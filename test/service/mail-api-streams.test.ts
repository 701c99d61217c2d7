import { request } from "node:http";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { validateAddress } from "../../services/core/mail/address.ts";
import { EVENT_NAMES } from "../../services/core/mail/event-kind.ts";
import { formatTimestamp } from "../../services/core/mail/timestamps.ts";
import { addCampaign } from "../../services/store/mail/campaigns/campaigns.ts";
import {
  saveContacts,
  streamContacts,
  streamInvalidContacts,
} from "../../services/store/mail/contacts/contact-profiles.ts";
import { eventKindOf } from "../../services/store/mail/events/event-kinds.ts";
import { type NewEvent, recordEvents } from "../../services/store/mail/events/events.ts";
import { startMailApi, type TestMailApi } from "../support/mail-api.ts";

let api: TestMailApi;
beforeAll(async () => {
  api = await startMailApi();
});
afterAll(async () => {
  await api.stop();
  expect(api.failures).toEqual([]);
});

const EEID = "6f0d3c5e-7b0a-4d53-9f43-0c5d1f6b7a10";
const UNSET = { sender: "", senderName: "", subject: "", subjectUri: "", replyTo: "", url: "", charset: "" };
const newCampaign = (name: string) =>
  addCampaign(api.db, api.keyRing, { ...UNSET, instanceId: api.north.id, type: "normal", name, unsubscribe: null });

/** The octets of an answer of 200, as text. */
function read(path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { Authorization: api.north.key, Host: api.north.host };
    request(api.url + path, { headers }, (response) => {
      if (response.statusCode === 200) text(response).then(resolve, reject);
      else reject(new Error(`${path} is ${response.statusCode}`));
    }).end();
  });
}

async function addContacts(count: number, more: (n: number) => object = () => ({})): Promise<number[]> {
  const changes = Array.from({ length: count }, (_, n) => {
    const address = validateAddress(`c${n}@streams.example.net`, { allowSmtputf8: false });
    if (!address.ok) throw new Error(String(n));
    return { address: address.value, ...more(n) };
  });
  await saveContacts(api.db, api.north.id, changes, "modified");
  return api.db("contacts").where({ instance_id: api.north.id }).orderBy("id").pluck("id");
}

describe("what is made page by page has the octets of what is made at once", () => {
  const format = (at: Date) => formatTimestamp(at, api.north.timeZone);

  test("a batch's events, and a contact's", async () => {
    const { numid } = await newCampaign("Oferta «ñ»");
    await api.db("batches").insert({ eeid: EEID, instance_id: api.north.id, campaign_numid: numid, creator: "api" });
    const ids = await addContacts(300);
    const now = Date.now();
    const events = Array.from({ length: 6_000 }, (_, n): NewEvent => {
      const isCopy = n % 7 === 0;
      return {
        instanceId: api.north.id,
        // Not in the order of the contacts, and many at one moment.
        at: new Date(now - ((n * 7_919) % 500) * 1_000),
        kind: n % 2 === 0 ? "viewed" : "clicked",
        contactId: isCopy ? null : n % 3 === 0 ? ids[0]! : ids[n % ids.length]!,
        ...(isCopy ? { email: `copy${n % 11}@streams.example.net` } : {}),
        campaignNumid: numid,
        eeid: EEID,
        machine: n % 5 === 0,
      };
    });
    await recordEvents(api.db, events);

    const rows = await api
      .db("events")
      .leftJoin("contacts", { "contacts.id": "events.contact_id", "contacts.instance_id": "events.instance_id" })
      .where({ eeid: EEID, "events.instance_id": api.north.id })
      .orderBy(["events.at", "events.id"])
      .select("events.*", api.db.raw("coalesce(contacts.email, events.email) as address"));
    const told = rows.map(({ address, contact_id, kind, at }) => {
      return { address, contact_id, name: EVENT_NAMES[eventKindOf(kind)], timestamp: format(at) };
    });
    const contactos = new Map<string, object[]>();
    for (const { address, name, timestamp } of told) {
      contactos.set(address, [...(contactos.get(address) ?? []), { eventos: name, timestamp }]);
    }
    expect(contactos.size).toBeGreaterThan(200);
    const batch = await read(`/v1/eeid_info/${EEID}`);
    const { envio_efectivo: shown } = JSON.parse(batch);
    expect(Object.keys(shown).slice(-2)).toEqual(["creador_id", "contactos"]);
    const all = [...contactos].map(([email, eventos]) => ({ email, eventos }));
    expect(batch).toBe(JSON.stringify({ status: "ok", envio_efectivo: { ...shown, contactos: all } }));

    const contact = await read("/v1/contacto/c0@streams.example.net");
    const { contacto } = JSON.parse(contact);
    const eventos = told
      .filter(({ contact_id }) => contact_id === ids[0])
      .map(({ name, timestamp }) => ({ evento: name, timestamp, campania: "Oferta «ñ»" }));
    expect(eventos.length).toBeGreaterThan(1_500);
    expect(Object.keys(contacto).slice(-2)).toEqual(["campos", "eventos"]);
    expect(contact).toBe(JSON.stringify({ status: "ok", contacto: { ...contacto, eventos } }));
  });

  test("a batch without events", async () => {
    const eeid = EEID.replace("6f", "70");
    await api.db("batches").insert({ eeid, instance_id: api.north.id, campaign_numid: 1, creator: "api" });
    expect(await read(`/v1/eeid_info/${eeid}`)).toMatch(/,"creador_id":"api","contactos":\[\]\}\}$/);
  });

  test("campaigns", async () => {
    for (let n = 0; n < 250; n++) await newCampaign(`Campaign ${n}`);
    const numids = await api.db("campaigns").where({ instance_id: api.north.id }).orderBy("numid").pluck("numid");
    const answer = await read("/v1/campania");
    const { campanias } = JSON.parse(answer);
    expect(campanias.map(({ numid }: { numid: number }) => numid)).toEqual(numids);
    expect(answer).toBe(JSON.stringify({ status: "ok", campanias }));
    expect(await read(`/v1/campania?numid=${numids[120]}`)).toBe(
      JSON.stringify({ status: "ok", campanias: [campanias[120]] }),
    );
  });
});

describe("pages of contacts", () => {
  test("are cut by octets, and lists read no custom fields", async () => {
    const fields = { NOTA: "x".repeat(200_000) };
    const ids = await addContacts(40, () => ({ invalid: true, fields }));
    const octets: number[] = [];
    const seen: number[] = [];
    for await (const page of streamContacts(api.db, api.north.id)) {
      octets.push(JSON.stringify(page).length);
      seen.push(...page.map(({ id }) => id));
    }
    expect(seen).toEqual(ids);
    expect(octets.length).toBeGreaterThan(3);
    // The last one of a page may go beyond.
    expect(Math.max(...octets)).toBeLessThan(2.5 * 2 ** 20);
    for await (const page of streamInvalidContacts(api.db, api.north.id)) {
      expect(page).toHaveLength(40);
      expect(page.filter((contact) => "fields" in contact)).toEqual([]);
    }
  });

  test("a contact's groups have 64 KiB of names at most, however many add to them at once", async () => {
    const oversized = { status: "err", on: "grupos: mas de 64 KiB de nombres en total" };
    const email = "groups@streams.example.net";
    const join = async (from: number, count: number) => {
      const grupos = Array.from({ length: count }, (_, n) => `${from + n}`.padEnd(500, "g"));
      const answer = await api.north.call("POST", "/v1/contacto", { email, nombre: `${from}`, grupos });
      return answer.status === 200 ? 200 : [answer.status, answer.body];
    };
    expect(await join(0, 132)).toEqual([400, oversized]);
    expect((await api.north.call("GET", `/v1/contacto/${email}`)).status).toBe(404);
    const answers = await Promise.all(Array.from({ length: 8 }, (_, n) => join(100 * n, 100)));
    expect(answers.filter((answer) => answer === 200)).toHaveLength(1);
    expect(answers.filter((answer) => answer !== 200)).toEqual(Array(7).fill([400, oversized]));
    const { contacto } = (await api.north.call("GET", `/v1/contacto/${email}`)).body;
    expect(contacto.grupos).toHaveLength(100);
    expect(contacto.grupos[0]).toMatch(new RegExp(`^${contacto.nombre.slice(0, -2)}`));
    // What is there stays, also beside more that is said of it.
    expect(await join(Number(contacto.nombre), 100)).toBe(200);
  });
});
