import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseSuppressionTarget } from "../../services/core/mail/suppression.ts";
import { eraseAddress } from "../../services/operations/mail/contact-erasure.ts";
import { importSuppressions } from "../../services/operations/mail/suppression-import.ts";
import {
  type AddedKind,
  exportSuppressions,
  suppress,
  unsuppress,
} from "../../services/operations/mail/suppressions.ts";
import {
  isSuppressionCursor,
  listGlobalSuppressions,
  listSuppressions,
} from "../../services/store/mail/contacts/suppression-list.ts";
import { findSuppressed, type SuppressionOwner } from "../../services/store/mail/contacts/suppressions.ts";
import { startMailApi, type TestMailApi } from "../support/mail-api.ts";
import { makeCampaign, sendTo, target, unsubscribe } from "../support/suppressions.ts";

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
const leave = (email: string) => unsubscribe(api, { campaign, email });

describe("a target", () => {
  test.each([
    ["a@Example.ORG", "a@example.org", false],
    [" A.b@bücher.test ", "A.b@xn--bcher-kva.test", false],
    ["example.net", "@example.net", true],
    ["@EXAMPLE.net", "@example.net", true],
    ["bücher.test", "@xn--bcher-kva.test", true],
  ])("%s is kept as %s", (given, key, isDomain) => {
    expect(parseSuppressionTarget(given)).toMatchObject({ ok: true, value: { key, isDomain } });
  });

  test.each(["", "@", "a@", "a@b@c.org", "localhost", "a b@example.org", "@a@b.org", "x".repeat(300)])(
    "%s is none",
    (given) => expect(parseSuppressionTarget(given).ok).toBe(false),
  );
});

describe("who is listed gets nothing, and `unknown` stands for it", () => {
  test("an address and a domain of the instance, a contact or not, a recipient or a copy", async () => {
    const mine = { instanceId: api.north.id };
    await list(mine, "stop@example.net");
    await list(mine, "gone.test");
    expect(await send(["stop@example.net", "x@gone.test", "x@sub.gone.test", "y@example.net"])).toEqual({
      sent: 2,
      events: ["stop@example.net unknown", "x@gone.test unknown", "x@sub.gone.test envio", "y@example.net envio"],
    });
    expect(await send(["y@example.net"], ["copy@gone.test", "other@example.net", "x@gone.test"])).toEqual({
      sent: 2,
      events: ["copy@gone.test unknown", "other@example.net envio", "x@gone.test unknown", "y@example.net envio"],
    });
    const events = await api.db("events").where({ kind: 9 }).select("detail");
    expect(new Set(events.map(({ detail }) => detail.reason))).toEqual(new Set(["suppressed"]));
  });

  test("another instance mails them, and sees nothing of the list", async () => {
    const other = await makeCampaign(api.south);
    const answer = await api.south.call("POST", "/v1/envio/send_one_inline/", {
      ...{ campana_id: other, email: true, html: "x", contacto: { email: "stop@example.net" } },
    });
    expect(answer.body.sent).toBe(1);
    expect((await listSuppressions(api.db, api.south.id, {}, { limit: 10 })).entries).toEqual([]);
  });

  test("the operator's hold for all, and stand in no instance's list", async () => {
    await list("operator", "trap.test");
    await list("operator", "trap@example.net");
    expect((await send(["a@trap.test", "trap@example.net"])).sent).toBe(0);
    const { entries } = await listSuppressions(api.db, api.north.id, { text: "trap" }, { limit: 10 });
    expect(entries).toEqual([]);
    expect(await listGlobalSuppressions(api.db, {}, { limit: 10 })).toMatchObject({
      entries: [{ target: "@trap.test" }, { target: "trap@example.net" }],
    });
    expect(await unsuppress(api.db, { instanceId: api.north.id }, "@trap.test")).toBe("unknown");
    expect(await unsuppress(api.db, "operator", "@trap.test")).toBe("removed");
    expect((await send(["a@trap.test"])).sent).toBe(1);
  });

  test("and is mailed again when taken off", async () => {
    expect(await unsuppress(api.db, { instanceId: api.north.id }, "@gone.test", "by-hand")).toBe("removed");
    expect(await unsuppress(api.db, { instanceId: api.north.id }, "@gone.test")).toBe("unknown");
    expect((await send(["x@gone.test"])).sent).toBe(1);
  });
});

test("the operations of the API and the list tell one truth", async () => {
  const mine = { instanceId: api.north.id };
  const kinds = async (text: string) =>
    (await listSuppressions(api.db, api.north.id, { text }, { limit: 50 })).entries.map(({ kind }) => kind);
  await api.north.call("POST", "/v1/contacto", { email: "one@truth.test" });
  await api.north.call("GET", "/v1/invalidar/one@truth.test");
  const [entry] = (await listSuppressions(api.db, api.north.id, { text: "ONE@truth" }, { limit: 5 })).entries;
  expect(entry).toMatchObject({
    ...{ kind: "invalid", target: "one@truth.test", cause: { event: "invalidated", detail: { reason: "request" } } },
  });
  expect(entry!.since).toBeInstanceOf(Date);
  expect(await unsuppress(api.db, mine, "one@truth.test", "invalid")).toBe("removed");
  const read = async () => (await api.north.call("GET", "/v1/contacto/one@truth.test")).body.contacto;
  expect(await read()).toMatchObject({ invalido: false, operacion: "revalidacion" });

  await api.north.call("PUT", "/v1/whitelist/one@truth.test");
  expect(await kinds("one@truth.test")).toEqual(["whitelist"]);
  expect(await list(mine, "one@truth.test", "invalid")).toMatchObject({ ok: false });
  expect(await unsuppress(api.db, mine, "one@truth.test", "whitelist")).toBe("removed");
  expect((await api.north.call("GET", "/v1/whitelist/one@truth.test")).body.msg).toMatch(/not whitelisted/);

  // A contact's validity is the contact's; what is no contact yet has a row, which revalidation takes back.
  await list(mine, "one@truth.test", "complaint");
  expect(await read()).toMatchObject({ invalido: true });
  expect(await kinds("one@truth.test")).toEqual(["complaint"]);
  await list(mine, "later@truth.test", "invalid");
  expect((await send(["later@truth.test"])).sent).toBe(0);
  await api.north.call("GET", "/v1/revalidar/later@truth.test");
  expect((await send(["later@truth.test"])).sent).toBe(1);

  await list(mine, "later@truth.test", "unsubscribed");
  expect((await send(["later@truth.test"])).events).toEqual([]);
  expect(await kinds("later@truth.test")).toEqual(["unsubscribed"]);
  await leave("later@truth.test");
  expect(await unsuppress(api.db, mine, "later@truth.test", "unsubscribed")).toBe("own-unsubscription");
});

test("what is taken off without its kind is taken off wherever it is kept", async () => {
  const mine = { instanceId: api.north.id };
  const kinds = async (text: string) =>
    (await listSuppressions(api.db, api.north.id, { text }, { limit: 50 })).entries.map(({ kind }) => kind);
  await list(mine, "white@all.test", "whitelist");
  expect(await unsuppress(api.db, mine, "white@all.test")).toBe("removed");
  expect(await unsuppress(api.db, mine, "white@all.test")).toBe("unknown");

  await api.north.call("POST", "/v1/contacto", { email: "much@all.test" });
  await api.north.call("GET", "/v1/invalidar/much@all.test");
  await list(mine, "much@all.test", "whitelist");
  await list(mine, "much@all.test", "by-hand");
  await list(mine, "much@all.test", "unsubscribed");
  expect((await kinds("much@all.test")).sort()).toEqual(["by-hand", "invalid", "unsubscribed", "whitelist"]);
  expect(await unsuppress(api.db, mine, "much@all.test")).toBe("removed");
  expect(await kinds("much@all.test")).toEqual([]);
  await leave("much@all.test");
  await list(mine, "much@all.test", "invalid");
  expect(await unsuppress(api.db, mine, "much@all.test")).toBe("removed");
  expect(await kinds("much@all.test")).toEqual(["unsubscribed"]);
  expect(await unsuppress(api.db, mine, "much@all.test")).toBe("own-unsubscription");
});

test("pages go through every source once, whatever their size", async () => {
  const mine = { instanceId: api.south.id };
  for (const name of ["a", "b", "c"]) {
    await list(mine, `${name}@page.test`);
    await list(mine, `w${name}@page.test`, "whitelist");
    await api.south.call("POST", "/v1/contacto", { email: `i${name}@page.test`, invalido: true });
    await api.south.call("POST", "/v1/contacto", { email: `u${name}@page.test` });
    await list(mine, `u${name}@page.test`, "unsubscribed");
  }
  const whole = (await listSuppressions(api.db, api.south.id, {}, { limit: 100 })).entries;
  expect(whole).toHaveLength(12);
  for (const limit of [1, 2, 3, 5, 11, 12]) {
    const seen = [];
    for (let after: string | undefined; ; ) {
      const { entries, next } = await listSuppressions(api.db, api.south.id, {}, { after, limit });
      expect(entries.length).toBeLessThanOrEqual(limit);
      seen.push(...entries);
      if (next === undefined) break;
      expect(isSuppressionCursor(next), next).toBe(true);
      after = next;
    }
    expect(seen, `in pages of ${limit}`).toEqual(whole);
  }
  expect((await listSuppressions(api.db, api.south.id, { kind: "whitelist" }, { limit: 9 })).entries).toHaveLength(3);
  for (const hostile of ["invalid:x", "x:1", "campaign:1", "campaign:1-x", "invalid:99999999999999999999", "kept:\0"]) {
    expect(isSuppressionCursor(hostile), hostile).toBe(false);
  }
});

test("what was exported can be read back, and wrong lines do not stop good ones", async () => {
  let text = "";
  for await (const lines of exportSuppressions(api.db, { instanceId: api.south.id })) text += lines;
  const away = { instanceId: api.north.id };
  const read = (csv: string, dryRun = false) =>
    importSuppressions(api.db, away, Readable.from([csv]), { creator: "ana", dryRun, now: new Date() });
  expect(await read(text, true)).toMatchObject({ created: 12, updated: 0, rejected: 0 });
  expect(await read(text)).toMatchObject({ created: 12, updated: 0, rejected: 0 });
  expect(await read(text)).toMatchObject({ created: 0, updated: 12, rejected: 0 });
  const report = await read(
    "email,kind,since,note,campaign\r\n" +
      '@bulk.test,,2020-01-02T03:04:05Z,"old, list",\r\nnot an address,,,,\r\nz@bulk.test,strange,,,\r\n' +
      "z@bulk.test,unsubscribed,,,7\r\nz@bulk.test,by-hand,yesterday,,\r\nz@bulk.test,by-hand,2020-02-30,,\r\n@bulk.test,invalid,,,\r\nz@bulk.test,,,,,more\r\n",
  );
  expect(report).toMatchObject({ created: 1, updated: 0, rejected: 7 });
  expect(report.errors.map(({ line }) => line)).toEqual([3, 4, 5, 6, 7, 8, 9]);
  const [kept] = (await listSuppressions(api.db, api.north.id, { text: "any@bulk.test" }, { limit: 5 })).entries;
  expect(kept).toMatchObject({ target: "@bulk.test", note: "old, list", since: new Date("2020-01-02T03:04:05Z") });
});

describe("of two reasons to list an address", () => {
  const owners = () => [{ instanceId: api.north.id }, "operator"] as const;
  const read = (owner: SuppressionOwner, csv: string, dryRun = false) =>
    importSuppressions(api.db, owner, Readable.from([csv]), { creator: "ana", dryRun, now: new Date() });
  const listed = async (owner: SuppressionOwner, text: string) => {
    const page = { limit: 5 };
    const { entries } =
      owner === "operator"
        ? await listGlobalSuppressions(api.db, { text }, page)
        : await listSuppressions(api.db, owner.instanceId, { text }, page);
    return entries.map(({ kind, note }) => `${kind} ${note}`.trim());
  };

  // The later one, unless revalidation takes it off and not the earlier one.
  test.each([
    ["unsubscribed", "invalid", "unsubscribed"],
    ["unsubscribed", "complaint", "unsubscribed"],
    ["unsubscribed", "by-hand", "unsubscribed"],
    ["by-hand", "invalid", "by-hand"],
    ["by-hand", "complaint", "by-hand"],
    ["by-hand", "unsubscribed", "unsubscribed"],
    ["complaint", "invalid", "complaint"],
    ["complaint", "by-hand", "by-hand"],
    ["complaint", "unsubscribed", "unsubscribed"],
    ["invalid", "complaint", "complaint"],
    ["invalid", "by-hand", "by-hand"],
    ["invalid", "unsubscribed", "unsubscribed"],
  ])("%s, then %s: it stays %s", async (first, second, kind) => {
    const words = kind === first ? "one" : "two";
    for (const owner of owners()) {
      const address = `${first}-${second}@rank.test`;
      const one = `address,kind,note\n${address},${first},one\n`;
      expect(await read(owner, one)).toMatchObject({ created: 1, updated: 0, rejected: 0 });
      const two = `address,kind,note\n${address},${second},two\n`;
      expect(await read(owner, two)).toMatchObject({ created: 0, updated: 1, rejected: 0 });
      expect(await listed(owner, address)).toEqual([`${kind} ${words}`]);
      // Both in one file.
      const both = `address,kind,note\nx${address},${first},one\nx${address},${second},two\n`;
      expect(await read(owner, both, true)).toMatchObject({ created: 1, updated: 1, rejected: 0 });
      expect(await read(owner, both)).toMatchObject({ created: 1, updated: 1, rejected: 0 });
      expect(await listed(owner, `x${address}`)).toEqual([`${kind} ${words}`]);
    }
  });

  test("the same one again has new words", async () => {
    for (const owner of owners()) {
      const csv = "address,kind,note\nagain@rank.test,unsubscribed,one\nagain@rank.test,unsubscribed,two\n";
      expect(await read(owner, csv)).toMatchObject({ created: 1, updated: 1 });
      expect(await listed(owner, "again@rank.test")).toEqual(["unsubscribed two"]);
    }
  });

  test("who unsubscribed is not mailed after a revalidation of what bounced", async () => {
    await read({ instanceId: api.north.id }, "address,kind\nleft@rank.test,unsubscribed\n");
    await read({ instanceId: api.north.id }, "address,kind\nleft@rank.test,invalid\n");
    await api.north.call("POST", "/v1/contacto", { email: "left@rank.test" });
    await api.north.call("GET", "/v1/revalidar/left@rank.test");
    expect((await send(["left@rank.test"])).sent).toBe(0);
  });
});

test("a rehearsal of an import refuses what the import refuses", async () => {
  const csv = "address,kind\n@unfit.test,invalid\n@unfit.test,whitelist\nfit@unfit.test,whitelist\n@unfit.test,\n";
  for (const owner of [{ instanceId: api.north.id }, "operator"] as const) {
    const [tried, done] = [true, false].map(
      (dryRun) => () =>
        importSuppressions(api.db, owner, Readable.from([csv]), { creator: "ana", dryRun, now: new Date() }),
    );
    const told = await tried!();
    expect(told.errors.map(({ line, reason }) => `${line} ${reason.code}`)).toEqual(
      [2, 3, ...(owner === "operator" ? [4] : [])].map((line) => `${line} suppression-kind-unfit`),
    );
    expect(await done!()).toEqual(told);
  }
});

describe("an erasure", () => {
  const gone = (email: string, options = {}) => eraseAddress(api.db, api.north.id, asAddress(email), options);
  const asAddress = (email: string) => {
    const [local = "", asciiDomain = ""] = email.split("@");
    return {
      ...{ local, asciiDomain, domain: asciiDomain, text: email, asGiven: email, key: email, needsSmtputf8: false },
    };
  };

  test("an import says what is wrong with a line in one language", async () => {
    const rows = [
      "a@words.test,nothing,",
      "\uFFFD@words.test,,",
      "b@words.test,,,x",
      ",by-hand,",
      "words.test,invalid,",
    ];
    const { errors } = await importSuppressions(
      api.db,
      { instanceId: api.north.id },
      Readable.from([["address,kind,note", ...rows].join("\n")]),
      {
        ...{ creator: "ana", dryRun: false, now: new Date() },
      },
    );
    expect(errors.map(({ line, reason }) => `${line}: ${reason.message}`)).toEqual([
      "2: kind is not valid",
      "3: the line is not text in UTF-8",
      "4: the line has more columns than the header",
      "5: address is missing",
      "6: this cannot be listed as invalid",
    ]);
    const wide = Readable.from([`address${",".repeat(10_000)}\na@words.test\n`]);
    const options = { creator: "ana", dryRun: false, now: new Date() };
    const refused = await importSuppressions(api.db, { instanceId: api.north.id }, wide, options);
    expect(refused).toMatchObject({ created: 0, errors: [{ line: 1 }] });
    expect(refused.errors[0]!.reason.message).toBe("the file has more than 10000 columns");
  });

  test("of somebody who had objected keeps a digest, which no import or send gets around", async () => {
    await api.north.call("POST", "/v1/contacto", { email: "objector@erased.test" });
    await list({ instanceId: api.north.id }, "objector@erased.test", "unsubscribed");
    await gone("objector@erased.test");
    const rows = await api.db("suppressions").where({ kind: "erased" });
    expect(rows).toHaveLength(1);
    expect(JSON.stringify(rows)).not.toContain("objector");
    expect((await send(["objector@erased.test"])).sent).toBe(0);
    const found = (text: string) => listSuppressions(api.db, api.north.id, { text, kind: "erased" }, { limit: 5 });
    expect((await found("objector@Erased.test")).entries).toMatchObject([{ kind: "erased", target: null }]);
    expect((await found("objector")).entries).toEqual([]);
    // The digest is one of the instance and the address: elsewhere the same address is nobody's.
    expect(await findSuppressed(api.db, api.south.id, ["objector@erased.test"])).toEqual(new Set());
    expect(await unsuppress(api.db, { instanceId: api.north.id }, "objector@erased.test")).toBe("removed");
    expect((await send(["objector@erased.test"])).sent).toBe(1);
  });

  test("of anybody else leaves nothing, unless it is wished", async () => {
    await api.north.call("POST", "/v1/contacto", { email: "plain@erased.test" });
    await gone("plain@erased.test");
    expect(await findSuppressed(api.db, api.north.id, ["plain@erased.test"])).toEqual(new Set());
    await gone("plain@erased.test", { keepOut: true });
    expect(await findSuppressed(api.db, api.north.id, ["plain@erased.test"])).toEqual(new Set(["plain@erased.test"]));
  });

  test("of a listed address takes its row along", async () => {
    await list({ instanceId: api.north.id }, "listed@erased.test");
    expect(await gone("listed@erased.test")).toMatchObject({ suppressed: true });
    const rows = await api.db("suppressions").where({ instance_id: api.north.id });
    expect(JSON.stringify(rows)).not.toContain("listed@erased.test");
    expect((await send(["listed@erased.test"])).sent).toBe(0);
  });
});
