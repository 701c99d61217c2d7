import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { makeZone, type RunningApi, startApiWithCompany, zoneFields } from "../support/dns-api.ts";

let api: RunningApi;
let zone: string;

beforeAll(async () => {
  api = await startApiWithCompany();
});
afterAll(() => api.stop());
beforeEach(async () => {
  zone = await makeZone(api);
});

const put = (text: string | Buffer) => api.call("PUT", `/api/v1/zone_file/${zone}`, text);
const get = () => api.call("GET", `/api/v1/zone_file/${zone}`);
const history = async (query = "") => (await api.call("GET", `/api/v1/zone_history/${zone}${query}`)).body.history;
const add = (name: string, value = "192.0.2.1") => api.call("POST", `/api/v1/rr/${zone}`, { name, type: "A", value });

describe("a zone file", () => {
  test("comes out as text/dns and goes in again", async () => {
    await add("www");
    const out = await get();
    expect(out.status).toBe(200);
    expect(out.headers["content-type"]).toMatch(/^text\/dns/);
    expect(out.text).toContain("www\t3600\tIN\tA\t192.0.2.1");
    const back = await put(out.text);
    expect(back.body).toEqual({ serial: 3, records: 2 });
    expect((await get()).text).toBe(out.text.replace(/ 2 7200/, " 3 7200"));
  });

  test("meant for a serial that the zone no longer has is refused", async () => {
    const previewed = async (body: unknown) =>
      (await api.call("POST", `/api/v1/zone_preview/${zone}`, body)).body as Record<string, unknown>;
    const { text } = await get();
    const file = `${text}www A 192.0.2.1\n`;
    const batch = { create: [{ name: "www", type: "A", value: "192.0.2.1" }] };
    for (const change of [file, batch]) expect(await previewed(change)).toMatchObject({ at_serial: 1, serial: 2 });
    expect(await previewed(text)).toMatchObject({ at_serial: 1, added: [] });
    await add("certbot");
    const putAt = (serial: unknown) => api.call("PUT", `/api/v1/zone_file/${zone}?serial=${serial}`, file);
    expect(await putAt(1)).toMatchObject({ status: 409, body: { msg: expect.stringContaining("serial is 2") } });
    expect((await get()).text).toContain("certbot");
    expect((await putAt("x")).status).toBe(400);
    expect(await putAt((await previewed(file)).at_serial)).toMatchObject({
      status: 200,
      body: { serial: 3, records: 2 },
    });
    expect((await get()).text).not.toContain("certbot");
  });

  test("of a zone that is signed elsewhere is told from a change that makes the signature of its SOA void", async () => {
    const signature = `@ RRSIG SOA 13 3 3600 20990101000000 20260101000000 1 ${zone}. ${"A".repeat(86)}==\n`;
    const signed = (await get()).text.replace(/ 1 7200/, " 10 7200") + signature;
    const path = (operation: string) => `/api/v1/${operation}/${zone}`;
    const said = (serial: number) => ({
      status: 200,
      body: {
        warnings: [
          expect.stringMatching(`${zone}. is signed elsewhere, and its serial is ${serial} now: .*with a serial ahead`),
        ],
      },
    });
    const silent = (body: object) => ({ status: 200, body });
    expect(await put(signed)).toEqual(expect.objectContaining(silent({ serial: 10, records: 2 })));
    expect(await api.call("POST", path("zone_preview"), signed)).toMatchObject(said(11));
    expect(await put(signed)).toMatchObject(said(11));
    expect(await add("www")).toMatchObject(said(12));
    const more = { create: [{ name: "mail", type: "A", value: "192.0.2.2" }] };
    expect(await api.call("POST", path("zone_preview"), more)).toMatchObject(said(13));
    expect(await api.call("POST", `${path("rr")}/batch`, more)).toMatchObject(said(13));
    const soa = `/api/v1/update_soa/acme/${zone}/ns1.example.net/hostmaster.example.net/14/1/1/1/1/1`;
    expect(await api.call("POST", soa)).toMatchObject(said(14));
    expect(await api.call("POST", path("zone_rollback"), { serial: 10 })).toMatchObject(said(15));
    const anew = signed.replace(/ 10 7200/, " 16 7200");
    expect((await put(anew)).body).toEqual({ serial: 16, records: 2 });
    const { rr } = (await api.call("GET", path("rr"))).body;
    const { rr_id } = rr.find(({ type }: { type: string }) => type === "RRSIG");
    expect((await api.call("DELETE", `${path("rr")}/${rr_id}`)).body).toEqual({ msg: "deleted", serial: 17 });
  });

  test("with a ZONEMD is warned of once the serial is another, and when it is signed here", async () => {
    const digest = (serial: number) => `@ ZONEMD ${serial} 1 1 ${"AB".repeat(48)}\n`;
    const { text } = await get();
    const file = (soa: number, zonemd = soa) => text.replace(/ 1 7200/, ` ${soa} 7200`) + digest(zonemd);
    const path = (operation: string) => `/api/v1/${operation}/${zone}`;
    const outdated = (serial: number) => [
      expect.stringContaining(`not of the zone as it is now, with the serial ${serial}:`),
    ];
    expect((await put(file(10))).body).toEqual({ serial: 10, records: 2 });
    expect((await put(file(11, 10))).body.warnings).toEqual(outdated(11));
    expect((await put(file(11))).body.warnings).toEqual(outdated(12));
    expect((await add("www")).body.warnings).toEqual(outdated(13));
    const soa = `/api/v1/update_soa/acme/${zone}/ns1.example.net/hostmaster.example.net/14/1/1/1/1/1`;
    expect((await api.call("POST", soa)).body.warnings).toEqual(outdated(14));
    expect((await api.call("POST", path("zone_rollback"), { serial: 10 })).body.warnings).toEqual(outdated(15));
    expect((await put(file(16))).body.warnings).toBeUndefined();
    const ofSigned = [expect.stringContaining(`${zone}. is signed here`)];
    expect((await api.call("PUT", path("dnssec"), { enabled: true })).body.warnings).toEqual(ofSigned);
    expect((await add("mail")).body.warnings).toEqual(ofSigned);
    expect((await put(file(99))).body.warnings).toEqual(ofSigned);
    expect((await put(text)).body.warnings).toBeUndefined();
  });

  test("gives the same octets in a newly made zone", async () => {
    for (const name of ["a", "b", "c"]) await add(name);
    const out = (await get()).text;
    await api.call("DELETE", `/api/v1/master_zone/${zone}`);
    await api.call("POST", `/api/v1/master_zone/${zone}`, zoneFields({ mname: "other.example.net", ttl: 5 }));
    expect((await put(out)).body.serial).toBe(4);
    expect((await get()).text).toBe(out);
  });

  test("replaces all records, and the SOA when it has one", async () => {
    await add("old");
    const text = `$TTL 600
@ IN SOA ns9 admin.example.net. 50 1 2 3 4
  NS ns9
ns9 A 192.0.2.9 ; comment
txt 60 TXT "a" b
`;
    const { status, body } = await put(text);
    expect(status).toBe(200);
    expect(body).toMatchObject({ serial: 50, records: 3 });
    const soa = (await api.call("GET", `/api/v1/soa/${zone}`)).body;
    expect(soa).toMatchObject({ mname: `ns9.${zone}`, rname: "admin.example.net", serial: 50, refresh: 1, ttl: 600 });
    const { rr } = (await api.call("GET", `/api/v1/rr/${zone}`)).body;
    expect(rr.map(({ name, type, ttl, value }: Record<string, unknown>) => [name, type, ttl, value])).toEqual([
      ["@", "NS", 600, `ns9.${zone}.`],
      ["ns9", "A", 600, "192.0.2.9"],
      ["txt", "TXT", 60, '"a" "b"'],
    ]);
    expect((await put("@ NS ns1.example.net.\n")).body).toMatchObject({ serial: 51, records: 1 });
    expect((await put(text)).body.serial).toBe(52);
  });

  test("keeps the ids of records that stay", async () => {
    const { rr_id } = (await add("www")).body;
    await put(`@ NS ns1.example.net.\nwww A 192.0.2.1\nnew A 192.0.2.2\n`);
    const { rr } = (await api.call("GET", `/api/v1/rr/${zone}`)).body;
    expect(rr.find(({ name }: { name: string }) => name === "www").rr_id).toBe(rr_id);
  });

  test("counts a record that stands twice once, with a warning", async () => {
    const { body } = await put("@ NS ns1.example.net.\nwww 60 A 192.0.2.1\nwww 90 A 192.0.2.1\n");
    expect(body).toMatchObject({ records: 2, warnings: [expect.stringContaining("line 3")] });
  });

  test.each([
    ["@ NS ns1.example.net.\nwww A 192.0.2.300\n", /^line 2, column 7: /],
    ["@ NS ns1.example.net.\n$INCLUDE /etc/passwd\n", /^line 2, column 1: /],
    ["@ NS ns1.example.net.\nwww NOSUCH x\n", /^line 2, column \d+: /],
    ["@ NS ns1.example.net.\nwww A 192.0.2.1\nwww CNAME x\n", /^line \d+, column \d+: .*CNAME/],
    ["@ NS ns1.example.net.\nwww.example.net. A 192.0.2.1\n", /^line 2, column \d+: /],
    ['@ NS ns1.example.net.\nt TXT "unended\n', /^line 2, column \d+: /],
    ["@ NS ns1.example.net. (\n", /^line \d+, column \d+: /],
    [`@ NS ns1.example.net.\nt TXT "${"x".repeat(256)}"\n`, /^line 2, column \d+: /],
    ["www A 192.0.2.1\n", /NS/],
    ["", /NS/],
    ["@ SOA bad_name.example.net. h.example.net. 9 1 1 1 1\n@ NS ns1.example.net.\n", /mname/],
    ["@ SOA ns1.example.net. h.example.net. 9 4294967295 1 1 1\n@ NS ns1.example.net.\n", /refresh/],
  ])("is refused whole with the place of the fault: %j", async (text, msg) => {
    const { status, body } = await put(text);
    expect(status).toBe(400);
    expect(body.msg).toMatch(msg);
    expect((await api.call("GET", `/api/v1/soa/${zone}`)).body.serial).toBe(1);
  });

  test("is refused with all lines that are wrong, twenty at most", async () => {
    const wrong =
      "www A 192.0.2.300\ngood A 192.0.2.1\nother.test. A 192.0.2.1\nbad..name A 192.0.2.1\n TXT nobody's\n";
    const lines = (await put(`@ NS ns1.example.net.\n${wrong}`)).body.msg.split("\n");
    // What follows a name that was refused is not to be mended by itself.
    expect(lines.map((line: string) => /^line (\d+), column/.exec(line)?.[1])).toEqual(["2", "4", "5"]);
    const many = (await put(`@ NS ns1.example.net.\n${"x NOSUCH y\n".repeat(1_000)}`)).body.msg.split("\n");
    expect(many).toHaveLength(21);
    expect(many[19]).toMatch(/^line 21, /);
    expect(many[20]).toBe("and 980 more");
    const endless = (await put("x NOSUCH y\n".repeat(5_000))).body.msg.split("\n");
    expect(endless[20]).toBe("and 1000+ more");
    const clashes = (await put("@ NS n.test.\na A 192.0.2.1\na CNAME x\nb CNAME x\nb CNAME y\n")).body.msg.split("\n");
    expect(clashes).toEqual([expect.stringMatching(/^line [23], .*CNAME/), expect.stringMatching(/^line 5, /)]);
    expect((await put("@ NS n.test.\n$ORIGIN a..b\nwww.x.test. A 192.0.2.1\n")).body.msg).toMatch(/^line 2, [^\n]*$/);
  });

  test("that is not UTF-8 is refused, not guessed at", async () => {
    const text = '@ NS ns1.example.net.\nt TXT "se\xf1al"\n';
    expect((await put(Buffer.from(text, "latin1"))).status).toBe(400);
    expect((await put(Buffer.from(text, "utf8"))).body.records).toBe(2);
    expect((await get()).text).toContain('"se\\195\\177al"');
  });
});

describe("the history", () => {
  test("shows every change, newest first, with who made it", async () => {
    await add("www");
    const changed = await api.call(
      "POST",
      `/api/v1/update_soa/acme/${zone}/ns2.example.net/h.example.net/9/1/2/3/4/5`,
      undefined,
      { reseller: "one", key: "acme-api-key-0001" },
    );
    expect(changed.status).toBe(200);
    const entries = await history();
    expect(entries.map(({ serial }: { serial: number }) => serial)).toEqual([9, 2, 1]);
    expect(entries[0]).toMatchObject({ actor: "company:acme", deleted: { length: 1 }, added: [{ type: "SOA" }] });
    expect(entries[1]).toEqual({
      serial: 2,
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      actor: "reseller:one",
      deleted: [],
      added: [{ name: "www", type: "A", ttl: 3600, rr_prio: null, value: "192.0.2.1" }],
    });
    expect(entries[2]).toMatchObject({ deleted: [], added: [{ type: "SOA" }, { type: "NS" }] });
  });

  test("is paged by serial", async () => {
    for (let host = 0; host < 105; host += 1) await add(`h${host}`);
    const first = await history();
    expect(first).toHaveLength(100);
    expect(first[0].serial).toBe(106);
    const second = await history(`?before=${first.at(-1).serial}`);
    expect(second.map(({ serial }: { serial: number }) => serial)).toEqual([6, 5, 4, 3, 2, 1]);
    expect(await history("?before=1")).toEqual([]);
    expect(await history("?before=50&limit=7")).toHaveLength(7);
    expect(await history("?before=200&limit=1")).toMatchObject([{ serial: 106 }]);
    expect((await api.call("GET", `/api/v1/zone_history/${zone}?limit=1001`)).status).toBe(400);
    expect((await api.call("GET", `/api/v1/zone_history/${zone}?before=x`)).status).toBe(400);
  });

  test("is paged in its order where the serial was set back", async () => {
    const serials = [2_026_113_000, 4_173_596_647, 3, 4];
    for (const serial of serials) {
      const soa = `/api/v1/update_soa/acme/${zone}/ns2.example.net/h.example.net/${serial}/1/2/3/4/5`;
      expect((await api.call("POST", soa)).status).toBe(200);
    }
    const paged: number[] = [];
    for (let page = await history("?limit=1"); page.length > 0 && paged.length < 9; ) {
      paged.push(page[0].serial);
      page = await history(`?limit=1&before=${paged.at(-1)}`);
    }
    expect(paged).toEqual([4, 3, 4_173_596_647, 2_026_113_000, 1]);
  });

  test("is paged by serial and time where a serial occurs more than once", async () => {
    for (const serial of [2_147_483_000, 4_294_960_000, 1, 2]) {
      const soa = `/api/v1/update_soa/acme/${zone}/ns2.example.net/h.example.net/${serial}/1/2/3/4/5`;
      expect((await api.call("POST", soa)).status).toBe(200);
    }
    const paged: number[] = [];
    for (let page = await history("?limit=1"); page.length > 0 && paged.length < 9; ) {
      const { serial, timestamp } = page[0];
      paged.push(serial);
      page = await history(`?limit=1&before=${serial}&before_timestamp=${timestamp}`);
    }
    expect(paged).toEqual([2, 1, 4_294_960_000, 2_147_483_000, 1]);
    expect(await history("?limit=1&before=1")).toEqual([]);
    expect((await api.call("GET", `/api/v1/zone_history/${zone}?before=1&before_timestamp=x`)).status).toBe(400);
  });
});
