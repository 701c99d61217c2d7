import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseRdata } from "../../services/core/dns/rdata/rdata.ts";
import { typeCode } from "../../services/core/dns/rr-types.ts";
import type { RecordEdits } from "../../services/core/dns/zone-edit.ts";
import { ok } from "../../services/core/result.ts";
import { changeZone } from "../../services/operations/dns/zone-changes.ts";
import { changeRecords } from "../../services/operations/dns/zone-records.ts";
import { exportSignedZone } from "../../services/operations/dns/zone-signed-file.ts";
import { nextVersion } from "../../services/operations/dns/zone-signing-state.ts";
import { disableSigning, enableSigning } from "../../services/operations/dns/zone-signing-switch.ts";
import type { Db } from "../../services/platform/postgres/db.ts";
import { readAllDerived } from "../../services/store/dns/dnssec-records.ts";
import { readAllRecords } from "../../services/store/dns/records.ts";
import { findAnyZone } from "../../services/store/dns/zones.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addZoneOwner, eventually, nameOf, putZone, SCOPE, SIGNER } from "../support/dns-server.ts";
import { complaintsAbout } from "../support/dnssec.ts";

const DS = "12345 13 2 0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF";
const CONTENT = [
  ...["@ NS ns1", "@ MX 10 mail", "ns1 A 192.0.2.53", "mail A 192.0.2.25", "*.wild TXT any", "a.b.c.deep A 192.0.2.1"],
  ...["sub NS ns.sub", "ns.sub A 192.0.2.54", "secure NS ns.example.net.", `secure DS ${DS}`],
  ...["old DNAME new.example.net.", "Alias CNAME mail"],
];
const NO_EDITS: RecordEdits = { creations: [], modifications: [], deletionIds: [] };

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
  await addZoneOwner(database);
});
afterAll(() => database.drop());

describe.each(["nsec", "nsec3"] as const)("a zone signed with %s", (denial) => {
  it("is what others would make of it, at first and after each kind of change", async () => {
    const zone = `signed-${denial}.example.org`;
    await putZone(database, zone, CONTENT);
    expect(await enableSigning(database.db, targetOf(zone), { denial })).toMatchObject({ ok: true });
    expect(await complaints(zone)).toEqual({});
    for (const [name, type, value] of [
      ["new", "A", "192.0.2.7"],
      ["new", "A", "192.0.2.8"],
      ["x.y.z", "TXT", "below empty non-terminals"],
      ["deep", "NS", "ns.other.test."],
      ["x.y.z"],
      ["deep"],
      ["sub"],
      ["old"],
      ["c.deep", "DNAME", "elsewhere.test."],
      ["c.deep"],
      ["a.b.c.deep"],
      ["*.wild.q", "A", "192.0.2.9"],
      ["secure", "DS", DS.replace("12345", "54321")],
      ["secure"],
    ] as const) {
      const what = [name, type, value].join(" ");
      const edits = type === undefined ? await removal(zone, name) : creation(zone, name, type, value);
      expect(await changeRecords(database.db, targetOf(zone), edits, new Date()), what).toMatchObject({ ok: true });
      const found = await complaints(zone);
      // kzonecheck takes no data below a DNAME, which here is hidden, as it is by the others.
      if (type === "DNAME") delete found.kzonecheck;
      expect(found, what).toEqual({});
    }
  });
});

describe("a change that meets another", () => {
  it("is made anew where the zone was signed when it was read, and is not when it is written", async () => {
    const zone = "unsigned-meanwhile.example.org";
    await putZone(database, zone, CONTENT);
    await enableSigning(database.db, targetOf(zone), {});
    const stale = (await findAnyZone(database.db, nameOf(zone)))!;
    await disableSigning(database.db, targetOf(zone), { force: true });
    let isFirst = true;
    const changed = await changeZone(database.db, targetOf(zone), async (on) => {
      const read = isFirst ? stale : (await findAnyZone(on, nameOf(zone)))!;
      isFirst = false;
      return ok({ zone: read, change: nextVersion(read, SIGNER), warnings: [] });
    });
    expect(changed).toMatchObject({ ok: true, value: { changed: true, zone: { version: stale.version + 2 } } });
    expect(await readAllDerived(database.db, stale.id)).toEqual([]);
  });

  it("is made anew as the victim of a deadlock between others, unless that is for the caller to do", async () => {
    const zone = "victim.example.org";
    await putZone(database, zone, CONTENT);
    let victims = 0;
    const plan = async (on: Db) => {
      victims += 1;
      if (victims === 1) await on.raw("do $$ begin raise exception sqlstate '40P01'; end $$");
      const read = (await findAnyZone(on, nameOf(zone)))!;
      return ok({ zone: read, change: nextVersion(read, SIGNER), warnings: [] });
    };
    expect(await changeZone(database.db, targetOf(zone), plan)).toMatchObject({ ok: true, value: { changed: true } });
    expect(victims).toBe(2);
    victims = 0;
    const within = database.db.transaction((transaction) => changeZone(transaction, targetOf(zone), plan));
    await expect(within).rejects.toMatchObject({ code: "40P01" });
  });

  it("waits for its company before it has the zone, whose zones may be about to be suspended", async () => {
    const zone = "company-first.example.org";
    await putZone(database, zone, CONTENT);
    const signing = await database.db.transaction(async (transaction) => {
      const { company_id: id } = await transaction("zones").where({ name: zone }).first("company_id");
      await transaction("companies").where({ id }).forUpdate().first("id");
      const begun = enableSigning(database.db, targetOf(zone), {});
      const waiting = () =>
        database.db("pg_stat_activity").where({ wait_event_type: "Lock" }).whereRaw("datname = current_database()");
      await eventually(async () => (await waiting()).length > 0, 60_000);
      await transaction("zones").where({ company_id: id }).forUpdate().noWait().select("id");
      return { begun };
    });
    expect(await signing.begun).toMatchObject({ ok: true });
  });
});

function targetOf(zone: string) {
  return { scope: SCOPE, apex: nameOf(zone), domain: zone, actor: "test", signer: SIGNER };
}

function creation(zone: string, name: string, mnemonic: string, value: string): RecordEdits {
  const type = typeCode(mnemonic)!;
  const rdata = parseRdata(type, value, nameOf(zone), "value");
  if (!rdata.ok) throw new Error(rdata.error.message);
  const draft = { owner: nameOf(`${name}.${zone}`), type, ttl: undefined, rdata: rdata.value };
  return { ...NO_EDITS, creations: [draft] };
}

/** All records of a name go. */
async function removal(zone: string, name: string): Promise<RecordEdits> {
  const found = await findAnyZone(database.db, nameOf(zone));
  const records = await readAllRecords(database.db, found!.id);
  const { key } = nameOf(`${name}.${zone}`);
  return { ...NO_EDITS, deletionIds: records.filter(({ owner }) => owner.key === key).map(({ id }) => id) };
}

async function complaints(zone: string): Promise<Record<string, string>> {
  const exported = await exportSignedZone(database.db, (snapshot) => findAnyZone(snapshot, nameOf(zone)));
  return complaintsAbout(zone, exported!.text);
}
