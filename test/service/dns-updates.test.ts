import { createHash } from "node:crypto";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { decodeMessage, type MessageRecord } from "../../services/core/dns/message.ts";
import { formatDomainName } from "../../services/core/dns/name.ts";
import { CLASS, RCODE, TYPE } from "../../services/core/dns/rr-types.ts";
import { TsigVerifier } from "../../services/core/dns/tsig.ts";
import { Client } from "../../services/dns-server/message/client.ts";
import { UpdateQueue } from "../../services/dns-server/update/update-queue.ts";
import { openDb, openListenConnection } from "../../services/platform/postgres/db.ts";
import { addAcl } from "../../services/store/dns/acls.ts";
import { listWaitingUpdates, queueUpdates } from "../../services/store/dns/dns-updates.ts";
import { findQuotaOwner, setLimits } from "../../services/store/dns/quota-settings.ts";
import { exchangeDatagram } from "../support/datagrams.ts";
import { KEY_RING } from "../support/dns-api.ts";
import { eventually, nameOf } from "../support/dns-server.ts";
import {
  addition as added,
  nsupdate,
  signUpdate,
  startUpdateStack,
  type UpdateKey,
  type UpdateStack,
  untilKeyIsKnown,
} from "../support/dns-updates.ts";
import { isInstalled } from "../support/peers-processes.ts";
import { bare, updateMessage } from "../unit/core/dns/update/support.ts";

const absence = isInstalled("nsupdate") ? "" : " (skipped: nsupdate is not installed)";

let stack: UpdateStack;
let key: UpdateKey;
let acme: UpdateKey;
let zone: string;

beforeAll(async () => {
  stack = await startUpdateStack();
  key = await stack.makeKey();
  zone = await stack.makeZone();
  acme = await stack.makeKey({ zones: [zone], names: ["_acme-challenge.**"], types: ["TXT"] });
  for (const one of [key, acme]) await untilKeyIsKnown(stack, zone, one);
});
afterAll(() => stack.stop());

/** The zone as the API lists it: name, type, value. */
async function records(of = zone): Promise<string[]> {
  const { body } = await stack.api.call("GET", `/api/v1/rr/${of}`);
  return body.rr.map(({ name, type, value }: Record<string, string>) => `${name} ${type} ${value}`);
}

async function serial(of = zone): Promise<number> {
  return (await stack.api.call("GET", `/api/v1/rr/${of}`)).body.serial;
}

/** A record to be added to the zone. */
const addition = (owner: string, type: string, value: string, of = zone) => added(`${owner}.${of}`, type, value);

function deletion(owner: MessageRecord["owner"], type: number): MessageRecord {
  return { owner, type, class: CLASS.ANY, ttl: 0, rdata: new Uint8Array(0) };
}

/** An UPDATE of the zone. */
function signed(
  updates: readonly MessageRecord[],
  { as = key, of = zone, prerequisites = [] as readonly MessageRecord[] } = {},
) {
  return signUpdate(of, as, { updates, prerequisites });
}

/** Sends it once by UDP. @returns the response code */
async function send(octets: Uint8Array, sendings = 1): Promise<number> {
  const answer = await exchangeDatagram(octets, stack, { sendings, everyMs: 12_000 });
  const decoded = decodeMessage(answer);
  if (!decoded.ok) throw new Error(decoded.error.message);
  expect(decoded.value).toMatchObject({ opcode: 5, flags: { qr: true } });
  return decoded.value.rcode;
}

describe("an update", () => {
  it.skipIf(absence !== "")(`by nsupdate is made before it is answered, by UDP and by TCP${absence}`, async () => {
    expect(await nsupdate(stack, key, [`zone ${zone}`, `update add www.${zone} 60 A 192.0.2.1`])).toBe("NOERROR");
    expect(await records()).toContain("www A 192.0.2.1");
    expect(await nsupdate(stack, key, [`zone ${zone}`, `update delete www.${zone} A`], ["-v"])).toBe("NOERROR");
    expect(await records()).not.toContain("www A 192.0.2.1");
  });

  it("is answered with its zone section and a signature", async () => {
    const { octets, mac, key: own } = signed([addition("signed", "A", "192.0.2.1")]);
    const answer = await exchangeDatagram(octets, stack, { sendings: 1, everyMs: 12_000 });
    const verifier = new TsigVerifier(own, mac);
    expect(verifier.verify(answer, Math.floor(Date.now() / 1000)).ok).toBe(true);
    expect(decodeMessage(answer)).toMatchObject({ value: { rcode: 0, questions: [{ type: TYPE.SOA }] } });
  });

  it("is a change like any other: history, IXFR and name server have it", async () => {
    const before = await serial();
    expect(await send(signed([addition("history", "TXT", "one")]).octets)).toBe(RCODE.NOERROR);
    expect(await serial()).toBe(before + 1);
    const { body } = await stack.api.call("GET", `/api/v1/zone_history/${zone}`);
    expect(body.history[0].actor).toMatch(/^reseller:one token:key1$/);
  });

  it("may be as large as a message", async () => {
    const of = await stack.makeZone();
    const all = Array.from({ length: 3_000 }, (_, index) => addition(`n${index}`, "A", "192.0.2.1", of));
    const { octets } = signed(all, { of });
    expect(octets.length).toBeGreaterThan(50_000);
    await sendByTcp(octets, 1);
    expect(await records(of)).toHaveLength(3_001);
    await sendByTcp(
      signed(
        all.map(({ owner, type }) => deletion(owner, type)),
        { of },
      ).octets,
      1,
    );
    expect(await records(of)).toHaveLength(1);
  });

  it("that changes nothing leaves the serial", async () => {
    const before = await serial();
    expect(await send(signed([bare(`none.${zone}.`, "ANY", CLASS.ANY)]).octets)).toBe(RCODE.NOERROR);
    expect(await serial()).toBe(before);
  });

  it("whose prerequisites are not met says which", async () => {
    const wanted = [addition("history", "A", "192.0.2.1")];
    const rcodeOf = (prerequisite: MessageRecord) => send(signed(wanted, { prerequisites: [prerequisite] }).octets);
    expect(await rcodeOf(bare(`none.${zone}.`, "ANY", CLASS.ANY))).toBe(RCODE.NXDOMAIN);
    expect(await rcodeOf(bare(`history.${zone}.`, "ANY", CLASS.NONE))).toBe(RCODE.YXDOMAIN);
    expect(await rcodeOf(bare(`history.${zone}.`, "MX", CLASS.ANY))).toBe(RCODE.NXRRSET);
    expect(await rcodeOf(bare(`history.${zone}.`, "TXT", CLASS.NONE))).toBe(RCODE.YXRRSET);
    expect(await records()).not.toContain("history A 192.0.2.1");
  });

  it("asks by its prerequisites for nothing that its key is not for", async () => {
    const rcodeOf = (prerequisite: MessageRecord) =>
      send(signed([], { as: acme, prerequisites: [prerequisite] }).octets);
    for (const type of ["ANY", "TXT"] as const) {
      for (const which of [CLASS.ANY, CLASS.NONE]) {
        expect(await rcodeOf(bare(`history.${zone}.`, type, which))).toBe(RCODE.REFUSED);
      }
    }
    expect(await rcodeOf({ ...addition("history", "TXT", "one"), ttl: 0 })).toBe(RCODE.REFUSED);
    expect(await rcodeOf(bare(`_acme-challenge.none.${zone}.`, "TXT", CLASS.NONE))).toBe(RCODE.NOERROR);
  });

  it("of a signed zone is signed with it", async () => {
    const of = await stack.makeZone();
    expect(await stack.api.call("PUT", `/api/v1/dnssec/${of}`, { enabled: true })).toMatchObject({ status: 200 });
    expect(await send(signed([addition("www", "A", "192.0.2.1", of)], { of }).octets)).toBe(RCODE.NOERROR);
    const rows = await stack.api.database
      .db("derived_records as d")
      .join("zones as z", "z.id", "d.zone_id")
      .where({ "z.name": of, "d.type": TYPE.RRSIG, owner: Buffer.from(nameOf(`www.${of}`).wire) });
    expect(rows).toHaveLength(2);
    const key256 = {
      ...addition("www", "A", "192.0.2.1", of),
      type: TYPE.CDS,
      rdata: Buffer.from("000100020300", "hex"),
    };
    expect([RCODE.REFUSED, RCODE.FORMERR]).toContain(await send(signed([key256], { of }).octets));
  });

  it("of a calendar zone goes on when the day's hundred is used up", async () => {
    const of = await stack.makeZone({ serial_type: "calendar" });
    for (let index = 0; index < 105; index += 1) {
      const { octets } = signed([addition(`n${index}`, "A", "192.0.2.1", of)], { of });
      expect(await send(octets)).toBe(RCODE.NOERROR);
    }
  });
});

describe("what is refused", () => {
  const www = () => addition("refused", "A", "192.0.2.1");

  it("has no signature, a wrong one, or a key that nobody knows", async () => {
    const question = [{ name: nameOf(zone), type: TYPE.SOA as number, class: CLASS.IN as number }];
    expect(await send(updateMessage([www()], [], question))).toBe(RCODE.REFUSED);
    expect(await send(updateMessage([www()], [], []))).toBe(RCODE.FORMERR);
    const other = { ...key, secret: Buffer.alloc(32).toString("base64") };
    expect(await send(signed([www()], { as: other }).octets)).toBe(RCODE.NOTAUTH);
    expect(await send(signed([www()], { as: { ...key, name: "nobody" } }).octets)).toBe(RCODE.NOTAUTH);
  });

  it("is malformed or outside the zone", async () => {
    expect(await send(signed([{ ...www(), rdata: Uint8Array.of(1) }]).octets)).toBe(RCODE.FORMERR);
    expect(await send(signed([addition("www", "A", "192.0.2.1", "example.net")]).octets)).toBe(RCODE.NOTZONE);
  });

  it("is for a zone that is not here, takes no updates, is suspended, or is somebody else's", async () => {
    expect(await send(signed([], { of: "elsewhere.example" }).octets)).toBe(RCODE.NOTAUTH);
    const of = await stack.makeZone();
    const add = () => send(signed([addition("www", "A", "192.0.2.1", of)], { of }).octets);
    await stack.api.call("DELETE", `/api/v1/updates/${of}`);
    expect(await add()).toBe(RCODE.REFUSED);
    expect(await stack.api.call("PUT", "/api/v1/updates", { enabled: true })).toMatchObject({ status: 200 });
    expect((await stack.api.call("GET", `/api/v1/updates/${of}`)).body).toEqual({
      ...{ domain: of, enabled: true, default: true },
    });
    expect(await add()).toBe(RCODE.NOERROR);
    await stack.api.call("PUT", "/api/v1/updates", { enabled: false });
    await stack.api.call("PUT", `/api/v1/updates/${of}`, { enabled: true });
    await stack.api.call("PUT", `/api/v1/suspend_zone/${of}`, { crm_id: "acme" });
    expect(await add()).toBe(RCODE.NOTAUTH);
    await stack.api.call("PUT", `/api/v1/resume_zone/${of}`, { crm_id: "acme" });
    const { body } = await stack.api.call(
      "POST",
      "/api/v1/token",
      { name: "other", access: "write", tsig: "hmac-sha256" },
      { reseller: "two", key: "key-of-reseller-two" },
    );
    await untilKeyIsKnown(stack, zone, body.tsig);
    expect(await send(signed([addition("www", "A", "192.0.2.9", of)], { of, as: body.tsig }).octets)).toBe(
      RCODE.REFUSED,
    );
    expect(await records(of)).not.toContain("www A 192.0.2.9");
  });

  it("is more than the key's policy allows, also where nothing would change", async () => {
    const as = acme;
    expect(await send(signed([addition("_acme-challenge", "TXT", "one")], { as }).octets)).toBe(RCODE.NOERROR);
    expect(await send(signed([addition("_acme-challenge.www", "TXT", "one")], { as }).octets)).toBe(RCODE.NOERROR);
    expect(await send(signed([bare(`_acme-challenge.${zone}.`, "TXT", CLASS.ANY)], { as }).octets)).toBe(RCODE.NOERROR);
    expect(await send(signed([www()], { as }).octets)).toBe(RCODE.REFUSED);
    expect(await send(signed([addition("_acme-challenge", "A", "192.0.2.1")], { as }).octets)).toBe(RCODE.REFUSED);
    expect(await send(signed([bare(`none.${zone}.`, "ANY", CLASS.ANY)], { as }).octets)).toBe(RCODE.REFUSED);
    expect(stack.api.observations).toContainEqual(
      expect.objectContaining({ kind: "update-refused", level: "info", refusal: "token-names" }),
    );
    const told = stack.api.observations.filter(
      (one) => one.kind === "update-refused" && one.level === "info" && one.refusal === "token-names",
    );
    expect(told.length, "once a minute").toBeLessThanOrEqual(2);
  });

  it("comes from elsewhere than the key is for, or is signed with a secondary's key", async () => {
    const far = await stack.makeKey({ networks: ["192.0.2.0/24"] });
    const secret = Buffer.alloc(32, 7);
    const tsig = { name: "secondary.example", algorithm: "hmac-sha256" as const, secret };
    const acl = { resellerId: "one", name: "secondary", blocks: [], tsig, zones: null, notify: [] };
    await addAcl(stack.api.database.db, KEY_RING, acl);
    const secondary = { name: tsig.name, secret: secret.toString("base64") };
    for (const one of [far, secondary]) await untilKeyIsKnown(stack, zone, one);
    expect(await send(signed([www()], { as: far }).octets)).toBe(RCODE.REFUSED);
    expect(await send(signed([www()], { as: secondary }).octets)).toBe(RCODE.REFUSED);
  });

  it("is more than a quota allows", async () => {
    const { db } = stack.api.database;
    await stack.api.call("POST", "/api/v1/company", { crm_id: "small", name: "Small", apikey: "small-api-key-0001" });
    const of = await stack.makeZone({ crm_id: "small" });
    await setLimits(db, (await findQuotaOwner(db, "one", "small"))!, { records: 3 });
    const add = (owner: string) => send(signed([addition(owner, "A", "192.0.2.1", of)], { of }).octets);
    expect([await add("a"), await add("b"), await add("c")]).toEqual([RCODE.NOERROR, RCODE.NOERROR, RCODE.REFUSED]);
    expect(await serial(of)).toBe(3);
  });

  it("would put what no zone may hold", async () => {
    const soa = addition("@", "SOA", "ns1.example.net. host@master.example.net. 1000000 1 1 1 1");
    expect(await send(signed([{ ...soa, owner: nameOf(zone) }]).octets)).toBe(RCODE.REFUSED);
  });
});

describe("an update that comes more than once", () => {
  it("is made once, and answered each time alike", async () => {
    const before = await serial();
    const { octets } = signed([addition("once", "A", "192.0.2.1")], {
      prerequisites: [bare(`once.${zone}.`, "ANY", CLASS.NONE)],
    });
    expect(await Promise.all([send(octets), send(octets), send(octets)])).toEqual([0, 0, 0]);
    expect(await send(octets)).toBe(RCODE.NOERROR);
    expect(await serial()).toBe(before + 1);
  });

  it("by TCP is made once as well", async () => {
    const before = await serial();
    const { octets } = signed([addition("stream", "A", "192.0.2.1")]);
    await sendByTcp(octets, 3);
    expect(await serial()).toBe(before + 1);
  });
});

it("updates of one RRset at the same time lose nothing", async () => {
  const before = await serial();
  const sent = Array.from({ length: 64 }, (_, index) => signed([addition("race", "A", `192.0.2.${index}`)]));
  expect(await Promise.all(sent.map(({ octets }) => send(octets)))).toEqual(sent.map(() => RCODE.NOERROR));
  expect((await records()).filter((record) => record.startsWith("race A"))).toHaveLength(64);
  expect(await serial()).toBe(before + 64);
});

describe("while many updates wait", () => {
  const received = (of: string, index: number, client = "127.0.0.1") => {
    const { octets } = signed([addition(`many${index}`, "A", "192.0.2.1", of)], { of });
    const digest = createHash("sha256").update(octets).digest();
    return { apex: nameOf(of), message: octets, digest, client, beginBy: null };
  };
  const many = (of: string, count: number, client?: string) =>
    Array.from({ length: count }, (_, index) => received(of, index, client));

  it("for a zone that is being changed, those of others are made", async () => {
    const { db } = stack.api.database;
    const [held, other] = [await stack.makeZone(), await stack.makeZone()];
    await db.transaction(async (transaction) => {
      await transaction("zones").where({ name: held }).forUpdate().select("id");
      await queueUpdates(db, many(held, 300));
      expect(await send(signed([addition("other", "A", "192.0.2.1", other)], { of: other }).octets)).toBe(0);
    });
    expect(await records(other)).toContain("other A 192.0.2.1");
  });

  describe("those are taken up", () => {
    let zones: string[];
    const foreign: string[] = [];

    beforeAll(async () => {
      const { db } = stack.api.database;
      await eventually(async () => (await listWaitingUpdates(db, [], 1)).length === 0, 60_000);
      zones = [];
      for (let index = 0; index < 4; index++) zones.push(await stack.makeZone());
      for (const crm_id of ["second", "third"]) {
        await stack.api.call("POST", "/api/v1/company", { crm_id, name: crm_id, apikey: `${crm_id}-api-key-0001` });
        foreign.push(await stack.makeZone({ crm_id }), await stack.makeZone({ crm_id }));
      }
    });

    /** Puts requests in the queue, looks twice what is taken up, and undoes it. @returns zone and client of each */
    const taken = async (...batches: readonly ReturnType<typeof many>[]) => {
      const transaction = await stack.api.database.db.transaction();
      try {
        for (const batch of batches) await queueUpdates(transaction, batch);
        const first = await listWaitingUpdates(transaction, [], 200);
        const inWork = first.map(({ id }) => id);
        const second = await listWaitingUpdates(transaction, inWork, 200);
        await transaction("dns_updates").where({ id: inWork[0] }).update({ rcode: 0 });
        const third = await listWaitingUpdates(transaction, inWork.slice(1), 200);
        return { first: first.map(shown), second: second.map(shown), third: third.map(shown) };
      } finally {
        await transaction.rollback();
      }
    };
    const shown = ({ message, client }: { readonly message: Buffer; readonly client: string }) => {
      const decoded = decodeMessage(message);
      if (!decoded.ok) throw new Error(decoded.error.message);
      return `${formatDomainName(decoded.value.questions[0]!.name).slice(0, -1)} ${client}`;
    };
    const [one, two] = ["127.0.0.1", "127.0.0.2"];

    it("that come alone, and a few of the zone that has many", async () => {
      const [busy, quiet] = zones.map((of) => `${of} ${one}`);
      const { first, second, third } = await taken(many(zones[0]!, 1_000), many(zones[1]!, 1));
      expect(first).toEqual([busy, quiet, ...Array(15).fill(busy)]);
      expect(second).toEqual([]);
      expect(third).toEqual([busy]);
    });

    it("of another company, however many zones the one has", async () => {
      const { first, second } = await taken(...zones.map((of) => many(of, 100)), many(foreign[0]!, 1));
      expect(first).toHaveLength(25);
      expect(first.indexOf(`${foreign[0]} ${one}`)).toBe(1);
      expect(second).toEqual([]);
    });

    it("no more than a share of a reseller", async () => {
      const { first } = await taken(...[...zones, ...foreign].map((of) => many(of, 100)));
      expect(first).toHaveLength(48);
      expect(new Set(first).size).toBe(8);
    });

    it("of a client that comes alone, however many others come for the zone", async () => {
      const { first } = await taken(many(zones[0]!, 1_000), many(zones[0]!, 1, two));
      expect(first).toEqual([one, two, ...Array(14).fill(one)].map((client) => `${zones[0]} ${client}`));
    });
  });
});

describe("a name server that somebody took over", () => {
  const insert = (message: Uint8Array, fields: object = {}) =>
    stack.api.database
      .db("dns_updates")
      .insert({
        zone_id: stack.api.database.db("zones").where({ name: zone }).select("id"),
        digest: createHash("sha256").update(message).digest(),
        // However late it is looked at.
        ...{ begin_by: new Date(Date.now() + 60_000), received_at: new Date(Date.now() + 60_000) },
        ...{ message: Buffer.from(message), client: "127.0.0.1", ...fields },
      })
      .returning("id");
  const rcodeOf = async ([row]: { id: number }[]) =>
    (await stack.api.database.db("dns_updates").where({ id: row!.id }).first("rcode")).rcode;

  it("can make up no requests, nor have one made twice", async () => {
    const question = [{ name: nameOf(zone), type: TYPE.SOA as number, class: CLASS.IN as number }];
    const { octets } = signed([addition("forged", "A", "192.0.2.1")]);
    const forged = octets.slice();
    forged[octets.length - 60]! ^= 1;
    const ids = [
      await insert(updateMessage([addition("forged", "A", "192.0.2.1")], [], question)),
      await insert(forged),
      await insert(octets, { digest: Buffer.alloc(32, 9) }),
    ];
    await eventually(async () => (await Promise.all(ids.map(rcodeOf))).every((rcode) => rcode !== null), 60_000);
    expect((await Promise.all(ids.map(rcodeOf))).every((rcode) => rcode > 0)).toBe(true);
    expect(await records()).not.toContain("forged A 192.0.2.1");
  });

  it("has nothing made that was held up on its way", async () => {
    const { db } = stack.api.database;
    const { octets } = signed([addition("held", "A", "192.0.2.1")]);
    const digest = createHash("sha256").update(octets).digest();
    const update = {
      apex: nameOf(zone),
      message: octets,
      digest,
      client: "127.0.0.1",
      beginBy: new Date(Date.now() - 1),
    };
    expect(await queueUpdates(db, [update])).toMatchObject({ queued: [{ kind: "waiting" }] });
    await sleep(1_500);
    expect(await records()).not.toContain("held A 192.0.2.1");
  });

  it("has nothing made whose time is over", async () => {
    const { octets } = signed([addition("late", "A", "192.0.2.1")]);
    const ids = await insert(octets, { begin_by: new Date(Date.now() - 1) });
    await sleep(2_500);
    expect(await rcodeOf(ids)).toBeNull();
    expect(await records()).not.toContain("late A 192.0.2.1");
  });
});

it("while the database is away the answer is SERVFAIL, and nothing is made of it later", async () => {
  await stack.gate.shut();
  try {
    expect(await send(signed([addition("away", "A", "192.0.2.1")]).octets)).toBe(RCODE.SERVFAIL);
  } finally {
    await stack.gate.open();
  }
  const again = async () => (await send(signed([addition("back", "A", "192.0.2.1")]).octets)) === RCODE.NOERROR;
  await eventually(again, 60_000);
  expect(await records()).not.toContain("away A 192.0.2.1");
});

function sendByTcp(octets: Uint8Array, times: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(stack.port, stack.host);
    let received = Buffer.alloc(0);
    socket.on("error", reject);
    socket.on("data", (chunk) => {
      received = Buffer.concat([received, chunk]);
      const length = received.length < 2 ? Number.POSITIVE_INFINITY : 2 + received.readUInt16BE(0);
      if (received.length >= times * length) socket.end(() => resolve());
    });
    const framed = Buffer.concat([Buffer.from([octets.length >> 8, octets.length & 0xff]), octets]);
    for (let sent = 0; sent < times; sent += 1) socket.write(framed);
  });
}

it("that the database takes only when its client has been answered is forgotten, and those behind it are not made", async () => {
  const { database } = stack.api;
  const db = openDb(database.url, { connections: 2, name: "late" });
  const queue = new UpdateQueue({
    db,
    openConnection: () => openListenConnection(database.url, "late"),
    isDatabaseAway: () => false,
    observe: (observation) => expect(observation).toBeUndefined(),
  });
  let statements = 0;
  db.client.pool.on("acquireRequest", () => {
    statements += 1;
  });
  const hold = await database.db.transaction();
  try {
    await hold.raw("lock table dns_updates in share row exclusive mode");
    const client = new Client();
    client.setAddress("127.0.0.1");
    const submit = (owner: string) => queue.submit(signed([addition(owner, "A", "192.0.2.1")]).octets, client);
    const both = Promise.all([submit("first"), submit("second")]);
    expect(await both).toEqual([RCODE.SERVFAIL, RCODE.SERVFAIL]);
    await hold.rollback();
    // What took so long says when it was done, not when it began: this one is not too late already.
    expect(await submit("third")).toBe(RCODE.NOERROR);
    statements = 0;
    // A look at the answers each half second, where anybody waits for one.
    await sleep(2_000);
    expect(statements).toBe(0);
    expect((await records()).filter((record) => /^(first|second) /.test(record))).toEqual([]);
  } finally {
    await hold.rollback();
    await queue.stop();
    await db.destroy();
  }
});
