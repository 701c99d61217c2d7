import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { makeZone, RESELLER_ONE, type RunningApi, startApiWithCompany, zoneFields } from "../support/dns-api.ts";

let api: RunningApi;
let zone: string;

beforeAll(async () => {
  api = await startApiWithCompany();
});
afterAll(() => api.stop());

beforeEach(async () => {
  zone = await makeZone(api);
});

interface Listed {
  readonly rr_id: number;
  readonly name: string;
  readonly type: string;
  readonly ttl: number;
  readonly rr_prio: string | null;
  readonly value: string;
}

const create = (record: object) => api.call("POST", `/api/v1/rr/${zone}`, record);
const modify = (id: unknown, changes: object) => api.call("PUT", `/api/v1/rr/${zone}/${id}`, changes);
const remove = (id: unknown) => api.call("DELETE", `/api/v1/rr/${zone}/${id}`);
const batch = (edits: object) => api.call("POST", `/api/v1/rr/${zone}/batch`, edits);
const list = async (): Promise<Listed[]> => (await api.call("GET", `/api/v1/rr/${zone}`)).body.rr;
const serial = async (): Promise<number> => (await api.call("GET", `/api/v1/soa/${zone}`)).body.serial;

async function make(record: object): Promise<number> {
  const { status, body } = await create(record);
  expect(body).toMatchObject({ rr_id: expect.any(Number) });
  expect(status).toBe(200);
  return body.rr_id;
}

async function find(id: number): Promise<Listed | undefined> {
  return (await list()).find(({ rr_id }) => rr_id === id);
}

describe("creating a record", () => {
  test("gives its id and the next serial", async () => {
    const { status, body } = await create({ name: "www", type: "a", value: "192.0.2.1" });
    expect([status, body]).toEqual([200, { rr_id: expect.any(Number), serial: 2 }]);
    expect(await find(body.rr_id)).toEqual({
      rr_id: body.rr_id,
      name: "www",
      type: "A",
      ttl: 3600,
      rr_prio: null,
      value: "192.0.2.1",
    });
  });

  test.each([
    [
      { name: "@", type: "MX", rr_prio: 10, value: "mail" },
      { name: "@", rr_prio: "10", value: "mail.%." },
    ],
    [
      { name: "@", type: "mx", rr_prio: "0020", value: "mail.example.net." },
      { rr_prio: "20", value: "mail.example.net." },
    ],
    [
      { name: "_sip._tcp", type: "SRV", rr_prio: "0", value: "5 5060 sip.example.net." },
      { name: "_sip._tcp", rr_prio: "0", value: "5 5060 sip.example.net." },
    ],
    [{ name: "t", type: "TXT", value: "v=spf1 a; -all" }, { value: '"v=spf1 a; -all"' }],
    [{ name: "t", type: "TXT", value: '"one" "two"' }, { value: '"one" "two"' }],
    [
      { name: "a.b.%.", type: "AAAA", value: "2001:DB8:0::1" },
      { name: "a.b", value: "2001:db8::1" },
    ],
    [
      { name: "x", type: "TYPE65280", value: "\\# 2 0123" },
      { type: "TYPE65280", value: "\\# 2 0123" },
    ],
    [
      { name: "x", type: "TYPE1", value: "\\# 4 c0000201" },
      { type: "A", value: "192.0.2.1" },
    ],
    [
      { name: "*.wild", type: "CNAME", value: "@" },
      { name: "*.wild", value: "%." },
    ],
    [
      { name: "ñandú", type: "CNAME", value: "señal" },
      { name: "xn--and-6ma2c", value: "xn--seal-hqa.%." },
    ],
    [{ name: "c", type: "CAA", value: '0 issue "ca.example.net"' }, { value: '0 issue "ca.example.net"' }],
  ])("takes %j", async (record, shown) => {
    const here = (value: unknown) => JSON.parse(JSON.stringify(value).replaceAll("%", zone));
    expect(await find(await make(here(record)))).toMatchObject(here(shown));
  });

  test.each([
    [{ type: "A", value: "192.0.2.1" }, "missing field: name"],
    [{ name: "a", value: "192.0.2.1" }, "missing field: type"],
    [{ name: "a", type: "A" }, "missing field: value"],
    [{ name: "a", type: "MX", value: "mail" }, "missing field: rr_prio"],
    [{ name: "a", type: "SRV", value: "5 5060 sip" }, "missing field: rr_prio"],
  ])("refuses %j for what is missing", async (record, msg) => {
    const { status, body } = await create(record);
    expect([status, body]).toEqual([400, { msg }]);
  });

  test.each([
    [{ value: "192.0.2.300" }, "value"],
    [{ value: "" }, "value"],
    [{ value: 7 }, "value"],
    [{ type: "AAAA" }, "value"],
    [{ type: "NOSUCH" }, "type"],
    [{ type: "SOA", value: "a. b. 1 2 3 4 5" }, "type"],
    [{ type: "ANY" }, "type"],
    [{ type: "TYPE255" }, "type"],
    [{ type: "TYPE65536" }, "type"],
    [{ type: ["A"] }, "type"],
    [{ name: "a..b" }, "name"],
    [{ name: "x".repeat(64) }, "name"],
    [{ name: "" }, "name"],
    [{ ttl: 2 ** 31 }, "ttl"],
    [{ ttl: -1 }, "ttl"],
    [{ ttl: "60" }, "ttl"],
    [{ ttl: 0.5 }, "ttl"],
    [{ rr_prio: 10 }, "rr_prio"],
    [{ type: "MX", value: "mail", rr_prio: 65536 }, "rr_prio"],
    [{ type: "MX", value: "mail", rr_prio: -1 }, "rr_prio"],
    [{ type: "MX", value: "mail", rr_prio: "ten" }, "rr_prio"],
    [{ type: "MX", value: "mail", rr_prio: true }, "rr_prio"],
    [{ type: "TXT", value: `"${"x".repeat(70_000)}"` }, "value"],
  ])("refuses %j and names the field", async (wrong, field) => {
    const { status, body } = await create({ name: "www", type: "A", value: "192.0.2.1", ...wrong });
    expect(status).toBe(400);
    expect(body.msg).toContain(field);
    expect(await serial()).toBe(1);
  });

  test.each([65536, -1, 1.5, true, "", " 1", "ten", "65536"])(
    "says what is wrong with the priority %j",
    async (prio) => {
      const { status, body } = await create({ name: "@", type: "MX", value: "mail", rr_prio: prio });
      const msg = "invalid field: rr_prio: must be a whole number from 0 to 65535";
      expect([status, body]).toEqual([400, { msg }]);
    },
  );

  test("splits one long text and keeps the boundaries of several", async () => {
    const id = await make({ name: "long", type: "TXT", value: "x".repeat(300) });
    expect((await find(id))?.value).toBe(`"${"x".repeat(255)}" "${"x".repeat(45)}"`);
  });

  test("an identical record is a duplicate, whatever its TTL", async () => {
    await make({ name: "www", type: "A", value: "192.0.2.1" });
    for (const ttl of [undefined, 3600, 60]) {
      const { status, body } = await create({ name: "WWW", type: "A", value: "192.0.2.1", ttl });
      expect([status, body]).toEqual([400, { msg: "duplicated record" }]);
    }
    expect(await serial()).toBe(2);
  });

  test("an RRset has one TTL: the zone's at first, then its own, then the last one given", async () => {
    const first = await make({ name: "www", type: "A", value: "192.0.2.1", ttl: 60 });
    const second = await make({ name: "www", type: "A", value: "192.0.2.2" });
    expect((await find(second))?.ttl).toBe(60);
    await make({ name: "www", type: "A", value: "192.0.2.3", ttl: 120 });
    expect((await find(first))?.ttl).toBe(120);
    expect(await serial()).toBe(4);
    await modify(second, { ttl: 30 });
    expect((await list()).filter(({ type }) => type === "A").map(({ ttl }) => ttl)).toEqual([30, 30, 30]);
    expect(await serial()).toBe(5);
  });

  test("what no zone may hold is refused", async () => {
    await make({ name: "alias", type: "CNAME", value: "www" });
    for (const wrong of [
      { name: "@", type: "CNAME", value: "www" },
      { name: "alias", type: "CNAME", value: "other" },
      { name: "alias", type: "A", value: "192.0.2.1" },
      { name: "elsewhere.example.net.", type: "A", value: "192.0.2.1" },
    ]) {
      expect((await create(wrong)).status).toBe(400);
    }
    await make({ name: "d", type: "DNAME", value: "example.net." });
    expect((await create({ name: "d", type: "DNAME", value: "example.com." })).status).toBe(400);
    expect(await serial()).toBe(3);
  });

  test("what is doubtful is accepted with warnings", async () => {
    await make({ name: "alias", type: "CNAME", value: "www" });
    const warned = async (record: object) => (await create(record)).body.warnings?.join(" ") ?? "";
    expect(await warned({ name: "@", type: "MX", rr_prio: 1, value: "alias" })).toContain("CNAME");
    expect(await warned({ name: "sub", type: "NS", value: "ns.sub" })).toContain("glue");
    expect(await warned({ name: "ns.sub", type: "A", value: "192.0.2.1" })).toBe("");
    expect(await warned({ name: "www.sub", type: "A", value: "192.0.2.1" })).toContain("zone cut");
    await make({ name: "host.tree", type: "A", value: "192.0.2.1" });
    expect(await warned({ name: "tree", type: "DNAME", value: "example.net." })).toContain("DNAME");
  });

  test("warnings and refusals come with their codes to whoever accepts problems", async () => {
    await make({ name: "alias", type: "CNAME", value: "www" });
    const told = (record: object) =>
      api.call("POST", `/api/v1/rr/${zone}`, record, { ...RESELLER_ONE, accept: "application/problem+json" });
    const values = { type: "MX", owner: `${zone}.`, target: `alias.${zone}.` };
    expect((await told({ name: "@", type: "MX", rr_prio: 1, value: "alias" })).body.warnings).toEqual([
      { code: "target-is-alias", values, message: expect.stringContaining("which is a CNAME") },
    ]);
    const reason = {
      code: "of-a-part",
      values: { part: "address", reason: expect.objectContaining({ code: "no-ipv4-address" }) },
      message: "address: x is not an IPv4 address",
    };
    expect((await told({ name: "www", type: "A", value: "x" })).body).toEqual({
      ...{ title: "Bad Request", status: 400, detail: `invalid field: value: ${reason.message}` },
      ...{ code: "invalid-field", values: { field: "value", reason } },
    });
  });

  test("so is what makes data elsewhere doubtful", async () => {
    await make({ name: "@", type: "MX", rr_prio: 1, value: "Mail" });
    await make({ name: "_sip._tcp", type: "SRV", rr_prio: 1, value: "1 5060 mail" });
    const address = await make({ name: "mail", type: "A", value: "192.0.2.1" });
    const replaced = await batch({ delete: [address], create: [{ name: "mail", type: "CNAME", value: "www" }] });
    expect(replaced.body.warnings).toEqual([
      `the MX of ${zone}. points to Mail.${zone}., which is a CNAME`,
      `the SRV of _sip._tcp.${zone}. points to mail.${zone}., which is a CNAME`,
    ]);
    // Another target of the same CNAME makes nothing worse.
    expect((await modify(replaced.body.created[0], { value: "web" })).body.warnings).toBeUndefined();
  });

  test("so is taking the last address of a name server", async () => {
    const server = await make({ name: "@", type: "NS", value: "ns1" });
    const [four, six] = [
      await make({ name: "ns1", type: "A", value: "192.0.2.1" }),
      await make({ name: "ns1", type: "AAAA", value: "2001:db8::1" }),
    ];
    expect((await remove(four)).body.warnings).toBeUndefined();
    expect((await modify(six, { name: "ns2" })).body.warnings).toEqual([
      `the NS of ${zone}. points to ns1.${zone}., which has no address in the zone (missing glue)`,
    ]);
    await modify(six, { name: "ns1" });
    const together = await batch({ delete: [six, server] });
    expect(together.body.warnings).toBeUndefined();
  });

  test("so is taking the last address of mname", async () => {
    const inside = `inside.${zone}`;
    await api.call("POST", `/api/v1/master_zone/${inside}`, zoneFields({ mname: `ns.${inside}` }));
    const made = await api.call("POST", `/api/v1/rr/${inside}`, { name: "ns", type: "A", value: "192.0.2.1" });
    const gone = await api.call("DELETE", `/api/v1/rr/${inside}/${made.body.rr_id}`);
    expect(gone.body.warnings).toEqual([
      `the NS of ${inside}. points to ns.${inside}., which has no address in the zone (missing glue)`,
      `mname ns.${inside}. has no address in the zone`,
    ]);
  });
});

describe("modifying a record", () => {
  test("changes what is given and keeps the rest", async () => {
    const id = await make({ name: "@", type: "MX", rr_prio: 10, value: "mail", ttl: 60 });
    expect((await modify(id, { rr_prio: "20" })).body).toEqual({ rr_id: id, serial: 3 });
    expect(await find(id)).toMatchObject({ name: "@", rr_prio: "20", value: `mail.${zone}.`, ttl: 60 });
    await modify(id, { value: "relay.example.net." });
    expect(await find(id)).toMatchObject({ rr_prio: "20", value: "relay.example.net.", ttl: 60 });
    await modify(id, { name: "sub" });
    expect(await find(id)).toMatchObject({ name: "sub", rr_prio: "20", ttl: 60 });
    await modify(id, { type: "A", value: "192.0.2.9" });
    expect(await find(id)).toMatchObject({ name: "sub", type: "A", rr_prio: null, value: "192.0.2.9", ttl: 60 });
    expect((await modify(id, { type: "MX", value: "mail" })).body).toEqual({ msg: "missing field: rr_prio" });
    expect((await modify(id, { rr_prio: 1 })).status).toBe(400);
  });

  test("that changes nothing leaves the serial", async () => {
    const id = await make({ name: "www", type: "A", value: "192.0.2.1", ttl: 60 });
    for (const same of [{}, { ttl: 60 }, { name: `www.${zone}.`, type: "A", value: "192.0.2.1", ttl: 60 }]) {
      expect((await modify(id, same)).body).toEqual({ rr_id: id, serial: 2 });
    }
    expect((await api.call("GET", `/api/v1/zone_history/${zone}`)).body.history).toHaveLength(2);
  });

  test("checks the zone as it would be", async () => {
    const id = await make({ name: "www", type: "A", value: "192.0.2.1" });
    await make({ name: "www", type: "A", value: "192.0.2.2" });
    await make({ name: "alias", type: "CNAME", value: "www" });
    expect((await modify(id, { value: "192.0.2.2" })).body).toEqual({ msg: "duplicated record" });
    expect((await modify(id, { name: "alias" })).status).toBe(400);
    expect((await modify(id, { type: "CNAME", value: "x" })).status).toBe(400);
    const [ns] = await list();
    expect((await modify(ns?.rr_id, { name: "sub" })).status).toBe(400);
    expect((await modify(ns?.rr_id, { value: "ns9.example.net." })).status).toBe(200);
  });
});

describe("deleting a record", () => {
  test("answers with the serial", async () => {
    const id = await make({ name: "www", type: "A", value: "192.0.2.1" });
    expect((await remove(id)).body).toEqual({ msg: "deleted", serial: 3 });
    expect(await find(id)).toBeUndefined();
    expect((await remove(id)).body).toEqual({ msg: `record ${id} does not exist` });
    expect((await modify(id, {})).body).toEqual({ msg: `record ${id} does not exist` });
  });

  test("refuses the last NS of the apex, another zone's record, and what is no id", async () => {
    const [ns] = await list();
    expect((await remove(ns?.rr_id)).status).toBe(400);
    const theirs = await make({ name: "www", type: "A", value: "192.0.2.1" });
    await api.call("POST", `/api/v1/master_zone/second.${zone}`, zoneFields());
    expect((await api.call("DELETE", `/api/v1/rr/second.${zone}/${theirs}`)).status).toBe(400);
    for (const id of ["abc", "0", "-1", "1.5", "99999999999999999999", "%00", "1%20"]) {
      expect((await remove(id)).status).toBe(400);
      expect((await modify(id, {})).status).toBe(400);
    }
    expect(await serial()).toBe(2);
  });
});

describe("a batch", () => {
  test("makes all its changes in one step, and the serial counts each", async () => {
    const gone = await make({ name: "gone", type: "A", value: "192.0.2.1" });
    const kept = await make({ name: "kept", type: "A", value: "192.0.2.1" });
    const { status, body } = await batch({
      delete: [gone],
      modify: [{ rr_id: kept, value: "192.0.2.2" }],
      create: [
        { name: "gone", type: "CNAME", value: "kept" },
        { name: "new", type: "A", value: "192.0.2.3" },
      ],
    });
    expect([status, body]).toEqual([200, { serial: 7, created: [expect.any(Number), expect.any(Number)] }]);
    expect(await find(body.created[0])).toMatchObject({ name: "gone", type: "CNAME" });
    expect(await find(body.created[1])).toMatchObject({ name: "new", type: "A" });
    const { history } = (await api.call("GET", `/api/v1/zone_history/${zone}`)).body;
    expect(history[0]).toMatchObject({ serial: 7, deleted: { length: 2 }, added: { length: 3 } });
  });

  test("judges the result, not the way there", async () => {
    const one = await make({ name: "www", type: "A", value: "192.0.2.1" });
    const two = await make({ name: "www", type: "A", value: "192.0.2.2" });
    const swap = await batch({
      modify: [
        { rr_id: one, value: "192.0.2.2" },
        { rr_id: two, value: "192.0.2.1" },
      ],
    });
    expect(swap.body).toEqual({ serial: 5, created: [] });
    const [ns] = await list();
    const moved = await batch({ delete: [ns?.rr_id], create: [{ name: "@", type: "NS", value: "ns2.example.net." }] });
    expect(moved.body.serial).toBe(7);
  });

  test("is all or nothing", async () => {
    const id = await make({ name: "www", type: "A", value: "192.0.2.1" });
    for (const wrong of [
      { delete: [id], create: [{ name: "a", type: "A", value: "wrong" }] },
      { delete: [id, 999_999_999] },
      { delete: [id, id] },
      { delete: [id], modify: [{ rr_id: id, ttl: 5 }] },
      { modify: [{ ttl: 5 }] },
      { delete: ["x"] },
      { create: {} },
      { create: [null] },
      { create: [{ name: "a", type: "A" }] },
      { create: [1, 2].map(() => ({ name: "a", type: "A", value: "192.0.2.1" })) },
    ]) {
      const { status, body } = await batch(wrong);
      expect(status).toBe(400);
      expect(body).toEqual({ msg: expect.any(String) });
    }
    expect(await serial()).toBe(2);
    expect(await list()).toHaveLength(2);
  });

  test("that is empty changes nothing", async () => {
    for (const empty of [{}, { create: [], modify: [], delete: [] }, { create: null }]) {
      const { status, body } = await batch(empty);
      expect([status, body]).toEqual([200, { serial: 1, created: [] }]);
    }
  });
});

describe("calendar serials", () => {
  test("number a hundred changes a day, then refuse and change nothing", async () => {
    api.clock.set("2026-11-20T12:00:00Z");
    zone = "calendar.example.org";
    await api.call("POST", `/api/v1/master_zone/${zone}`, zoneFields({ serial_type: "calendar" }));
    const many = (count: number, third: number) =>
      Array.from({ length: count }, (_, index) => ({ name: `h${index}`, type: "A", value: `192.0.${third}.${index}` }));
    expect((await batch({ create: many(100, 2) })).status).toBe(400);
    expect((await batch({ create: many(98, 2) })).body.serial).toBe(2026112098);
    expect((await batch({ create: many(2, 3) })).status).toBe(400);
    expect((await create({ name: "last", type: "A", value: "192.0.2.1" })).body.serial).toBe(2026112099);
    const full = await create({ name: "full", type: "A", value: "192.0.2.1" });
    expect(full.status).toBe(400);
    expect(full.body.msg).toContain("100");
    expect(await serial()).toBe(2026112099);
    const [first] = await list();
    expect((await modify(first?.rr_id, {})).status).toBe(200);
    api.clock.set("2026-11-21T00:00:01Z");
    expect((await create({ name: "full", type: "A", value: "192.0.2.1" })).body.serial).toBe(2026112100);
  });
});

describe("a calendar zone pushed ahead of the calendar", () => {
  beforeEach(async () => {
    api.clock.set("2026-11-20T12:00:00Z");
    zone = await makeZone(api, { serial_type: "calendar" });
  });
  const push = (serial: number) =>
    api.call("POST", `/api/v1/update_soa/acme/${zone}/ns1.example.net/hostmaster.example.net/${serial}/1/2/3/4/5`);
  const change = async (host: string) => (await create({ name: host, type: "A", value: "192.0.2.1" })).body.serial;

  test("by update_soa counts by one, never gets stuck, and returns when the calendar has caught up", async () => {
    expect((await push(2026112199)).body.serial).toBe(2026112199);
    expect(await change("a")).toBe(2026112200);
    expect((await push(2026112199)).status).toBe(400);
    api.clock.set("2026-11-22T00:00:01Z");
    expect(await change("b")).toBe(2026112201);
    api.clock.set("2026-11-23T00:00:01Z");
    expect(await change("c")).toBe(2026112300);
  });

  test("by a zone file does the same, and a serial that is no date goes on counting", async () => {
    const soa = (serial: number) =>
      `@ 60 SOA ns1.example.net. h.example.net. ${serial} 1 2 3 4\n@ 60 NS ns1.example.net.\n`;
    const put = async (serial: number) => (await api.call("PUT", `/api/v1/zone_file/${zone}`, soa(serial))).body.serial;
    expect(await put(4_000_000_000)).toBe(4_000_000_000);
    expect(await change("a")).toBe(4_000_000_001);
    // Behind: the file's serial is passed over.
    expect(await put(2026112005)).toBe(4_000_000_002);
  });
});

test("a zone of many records is listed whole and in order", async () => {
  const create = Array.from({ length: 12_000 }, (_, index) => ({ name: `h${index}`, type: "A", value: "192.0.2.1" }));
  const { body } = await batch({ create });
  expect(body.created).toHaveLength(12_000);
  expect(body.serial).toBe(12_001);
  const listed = await list();
  expect(listed).toHaveLength(12_001);
  expect(listed.find(({ name }) => name === "h11999")?.rr_id).toBe(body.created[11_999]);
  // A large body about many records is one large work, and waits for no second place.
  expect((await batch({ delete: body.created })).body).toMatchObject({ serial: 24_001 });
  expect(await list()).toHaveLength(1);
});

test("records with much data are listed in their order, all of them, in pages of fewer", async () => {
  const value = (index: number) => `"${index} ${"x".repeat(240)}" ${`"${"x".repeat(250)}" `.repeat(200)}`.trim();
  for (let from = 0; from < 60; from += 20) {
    const created = Array.from({ length: 20 }, (_, index) => from + index);
    const { status } = await batch({
      create: created.map((index) => ({ name: `t${100 + index}`, type: "TXT", value: value(index) })),
    });
    expect(status).toBe(200);
  }
  await make({ name: "u", type: "A", value: "192.0.2.1" });
  // 3 MB of data, where a page has one.
  expect((await list()).map(({ name }) => name)).toEqual([
    "@",
    ...Array.from({ length: 60 }, (_, index) => `t${100 + index}`),
    "u",
  ]);
});
