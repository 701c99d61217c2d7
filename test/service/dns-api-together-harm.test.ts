import { request } from "node:http";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { nameSortKey } from "../../services/core/dns/name.ts";
import { TYPE } from "../../services/core/dns/rr-types.ts";
import { TogetherChanges } from "../../services/operations/dns/together-changes.ts";
import { changeRecords } from "../../services/operations/dns/zone-records.ts";
import { queryRows } from "../../services/platform/postgres/db.ts";
import {
  type Answer,
  makeZone,
  RESELLER_TWO,
  type RunningApi,
  startApiWithCompany,
  zoneFields,
} from "../support/dns-api.ts";
import { nameOf } from "../support/dns-server.ts";

// What one tenant with a valid key does to creations that are written together with its own: nothing.
let api: RunningApi;
let zones: string[];
let theirs: string[];
let made = 0;

beforeAll(async () => {
  api = await startApiWithCompany();
  await api.call("POST", "/api/v1/company", { crm_id: "evil", name: "E", apikey: "evil-api-key-0001" }, RESELLER_TWO);
});
afterAll(() => api.stop());
beforeEach(async () => {
  zones = [];
  theirs = [];
  for (let index = 0; index < 8; index += 1) {
    zones.push(await makeZone(api));
    made += 1;
    const zone = `their${made}.example.net`;
    const fields = zoneFields({ crm_id: "evil" });
    expect((await api.call("POST", `/api/v1/master_zone/${zone}`, fields, RESELLER_TWO)).status).toBe(200);
    theirs.push(zone);
  }
});

const create = (zone: string, name: string) =>
  api.call("POST", `/api/v1/rr/${zone}`, { name, type: "A", value: "192.0.2.1" });
const createTheirs = (zone: string, name: string) =>
  api.call("POST", `/api/v1/rr/${zone}`, { name, type: "A", value: "192.0.2.1" }, RESELLER_TWO);
const statuses = (answers: readonly Answer[]) => answers.map(({ status }) => status);
const all200 = (count: number) => Array.from({ length: count }, () => 200);

/** What of a zone has to go together: its changes, its serial, its records and its journal. */
async function expectWhole(names: readonly string[], changes: number): Promise<void> {
  const states = await queryRows<Record<string, number>>(
    api.database.db,
    `select z.version - 1 as changes, z.serial - 1 as serials, z.records - 1 as counted,
            (select count(*) from records r where r.zone_id = z.id and r.type = 1) as records,
            (select count(*) from zone_journal j where j.zone_id = z.id and j.version > 1) as journalled
       from zones z where z.name = any($1::text[])`,
    [names],
  );
  expect(states).toHaveLength(names.length);
  for (const { serials, counted, records, journalled, ...state } of states) {
    expect([state.changes, serials, counted, records, journalled]).toEqual(Array(5).fill(changes));
  }
}

test.each([
  ["refuses", "P0001"],
  ["has no time for", "57014"],
])("what PostgreSQL %s of one befalls nobody who is written with it", async (_, sqlstate) => {
  const { db } = api.database;
  await db.raw(`
    create function refuse_poison() returns trigger language plpgsql as $$
      begin
        if position('poison'::bytea in new.owner) > 0 then raise 'poison' using errcode = '${sqlstate}'; end if;
        return new;
      end $$;
    create trigger refuse_poison before insert on records for each row execute function refuse_poison()`);
  const together = new TogetherChanges(db);
  const add = (domain: string, resellerId: string, label: string) => {
    const target = { scope: { resellerId }, apex: nameOf(domain), domain, actor: "test", together };
    const creation = {
      owner: nameOf(`${label}.${domain}`),
      type: TYPE.A,
      ttl: 300,
      rdata: Uint8Array.of(192, 0, 2, 1),
    };
    return changeRecords(db, target, { creations: [creation], modifications: [], deletionIds: [] }, new Date());
  };
  try {
    for (const round of [1, 2, 3, 4]) {
      const poisoned = theirs.map((zone) => add(zone, "two", `poison${round}`));
      const refused = Promise.allSettled(poisoned);
      for (const { ok } of await Promise.all(zones.map((zone) => add(zone, "one", `h${round}`)))) expect(ok).toBe(true);
      for (const outcome of await refused) expect(outcome).toMatchObject({ reason: { code: sqlstate } });
    }
  } finally {
    await db.raw("drop trigger refuse_poison on records; drop function refuse_poison()");
  }
  await expectWhole(zones, 4);
  await expectWhole(theirs, 0);
});

test("who asks for very many records, or very many times, keeps nobody from being answered", async () => {
  const [huge, busy] = theirs as [string, string];
  const many = Array.from({ length: 4_000 }, (_, host) => ({ name: `m${host}`, type: "A", value: "192.0.2.2" }));
  let isAnswered = false;
  const large = api.call("POST", `/api/v1/rr/${huge}/batch`, { create: many }, RESELLER_TWO).then((answer) => {
    isAnswered = true;
    return answer;
  });
  const flood = Array.from({ length: 150 }, (_, host) => createTheirs(busy, `f${host}`));
  const answers = await Promise.all(zones.map((zone) => create(zone, "www")));
  expect(statuses(answers)).toEqual(all200(zones.length));
  // Those in one zone are made one after the other; whoever comes after them with another zone has not waited for that.
  expect(await Promise.race([Promise.all(flood).then(() => "after all of them"), "before"])).toBe("before");
  expect(statuses(await Promise.all(flood))).toEqual(all200(flood.length));
  expect((await large).status).toBe(200);
  expect(isAnswered).toBe(true);
  await expectWhole([busy], flood.length);
  await expectWhole(zones, 1);
});

test("who has very much at one name changes it in a place of its own", async () => {
  const [full] = theirs as [string];
  const { wire } = nameOf(full);
  await queryRows(
    api.database.db,
    `insert into records (zone_id, owner, owner_key, type, ttl, rdata)
     select z.id, $1, $2, 300 + n, 300, '\\x00'::bytea from zones z, generate_series(1, 6000) n where z.name = $3`,
    [wire, nameSortKey(wire), full].map((value) => (typeof value === "string" ? value : Buffer.from(value))),
  );
  const answers = await Promise.all([
    createTheirs(full, "www"),
    createTheirs(full, "ftp"),
    ...zones.map((zone) => create(zone, "www")),
  ]);
  expect(statuses(answers)).toEqual(all200(zones.length + 2));
  await expectWhole(zones, 1);
});

test("who sends a request slowly, or leaves before it is answered, keeps nobody waiting", async () => {
  const [slow, gone] = theirs as [string, string];
  const slowly = begin(slow, "slow");
  const leaving = begin(gone, "gone");
  leaving.finish();
  leaving.sent.destroy();
  expect(statuses(await Promise.all(zones.map((zone) => create(zone, "www"))))).toEqual(all200(zones.length));
  slowly.finish();
  expect(await slowly.status).toBe(200);
  await expectWhole([...zones, slow], 1);
});

test("zones that somebody holds locked keep those of others from nothing, and are written when they are free", async () => {
  const { db } = api.database;
  for (const zone of [...zones, ...theirs]) await (zones.includes(zone) ? create : createTheirs)(zone, "first");
  let waiting: Promise<Answer>[] = [];
  await db.transaction(async (transaction) => {
    await queryRows(transaction, "select 1 from zones where name = any($1::text[]) for update", [theirs]);
    waiting = theirs.flatMap((zone) => [1, 2, 3].map((round) => createTheirs(zone, `late${round}`)));
    for (const round of [1, 2, 3]) {
      const answers = await Promise.all(zones.map((zone) => create(zone, `now${round}`)));
      expect(statuses(answers)).toEqual(all200(zones.length));
    }
    expect(await Promise.race([...waiting, "waits"])).toBe("waits");
  });
  expect(statuses(await Promise.all(waiting))).toEqual(all200(waiting.length));
  await expectWhole([...zones, ...theirs], 4);
});

/** A creation whose body is sent half, and the rest when it is told to. */
function begin(zone: string, name: string) {
  const body = JSON.stringify({ name, type: "A", value: "192.0.2.3" });
  const headers = {
    Authorization: RESELLER_TWO.key,
    Reseller: RESELLER_TWO.reseller,
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
  };
  const sent = request(`${api.url}/api/v1/rr/${zone}`, { method: "POST", headers });
  const status = new Promise<number | undefined>((resolve) => {
    sent.on("error", () => resolve(undefined));
    sent.on("response", (response) => {
      response.resume();
      resolve(response.statusCode);
    });
  });
  sent.write(body.slice(0, 20));
  return { sent, status, finish: () => sent.end(body.slice(20)) };
}
