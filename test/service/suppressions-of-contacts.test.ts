import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type EmailAddress, validateAddress } from "../../services/core/mail/address.ts";
import { eraseAddress } from "../../services/operations/mail/contact-erasure.ts";
import { importContacts } from "../../services/operations/mail/contact-import.ts";
import { importSuppressions } from "../../services/operations/mail/suppression-import.ts";
import {
  type AddedKind,
  exportSuppressions,
  suppress,
  unsuppress,
} from "../../services/operations/mail/suppressions.ts";
import { changeSubscription } from "../../services/operations/mail/tracking-subscriptions.ts";
import { listSuppressions } from "../../services/store/mail/contacts/suppression-list.ts";
import { findSuppressed, type SuppressionOwner } from "../../services/store/mail/contacts/suppressions.ts";
import { startMailApi, type TestMailApi } from "../support/mail-api.ts";
import { makeCampaign, sendTo, target, unsubscribe } from "../support/suppressions.ts";

// What the list says of an address, and what the contact says that it is or becomes, are one truth.
let api: TestMailApi;
let campaign: number;
beforeAll(async () => {
  api = await startMailApi();
  campaign = await makeCampaign(api.north);
});
afterAll(async () => {
  await api.stop();
  expect(api.failures).toEqual([]);
});

const list = (owner: SuppressionOwner, text: string, kind: AddedKind = "by-hand") =>
  suppress(api.db, owner, { target: target(text), kind, note: "", creator: "ana" });
const send = (to: readonly string[], copies?: readonly string[]) => sendTo(api.north, campaign, to, copies);
const leave = (email: string, of?: "everything" | "campaign") => unsubscribe(api, { campaign, email, of });

describe("what was brought in before there was a contact", () => {
  const mine = () => ({ instanceId: api.north.id });
  const entries = async (text: string) =>
    (await listSuppressions(api.db, api.north.id, { text }, { limit: 50 })).entries.map(
      ({ kind, since, note, creator }) => `${kind} ${since?.toISOString().slice(0, 10)} ${note} ${creator}`,
    );
  const read = async (email: string) => (await api.north.call("GET", `/v1/contacto/${email}`)).body.contacto;
  const bringIn = (email: string, kind: AddedKind) =>
    suppress(api.db, mine(), {
      ...{ target: target(email), kind, note: "old list", creator: "ana", since: new Date("2020-01-02T03:04:05Z") },
    });
  const others = Array.from({ length: 120 }, (_, index) => `o${index}@others.test`);
  const WAYS: Readonly<Record<string, (email: string) => Promise<unknown>>> = {
    write: (email) => api.north.call("POST", "/v1/contacto", { email }),
    import: (email) => importContacts(api.db, api.north.id, Readable.from([`email\n${email}\n`]), { dryRun: false }),
    send: (email) => send([email]),
    sends: (email) => send([email, ...others]),
    copy: (email) => sendCopyAndChoose(email),
  };

  test.each(
    Object.keys(WAYS).flatMap((way) =>
      (["invalid", "complaint", "unsubscribed"] as const).map((kind) => [way, kind] as const),
    ),
  )("a contact that a %s makes takes it over: %s", async (way, kind) => {
    const email = `${kind}@${way}.test`;
    await bringIn(email, kind);
    await WAYS[way]!(email);
    expect(await entries(email)).toEqual([`${kind} 2020-01-02 old list ana`]);
    const { invalido, operacion, campanias_desusc, eventos } = await read(email);
    const isLeft = kind === "unsubscribed";
    expect({ invalido, operacion, left: campanias_desusc.length > 0 }).toEqual({
      ...{ invalido: !isLeft, operacion: isLeft ? "desuscripcion" : "invalidacion", left: isLeft },
    });
    const told = eventos.map(({ evento }: { evento: string }) => evento);
    expect(told.filter((name: string) => name !== "unknown")).toEqual([isLeft ? "desuscripcion" : "invalidacion"]);
    const invalid = await api.north.call("GET", "/v1/contactos/invalidos");
    expect(invalid.body.contactos.some((contact: { email: string }) => contact.email === email)).toBe(!isLeft);
    expect((await send([email])).sent).toBe(0);
    if (!isLeft) {
      await api.north.call("GET", `/v1/invalidar/${email}`);
      expect(await entries(email)).toHaveLength(1);
      expect(await unsuppress(api.db, mine(), email, kind)).toBe("removed");
    } else expect(await unsuppress(api.db, mine(), email, kind)).toBe("removed");
    expect(await entries(email)).toEqual([]);
    expect((await send([email])).sent).toBe(1);
  });

  async function sendCopyAndChoose(email: string): Promise<void> {
    const key = target(email).key;
    await unsuppress(api.db, mine(), key);
    await send(["whole@copy.test"], [email]);
    const [{ id }] = await api.db("deliveries").where({ recipient: email }).select("id");
    await bringIn(email, email.split("@")[0] as AddedKind);
    await api.db.transaction((transaction) => changeSubscription(transaction, id, "tracked", new Date()));
  }

  test("is taken back by a write that says the contact is valid", async () => {
    for (const kind of ["invalid", "complaint"] as const) {
      const email = `${kind}@valid.test`;
      await bringIn(email, kind);
      const { body } = await api.north.call("POST", "/v1/contacto", { email, invalido: false });
      expect(body.contacto).toMatchObject({ invalido: false, eventos: [] });
      expect(await entries(email)).toEqual([]);
      expect((await send([email])).sent).toBe(1);
    }
  });

  test("and a whitelisting after it leave a way out, as of any contact", async () => {
    const email = "white@valid.test";
    await bringIn(email, "invalid");
    await api.north.call("PUT", `/v1/whitelist/${email}`);
    expect((await send([email])).sent).toBe(0);
    expect((await read(email)).invalido).toBe(true);
    expect((await api.north.call("GET", `/v1/revalidar/${email}`)).body.msg).toBe("whitelisted");
    await api.north.call("DELETE", `/v1/whitelist/${email}`);
    await api.north.call("GET", `/v1/revalidar/${email}`);
    await api.north.call("PUT", `/v1/whitelist/${email}`);
    expect((await send([email])).sent).toBe(1);
  });

  test("stays on the list by hand beside the contact, once", async () => {
    await bringIn("hand@write.test", "by-hand");
    await api.north.call("POST", "/v1/contacto", { email: "hand@write.test" });
    expect(await entries("hand@write.test")).toEqual(["by-hand 2020-01-02 old list ana"]);
    expect((await read("hand@write.test")).invalido).toBe(false);
  });

  test("a contact that would be too large leaves it where it is", async () => {
    await bringIn("large@write.test", "invalid");
    const campos = Array.from({ length: 20 }, (_, index) => ({ nombre: `XYZN${index}XYZ`, valor: "x".repeat(60_000) }));
    expect((await api.north.call("POST", "/v1/contacto", { email: "large@write.test", campos })).status).toBe(400);
    expect(await entries("large@write.test")).toEqual(["invalid 2020-01-02 old list ana"]);
    expect(await read("large@write.test")).toBeUndefined();
  });

  test("who complained so is kept out when the contact is erased", async () => {
    await bringIn("angry@erased.test", "complaint");
    await api.north.call("POST", "/v1/contacto", { email: "angry@erased.test" });
    await eraseAddress(api.db, api.north.id, validated("angry@erased.test"));
    expect(await findSuppressed(api.db, api.north.id, ["angry@erased.test"])).toEqual(new Set(["angry@erased.test"]));
  });
});

function validated(email: string): EmailAddress {
  const address = validateAddress(email, { allowSmtputf8: true });
  if (!address.ok) throw new Error(address.error.message);
  return address.value;
}

test("a whitelisted address is listed as invalid by nobody, contact or not", async () => {
  const mine = { instanceId: api.north.id };
  await api.north.call("POST", "/v1/contacto", { email: "member@white.test" });
  for (const email of ["member@white.test", "stranger@white.test"]) {
    await api.north.call("PUT", `/v1/whitelist/${email}`);
    for (const kind of ["invalid", "complaint"] as const) {
      expect(await list(mine, email, kind)).toMatchObject({ ok: false, error: { code: "suppression-whitelisted" } });
    }
    expect((await send([email])).sent).toBe(1);
    // What somebody says by hand, or a person, holds all the same.
    expect(await list(mine, email)).toEqual({ ok: true, value: "added" });
    expect((await send([email])).sent).toBe(0);
    const entered = await listSuppressions(api.db, api.north.id, { text: email }, { limit: 5 });
    expect(entered.entries.map(({ kind }) => kind)).toEqual(["by-hand", "whitelist"]);
  }
});

describe("since when, and in whose words", () => {
  const KINDS = ["invalid", "complaint", "unsubscribed", "whitelist", "by-hand"] as const;
  const shown = async (text: string) =>
    (await listSuppressions(api.db, api.north.id, { text }, { limit: 5 })).entries.map(
      ({ kind, since, note, creator }) => ({ kind, since: since?.toISOString(), note, creator }),
    );

  test.each(KINDS)("is kept of a contact that is listed as %s", async (kind) => {
    const email = `${kind}@words.example.net`;
    await api.north.call("POST", "/v1/contacto", { email });
    const since = "2021-02-03T04:05:06.000Z";
    const csv = `address,kind,since,note\n${email},${kind},${since},from the old system\n`;
    const now = { dryRun: false, now: new Date() };
    const own = { instanceId: api.north.id };
    await importSuppressions(api.db, own, Readable.from([csv]), { creator: "ana", ...now });
    expect(await shown(email)).toEqual([{ kind, since, note: "from the old system", creator: "ana" }]);
    // Other words replace them, it began when it did; none leave them.
    const again = { target: target(email), kind, creator: "eve" };
    await suppress(api.db, own, { ...again, note: "asked by phone" });
    expect(await shown(email)).toEqual([{ kind, since, note: "asked by phone", creator: "eve" }]);
    if (kind === "by-hand") return;
    await suppress(api.db, own, { ...again, note: "", creator: "" });
    expect(await shown(email)).toEqual([{ kind, since, note: "asked by phone", creator: "eve" }]);
  });
});

describe("an unsubscription that was brought in", () => {
  const mine = () => ({ instanceId: api.north.id });
  const kinds = async (text: string) =>
    (await listSuppressions(api.db, api.north.id, { text }, { limit: 50 })).entries.map(({ kind }) => kind);
  const bringIn = async (email: string) => {
    await api.north.call("POST", "/v1/contacto", { email });
    expect(await list(mine(), email, "unsubscribed")).toEqual({ ok: true, value: "added" });
    expect((await send([email])).sent).toBe(0);
  };

  test("can be taken back, and brought in again", async () => {
    await bringIn("back@left.test");
    expect(await unsuppress(api.db, mine(), "back@left.test", "unsubscribed")).toBe("removed");
    expect(await unsuppress(api.db, mine(), "back@left.test", "unsubscribed")).toBe("unknown");
    const { body } = await api.north.call("GET", "/v1/contacto/back@left.test");
    expect(body.contacto).toMatchObject({ campanias_desusc: [], operacion: "modificacion" });
    expect((await send(["back@left.test"])).sent).toBe(1);
    expect(await list(mine(), "back@left.test", "unsubscribed")).toEqual({ ok: true, value: "added" });
    expect((await send(["back@left.test"])).sent).toBe(0);
  });

  test("is the person's once the person has said it, before or after", async () => {
    await bringIn("all@left.test");
    await leave("all@left.test");
    expect(await unsuppress(api.db, mine(), "all@left.test", "unsubscribed")).toBe("own-unsubscription");
    expect(await unsuppress(api.db, mine(), "all@left.test")).toBe("own-unsubscription");
    await api.north.call("POST", "/v1/contacto", { email: "own@left.test" });
    await leave("own@left.test");
    const more = { target: target("own@left.test"), kind: "unsubscribed", note: "said again", creator: "" } as const;
    expect(await suppress(api.db, mine(), more)).toEqual({ ok: true, value: "changed" });
    expect(await unsuppress(api.db, mine(), "own@left.test", "unsubscribed")).toBe("own-unsubscription");
  });

  test("leaves what the person said of one campaign", async () => {
    await bringIn("one@left.test");
    await leave("one@left.test", "campaign");
    expect(await unsuppress(api.db, mine(), "one@left.test", "unsubscribed")).toBe("removed");
    expect(await kinds("one@left.test")).toEqual(["unsubscribed"]);
    expect((await send(["one@left.test"])).sent).toBe(0);
    expect(await unsuppress(api.db, mine(), "one@left.test", "unsubscribed")).toBe("own-unsubscription");
  });
});

describe("an export", () => {
  const text = async (owner: SuppressionOwner) => {
    let csv = "";
    for await (const lines of exportSuppressions(api.db, owner)) csv += lines;
    return csv;
  };
  const read = (owner: SuppressionOwner, csv: string, dryRun = false) =>
    importSuppressions(api.db, owner, Readable.from([csv]), { creator: "eve", dryRun, now: new Date() });

  test("brought in where it came from changes nothing and is refused in nothing", async () => {
    const own = { instanceId: api.north.id };
    await api.north.call("POST", "/v1/contacto", { email: "single@back.test" });
    await leave("single@back.test", "campaign");
    await api.north.call("POST", "/v1/contacto", { email: "both@back.test" });
    await api.north.call("GET", "/v1/invalidar/both@back.test");
    await api.north.call("PUT", "/v1/whitelist/both@back.test");
    const before = await listSuppressions(api.db, api.north.id, {}, { limit: 1_000 });
    const csv = await text(own);
    const told = await read(own, csv, true);
    expect(told).toMatchObject({ created: 0, rejected: 0, errors: [] });
    expect(told.updated).toBeGreaterThan(10);
    expect(await read(own, csv)).toEqual(told);
    expect(await listSuppressions(api.db, api.north.id, {}, { limit: 1_000 })).toEqual(before);
    expect(await text(own)).toBe(csv);
  });

  test("brought in elsewhere is refused where it is about one campaign, and says why", async () => {
    const csv = await text({ instanceId: api.north.id });
    const lines = csv
      .split("\r\n")
      .flatMap((line, index) => (/,unsubscribed,[^,]*,[^,]*,\d+,/.test(line) ? [index + 1] : []));
    expect(lines.length).toBeGreaterThan(0);
    for (const dryRun of [true, false]) {
      const { errors } = await read({ instanceId: api.south.id }, csv, dryRun);
      expect(errors.map(({ line, reason }) => [line, reason.message])).toEqual(
        lines.map((line) => [line, "only its person unsubscribes from one campaign: this cannot be brought in"]),
      );
    }
  });
});

test("a rehearsal tells what the import does", async () => {
  const own = { instanceId: api.north.id };
  for (const email of ["a@agree.test", "b@agree.test", "white@agree.test", "gone@agree.test"])
    await api.north.call("POST", "/v1/contacto", { email });
  await api.north.call("PUT", "/v1/whitelist/white@agree.test");
  await api.north.call("GET", "/v1/invalidar/gone@agree.test");
  await list(own, "row@agree.test", "invalid");
  const csv = `address,kind,since,note
a@agree.test,invalid,2020-01-02T03:04:05Z,old list
b@agree.test,unsubscribed,,
white@agree.test,invalid,,
white@agree.test,unsubscribed,,
gone@agree.test,complaint,,
row@agree.test,whitelist,,
row@agree.test,invalid,,
new@agree.test,whitelist,,
new@agree.test,complaint,,
a@agree.test,by-hand,,
a@agree.test,invalid,,
c@agree.test,invalid,,
c@agree.test,unsubscribed,,
`;
  // Behind a portion that is written for itself the same holds.
  const filler = Array.from({ length: 600 }, (_, index) => `f${index}@agree.test,by-hand,,\n`).join("");
  const whole = `${csv}${filler}c@agree.test,by-hand,,\nnew@agree.test,invalid,,\na@agree.test,complaint,,\n`;
  const read = (dryRun: boolean) =>
    importSuppressions(api.db, own, Readable.from([whole]), { creator: "ana", dryRun, now: new Date() });
  const told = await read(true);
  expect(told).toMatchObject({ created: 607, updated: 6, rejected: 3 });
  expect(told.errors.map(({ line, reason }) => `${line} ${reason.code}`)).toEqual([
    "4 suppression-whitelisted",
    "10 suppression-whitelisted",
    "616 suppression-whitelisted",
  ]);
  expect(await read(false)).toEqual(told);
});
