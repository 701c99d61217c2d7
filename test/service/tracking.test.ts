import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { storeTouches } from "../../services/operations/mail/tracking-events.ts";
import { EVENT_KINDS } from "../../services/store/mail/events/event-kinds.ts";
import { setInstanceSettings } from "../../services/store/mail/instances/instances.ts";
import { expectNoFailure } from "../support/hostile-http.ts";
import { eventually } from "../support/stack.ts";
import { BROWSER, startTestTracking, type TestDelivery, type TestTracking } from "../support/tracking.ts";

let tracking: TestTracking;

beforeAll(async () => {
  // What is delivered here was delivered a minute ago, unless a test says otherwise.
  tracking = await startTestTracking({ PALOMAR_MACHINE_SECONDS: "40" });
});
afterAll(async () => {
  await tracking.stop();
  expect(tracking.failures).toEqual([]);
});

const NO_READER = { device: "", deviceSubtypeId: null, userAgent: "test", network: "192.0.2.0" };
const IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Mobile/15E148";
const TARGET = "https://shop.example.org/offer?a=1&b=2#part";
const HTML = `<p><a href="${TARGET.replace("&", "&amp;")}">Offer</a></p>`;

/** Waits until so many events of the contact are stored. */
const stored = (delivery: TestDelivery, count: number) =>
  eventually(
    () => tracking.eventsOf(delivery),
    (events) => events.length >= count,
  );

describe("clicks", () => {
  test("lead to the stored target, and are stored", async () => {
    const ana = await tracking.deliver("ana@clicks.example.net", HTML);
    const answer = await tracking.get(ana.clicks[TARGET]!);
    expect(answer).toMatchObject({ status: 302, headers: { location: TARGET, "cache-control": "no-store" } });
    expect(answer.headers["referrer-policy"]).toBe("no-referrer");
    expect(answer.headers["set-cookie"]).toBeUndefined();
    expect(await stored(ana, 1)).toMatchObject([
      { kind: "clicked", machine: false, campaign_numid: tracking.campaign.numid, delivery_id: ana.id },
    ]);
  });

  test("lead nowhere else, whatever the request carries", async () => {
    const ana = await tracking.deliver("elsewhere@clicks.example.net", HTML);
    const evil = "https://evil.example.net/";
    const path = `${ana.clicks[TARGET]}?url=${evil}&pmt=x&next=${evil}`;
    const answer = await tracking.get(path, { Referer: evil, "X-Forwarded-Host": "evil.example.net" });
    expect(answer.headers.location).toBe(TARGET);
  });

  test("of a HEAD are answered alike and not stored", async () => {
    const ana = await tracking.deliver("head@clicks.example.net", HTML);
    expect((await tracking.call("HEAD", ana.clicks[TARGET]!)).headers.location).toBe(TARGET);
    await tracking.get(ana.clicks[TARGET]!);
    expect(await stored(ana, 1)).toHaveLength(1);
  });

  test("carry the recipient's values on", async () => {
    const target = "https://shop.example.org/?n=XYZNOMBREXYZ&e=XYZEMAILXYZ&x=XYZNADAXYZ";
    const ana = await tracking.deliver("ana@values.example.net", `<a href="${target}">x</a>`);
    expect((await tracking.get(ana.clicks[target]!)).headers.location).toBe(
      "https://shop.example.org/?n=Ana%20Mar%C3%ADa&e=ana@values.example.net&x=",
    );
  });

  test.each(["", "x", "%00", "../../etc/passwd", "A".repeat(4000), "<script>alert(1)</script>"])(
    "with token %j are refused without an echo",
    async (token) => {
      const answer = await tracking.get(`/c/${encodeURIComponent(token)}`);
      expect(answer.status).toBe(400);
      expect(answer.headers.location).toBeUndefined();
      expect(answer.headers["content-security-policy"]).toContain("default-src 'none'");
      if (token.length > 1) expect(answer.body.toString()).not.toContain(token);
    },
  );

  test("with a token of another kind are refused", async () => {
    const ana = await tracking.deliver("kind@clicks.example.net", HTML);
    expect((await tracking.get(ana.open.replace("/o/", "/c/"))).status).toBe(400);
    expect((await tracking.get(ana.clicks[TARGET]!.replace("/c/", "/u/"))).status).toBe(400);
  });

  test("on links of a message that is gone say so", async () => {
    const ana = await tracking.deliver("gone@clicks.example.net", HTML);
    await tracking.db("tracked_links").where({ message_id: ana.messageId }).delete();
    await tracking.restart();
    expect((await tracking.get(ana.clicks[TARGET]!)).status).toBe(410);
  });
});

describe("opens", () => {
  test("are stored, and answered with an image that nobody keeps", async () => {
    const ana = await tracking.deliver("ana@opens.example.net", HTML);
    const answer = await tracking.get(ana.open);
    expect(answer).toMatchObject({
      status: 200,
      headers: { "content-type": "image/gif", "cache-control": "no-store" },
    });
    expect(answer.body.subarray(0, 6).toString()).toBe("GIF89a");
    expect(await stored(ana, 1)).toMatchObject([{ kind: "viewed", machine: false }]);
  });

  test.each(["/o/unknown", "/o/", `/o/${"A".repeat(60)}`, "/v/unknown?ref=1", "/v/"])(
    "of %s get the image too",
    async (path) => {
      expect(await tracking.get(path)).toMatchObject({ status: 200, headers: { "content-type": "image/gif" } });
    },
  );

  test("tell device and kind of the contact, of people only", async () => {
    const ana = await tracking.deliver("device@opens.example.net", HTML);
    await tracking.get(ana.open, { "User-Agent": IPHONE });
    await tracking.get(ana.open, { "User-Agent": "Mozilla/5.0 (Windows NT 5.1) (via ggpht.com GoogleImageProxy)" });
    await stored(ana, 2);
    expect(await tracking.db("contacts").where({ id: ana.contactId }).first("device", "device_subtype_id")).toEqual({
      device: "movil",
      device_subtype_id: 12,
    });
  });
});

describe("machines are told from people", () => {
  test.each([
    ["Apple's proxy", { "User-Agent": "Mozilla/5.0" }],
    [
      "Gmail's proxy",
      { "User-Agent": "Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)" },
    ],
    ["a link scanner", { "User-Agent": "Mozilla/5.0 (compatible; Barracuda Sentinel (EE))" }],
    ["an HTTP library", { "User-Agent": "python-requests/2.32.3" }],
    [
      "a browser without a screen",
      { "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 HeadlessChrome/140.0.0.0 Safari/537.36" },
    ],
    ["who does not say what it is", { "User-Agent": "" }],
    ["a prefetching browser", { "Sec-Purpose": "prefetch;prerender" }],
    ["a scanner's network", { "X-Forwarded-For": "203.0.113.9, 67.231.144.7" }],
  ])("%s", async (name, headers) => {
    const ana = await tracking.deliver(`${name.replaceAll(/\W/g, "")}@machines.example.net`, HTML);
    await tracking.get(ana.open, headers);
    await tracking.get(ana.clicks[TARGET]!, headers);
    expect(await stored(ana, 2)).toMatchObject([
      { kind: "viewed", machine: true },
      { kind: "clicked", machine: true },
    ]);
  });

  test("who comes too soon", async () => {
    const ana = await tracking.deliver("soon@machines.example.net", HTML, { deliveredSecondsAgo: 0.5 });
    await tracking.get(ana.open);
    expect(await stored(ana, 1)).toMatchObject([{ machine: true, detail: { machine: "too-soon" } }]);
  });

  test("who follows every link within seconds; the counts follow", async () => {
    const links = [1, 2, 3, 4].map((n) => `https://shop.example.org/${n}`);
    const html = links.map((link) => `<a href="${link}">x</a>`).join("");
    const ana = await tracking.deliver("all@machines.example.net", html);
    const countsBefore = await clickCounts();
    for (const link of links) await tracking.get(ana.clicks[link]!);
    const events = await eventually(
      () => tracking.eventsOf(ana),
      (found) => found.length === 4 && found.every(({ machine }) => machine),
    );
    expect(events.map(({ detail }) => detail?.machine)).toEqual(Array(4).fill("all-links"));
    const counts = await clickCounts();
    expect([counts.people - countsBefore.people, counts.machines - countsBefore.machines]).toEqual([0, 4]);
  });

  test("who follows the few links of a message within a second", async () => {
    const links = [1, 2, 3].map((n) => `https://shop.example.org/${n}`);
    const html = links.map((link) => `<a href="${link}">x</a>`).join("");
    const scanned = await tracking.deliver("quick@machines.example.net", html);
    // Within a second, however busy the machine.
    const time = vi.spyOn(Date, "now").mockReturnValue(Date.now());
    await Promise.all(links.map((link) => tracking.get(scanned.clicks[link]!))).finally(() => time.mockRestore());
    await eventually(
      () => tracking.eventsOf(scanned),
      (found) => found.length === 3 && found.every(({ machine }) => machine),
    );
    const read = await tracking.deliver("slow@machines.example.net", html);
    for (const link of links) {
      await tracking.get(read.clicks[link]!);
      await sleep(700);
    }
    expect((await stored(read, 3)).map(({ machine }) => machine)).toEqual([false, false, false]);
  });

  test("who follows a link that no reader sees; a person afterwards counts", async () => {
    const html = `<a href="${TARGET}">x</a><div style="display:none"><a href="https://shop.example.org/trap">y</a></div>`;
    const ana = await tracking.deliver("trapped@machines.example.net", html);
    await tracking.get(ana.clicks["https://shop.example.org/trap"]!);
    await tracking.get(ana.clicks[TARGET]!);
    expect(await stored(ana, 2)).toMatchObject([
      { kind: "clicked", machine: true, detail: { machine: "hidden-link" } },
      { kind: "clicked", machine: false },
    ]);
  });

  test("who asks by HEAD first, which stores nothing; from elsewhere a person counts", async () => {
    const ana = await tracking.deliver("head@machines.example.net", HTML);
    await tracking.head(ana.clicks[TARGET]!);
    await tracking.get(ana.clicks[TARGET]!);
    await tracking.get(ana.clicks[TARGET]!, { "X-Forwarded-For": "198.51.100.7" });
    expect(await stored(ana, 2)).toMatchObject([
      { kind: "clicked", machine: true, detail: { machine: "head-first" } },
      { kind: "clicked", machine: false },
    ]);
  });

  test("who clicks first and opens then, within seconds; whoever opens again afterwards counts", async () => {
    const ana = await tracking.deliver("before@machines.example.net", HTML);
    await tracking.get(ana.clicks[TARGET]!);
    await tracking.get(ana.open);
    await eventually(
      () => tracking.eventsOf(ana),
      (events) => events.length === 2 && events.every(({ detail }) => detail?.machine === "click-first"),
    );
    await tracking.get(ana.open);
    await tracking.get(ana.clicks[TARGET]!);
    expect((await stored(ana, 4)).map(({ machine }) => machine)).toEqual([true, true, false, false]);
  });

  test("who follows every link leaves the contact as its owner was last seen; what a request does not tell stays", async () => {
    const links = [1, 2, 3, 4].map((n) => `https://shop.example.org/${n}`);
    const html = links.map((link) => `<a href="${link}">x</a>`).join("");
    const device = (delivery: TestDelivery) =>
      tracking.db("contacts").where({ id: delivery.contactId }).first("device", "device_subtype_id");
    const followAll = async (delivery: TestDelivery) => {
      for (const link of links) await tracking.get(delivery.clicks[link]!, { "User-Agent": BROWSER });
      await eventually(
        () => tracking.eventsOf(delivery),
        (events) => events.filter(({ machine }) => machine).length === 4,
      );
    };
    const ana = await tracking.deliver("owner@machines.example.net", html);
    await tracking.get(ana.open, { "User-Agent": IPHONE });
    await tracking.get(ana.clicks[links[0]!]!, { "User-Agent": "curl/8" });
    await stored(ana, 2);
    expect(await device(ana)).toEqual({ device: "movil", device_subtype_id: 12 });
    await tracking
      .db("events")
      .where({ delivery_id: ana.id })
      .update({ at: new Date(Date.now() - 60_000) });
    await tracking.db("events").where({ delivery_id: ana.id, kind: EVENT_KINDS.clicked }).delete();
    await followAll(ana);
    expect(await device(ana)).toEqual({ device: "movil", device_subtype_id: 12 });

    const nobody = await tracking.deliver("nobody@machines.example.net", html);
    await followAll(nobody);
    expect(await device(nobody)).toEqual({ device: "", device_subtype_id: null });
  });

  test("what a request does not tell stays also where both are stored at once", async () => {
    const ana = await tracking.deliver("once@machines.example.net", HTML);
    const open = { kind: "open", deliveryId: ana.id, atMs: Date.now() } as const;
    const place = { countryCode: "ES", regionCode: "MD", city: "Madrid" };
    const rule = { machineSeconds: 0, allLinks: [{ atLeast: 3, withinSeconds: 10 }], recall: () => NO_READER };
    await tracking.db.transaction((transaction) =>
      storeTouches(
        transaction,
        [
          { ...open, visitor: { ...NO_READER, device: "movil", deviceSubtypeId: 12, place } },
          { ...open, visitor: NO_READER },
          { ...open, visitor: { ...NO_READER, device: "pc" } },
          { ...open, visitor: NO_READER },
        ],
        rule,
      ),
    );
    const seen = ["device", "device_subtype_id", "country_code", "city"];
    expect(await tracking.db("contacts").where({ id: ana.contactId }).first(seen)).toEqual({
      device: "pc",
      device_subtype_id: null,
      country_code: "ES",
      city: "Madrid",
    });
  });

  test("who follows some of the links is a person", async () => {
    const links = [1, 2, 3, 4].map((n) => `https://shop.example.org/${n}`);
    const html = links.map((link) => `<a href="${link}">x</a>`).join("");
    const ana = await tracking.deliver("some@machines.example.net", html);
    for (const link of links.slice(1)) await tracking.get(ana.clicks[link]!);
    expect((await stored(ana, 3)).map(({ machine }) => machine)).toEqual([false, false, false]);
  });

  const clickCounts = async () => {
    const rows = await tracking.db("event_totals").where({ grain: "day" }).select("clicked", "machine_clicked");
    const sum = (column: string) => rows.reduce((total, row) => total + row[column], 0);
    return { people: sum("clicked"), machines: sum("machine_clicked") };
  };
});

describe("unsubscribing", () => {
  const isOff = async ({ contactId }: TestDelivery) =>
    tracking
      .db("campaign_unsubscriptions")
      .where({ contact_id: contactId })
      .orderBy("campaign_numid")
      .pluck("campaign_numid");

  test("by GET shows a page with the names and changes nothing", async () => {
    const ana = await tracking.deliver("get@off.example.net", HTML);
    const answer = await tracking.get(ana.unsubscribe, { "Accept-Language": "en" });
    expect(answer).toMatchObject({ status: 200, headers: { "content-language": "en", vary: "Accept-Language" } });
    const page = answer.body.toString();
    expect(page).toContain("north");
    expect(page).toContain("Spring &amp; &lt;sale&gt;");
    expect(page).not.toMatch(/<script|get@off\.example\.net/);
    expect(await isOff(ana)).toEqual([]);
  });

  test.each([
    ["en-GB,en;q=0.9", "en", "Unsubscribe"],
    ["es-AR", "es", "Cancelar suscripción"],
    ["en;q=0.1, es", "es", "Cancelar suscripción"],
    ["de", "es", "Cancelar suscripción"],
    ["", "es", "Cancelar suscripción"],
  ])("asks in the visitor's language: %s", async (accepted, language, label) => {
    const ana = await tracking.deliver("language@off.example.net", HTML);
    const answer = await tracking.get(ana.unsubscribe, { "Accept-Language": accepted });
    expect(answer.headers["content-language"]).toBe(language);
    expect(answer.body.toString()).toContain(label);
  });

  test.each([
    ["one click", "List-Unsubscribe=One-Click", "application/x-www-form-urlencoded"],
    [
      "one click, multipart",
      '--b\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--b--\r\n',
      "multipart/form-data; boundary=b",
    ],
    ["the page's button", "choice=campaign", "application/x-www-form-urlencoded"],
    ["nothing in the body", "", "application/x-www-form-urlencoded"],
  ])("by POST acts at once: %s", async (name, body, type) => {
    const ana = await tracking.deliver(`${name.replaceAll(/\W/g, "")}@off.example.net`, HTML);
    const answer = await tracking.call("POST", ana.unsubscribe, { body, headers: { "Content-Type": type } });
    expect(answer.status).toBe(200);
    expect(answer.headers["set-cookie"]).toBeUndefined();
    expect(await isOff(ana)).toEqual([tracking.campaign.numid]);
    expect(await tracking.eventsOf(ana)).toMatchObject([{ kind: "unsubscribed", delivery_id: ana.id }]);
    await tracking.call("POST", ana.unsubscribe, { body });
    expect(await tracking.eventsOf(ana)).toHaveLength(1);
  });

  test("from everything takes every campaign, and marks the contact", async () => {
    const other = await tracking.addCampaign("Other");
    const ana = await tracking.deliver("all@off.example.net", HTML);
    const answer = await tracking.call("POST", ana.unsubscribe, { body: "choice=instance" });
    expect(answer.body.toString()).toContain("No recibirá más mensajes de este remitente");
    expect(await isOff(ana)).toEqual([tracking.campaign.numid, other.numid]);
    const [event, ...more] = await tracking.eventsOf(ana);
    expect(event).toMatchObject({ kind: "unsubscribed", delivery_id: ana.id, detail: { reason: "all" } });
    expect(event).toMatchObject({ campaign_numid: tracking.campaign.numid });
    expect(more).toEqual([]);
    const contact = await tracking.db("contacts").where({ id: ana.contactId }).first();
    expect(contact).toMatchObject({ last_operation: "unsubscribed", unsubscribed_at: expect.any(Date) });
  });

  test("from everything is told of who has left the campaign before, once", async () => {
    const ana = await tracking.deliver("before@off.example.net", HTML);
    for (const choice of ["campaign", "instance", "instance", "campaign"]) {
      await tracking.call("POST", ana.unsubscribe, { body: `choice=${choice}` });
    }
    const events = await tracking.eventsOf(ana);
    expect(events.map(({ kind, detail }) => [kind, detail])).toEqual([
      ["unsubscribed", null],
      ["unsubscribed", { reason: "all" }],
    ]);
  });

  test.each(["stranger@off.example.net", "since@off.example.net"])(
    "counts for an address that only got a copy, a contact since then or not: %s",
    async (recipient) => {
      await tracking.deliver("since@off.example.net", HTML);
      const ana = await tracking.deliver("to@off.example.net", HTML);
      await tracking.db("deliveries").where({ id: ana.id }).update({ contact_id: null, role: "bcc", recipient });
      for (let i = 0; i < 2; i++) await tracking.call("POST", ana.unsubscribe, { body: "choice=campaign" });
      const contact = await tracking.db("contacts").where({ email: recipient }).first("id", "last_operation");
      expect(contact).toMatchObject({ last_operation: "unsubscribed" });
      const copy = { ...ana, contactId: contact.id };
      expect(await isOff(copy)).toEqual([tracking.campaign.numid]);
      expect(await tracking.eventsOf(copy)).toMatchObject([{ kind: "unsubscribed", delivery_id: ana.id }]);
      expect((await tracking.get(ana.unsubscribe)).body.toString()).toContain("Su suscripción ha sido cancelada");
      expect(await isOff(ana)).toEqual([]);
    },
  );

  test("from tracking keeps opens and clicks from being stored; links lead on", async () => {
    const ana = await tracking.deliver("untracked@off.example.net", HTML);
    await tracking.call("POST", ana.unsubscribe, { body: "choice=untracked" });
    expect((await tracking.get(ana.clicks[TARGET]!)).headers.location).toBe(TARGET);
    const other = await tracking.deliver("tracked@off.example.net", HTML);
    await tracking.get(other.open);
    await stored(other, 1);
    await tracking.call("POST", ana.unsubscribe, { body: "choice=tracked" });
    await tracking.get(ana.open);
    expect(await stored(ana, 1)).toMatchObject([{ kind: "viewed" }]);
    expect(await isOff(ana)).toEqual([]);
  });

  test("the next request on a connection is answered behind a form that is too large", async () => {
    const { unsubscribe } = await tracking.deliver("large@next.example.net", HTML);
    const { hostname, port } = new URL(tracking.url);
    const form = "x".repeat(300_000);
    const socket = connect(Number(port), hostname);
    socket.write(`POST ${unsubscribe} HTTP/1.1\r\nHost: t.test\r\nContent-Length: ${form.length}\r\n\r\n${form}`);
    socket.write("GET /robots.txt HTTP/1.1\r\nHost: t.test\r\nConnection: close\r\n\r\n");
    const heard = await text(socket);
    expect([...heard.matchAll(/^HTTP\/1\.1 (\d+) /gm)].map(([, status]) => status)).toEqual(["413", "200"]);
  });

  test("refuses what is no form", async () => {
    const ana = await tracking.deliver("large@off.example.net", HTML);
    expect((await tracking.call("POST", ana.unsubscribe, { body: "x".repeat(20_000) })).status).toBe(413);
    expect((await tracking.call("PUT", ana.unsubscribe)).status).toBe(405);
    expect((await tracking.call("POST", "/u/unknown", { body: "choice=campaign" })).status).toBe(400);
    expect(await isOff(ana)).toEqual([]);
  });
});

describe("conversions", () => {
  test("follow the last click, once for an order, where they are on", async () => {
    const ana = await tracking.deliver("ana@conversions.example.net", HTML);
    const second = await tracking.addCampaign("Second");
    const later = await tracking.deliver("ana@conversions.example.net", HTML, { campaignNumid: second.numid });
    expect((await tracking.get(ana.clicks[TARGET]!)).headers.location).toBe(TARGET);

    await setInstanceSettings(tracking.db, tracking.instance.id, { conversions: true });
    const location = await eventually(
      async () => (await tracking.get(ana.clicks[TARGET]!)).headers.location!,
      (found) => found !== TARGET,
    );
    const token = /^https:\/\/shop\.example\.org\/offer\?a=1&b=2&pmt=([\w-]+)#part$/.exec(location)?.[1];
    expect(`/v/${token}`).toBe(ana.conversion);

    await tracking.get(later.clicks[TARGET]!);
    expect((await tracking.get(`/v/${token}?ref=order-1`)).headers["content-type"]).toBe("image/gif");
    await tracking.get(`${later.conversion}?ref=order-1`);
    await tracking.call("HEAD", `/v/${token}?ref=order-2`);
    await tracking.get(`/v/${token}`);
    await tracking.get(ana.open);
    const events = await eventually(
      () => tracking.eventsOf(ana),
      (found) => found.at(-1)?.kind === "viewed",
    );
    expect(events.filter(({ kind }) => kind === "converted")).toMatchObject([
      { campaign_numid: second.numid, delivery_id: later.id, detail: { reference: "order-1" } },
    ]);

    await tracking.call("POST", ana.unsubscribe, { body: "choice=untracked" });
    await tracking.get(`/v/${token}?ref=order-3`);
    const other = await tracking.deliver("other@conversions.example.net", HTML);
    await tracking.get(other.open);
    await stored(other, 1);
    expect((await tracking.eventsOf(ana)).filter(({ kind }) => kind === "converted")).toHaveLength(1);
    await setInstanceSettings(tracking.db, tracking.instance.id, { conversions: false });
    await eventually(
      async () => (await tracking.get(ana.clicks[TARGET]!)).headers.location,
      (found) => found === TARGET,
    );
  });
});

describe("the database", () => {
  test("may be away: links lead on, opens count, unsubscribing works, and all of it arrives afterwards, once", async () => {
    const ana = await tracking.deliver("ana@outage.example.net", HTML);
    const unseen = await tracking.deliver("unseen@outage.example.net", HTML);
    await tracking.linksLearnt();
    await tracking.gate.shut();
    try {
      for (const delivery of [ana, unseen]) {
        expect((await tracking.get(delivery.clicks[TARGET]!)).headers.location).toBe(TARGET);
        expect((await tracking.get(delivery.open)).status).toBe(200);
      }
      const page = await tracking.get(ana.unsubscribe);
      expect(page).toMatchObject({ status: 200 });
      expect(page.body.toString()).toContain("<form");
      expect((await tracking.call("POST", ana.unsubscribe, { body: "List-Unsubscribe=One-Click" })).status).toBe(200);
    } finally {
      await tracking.gate.open();
    }
    expect((await stored(ana, 3)).map(({ kind }) => kind)).toEqual(["clicked", "viewed", "unsubscribed"]);
    expect((await stored(unseen, 2)).map(({ kind }) => kind)).toEqual(["clicked", "viewed"]);
    await tracking.restart();
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(await tracking.eventsOf(ana)).toHaveLength(3);
  });
});

describe("strangers", () => {
  test.each(["/", "/x/1", "/c", "/o/a/b", "//o/a", "/%zz"])("who ask for %s get a page of ours", async (path) => {
    const answer = await tracking.get(path);
    expect(answer.status).toBe(404);
    expect(answer.headers["content-security-policy"]).toContain("default-src 'none'");
  });

  test("who guess tokens have to wait, from where limits hold", async () => {
    const limited = await startTestTracking({ PALOMAR_LIMIT_LOOPBACK: "true" });
    try {
      const statuses: number[] = [];
      for (let i = 0; i < 40; i++) statuses.push((await limited.get("/c/guess")).status);
      expect(new Set(statuses)).toEqual(new Set([400, 429]));
      const ana = await limited.deliver("ana@limits.example.net", HTML);
      expect((await limited.get(ana.clicks[TARGET]!)).status).toBe(302);
      expect((await limited.get("/o/guess")).status).toBe(200);
    } finally {
      await limited.stop();
    }
  });
});

test("what tries to confuse it, or who stands before it, is answered as nothing worse than a refusal", async () => {
  const ana = await tracking.deliver("hostile@clicks.example.net", HTML);
  const paths = [ana.clicks[TARGET]!, "/o/x", "/u/x", "/v/x", "/r/x", "/.well-known/mta-sts.txt"];
  await expectNoFailure(tracking.url, paths);
});
