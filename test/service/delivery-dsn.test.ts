import { readFileSync } from "node:fs";
import { describe, expect, inject, it, vi } from "vitest";
import { validateAddress } from "../../services/core/mail/address.ts";
import type { RecipientDsn } from "../../services/core/mail/dsn-parameters.ts";
import { readDeliveryPolicy } from "../../services/delivery/policy.ts";
import { startReporter } from "../../services/delivery/reporter.ts";
import { acceptSend } from "../../services/operations/mail/accept-sends.ts";
import { type ReportPolicy, sendDueReport } from "../../services/operations/mail/send-reports.ts";
import { systemClock } from "../../services/platform/clock.ts";
import type { Observation } from "../../services/platform/observability/observation.ts";
import {
  endWatches,
  listReportingInstances,
  listWatchesOver,
} from "../../services/store/mail/queue/delivery-reports.ts";
import type { ReportRequest } from "../../services/store/mail/sends/messages.ts";
import { accepted } from "../support/accepted.ts";
import {
  addSender,
  DOMAIN,
  database,
  eventually,
  failures,
  instanceId,
  makeWorker,
  routes,
  run,
  setUpDelivery,
  sink,
  untilSent,
} from "../support/delivery.ts";
import { hourLeft } from "../support/hour-left.ts";

setUpDelivery();

const isSpread = inject("citusWorkers").length > 0;
const why = isSpread ? " (skipped: on Citus no trigger refuses what is written)" : "";

const read = readDeliveryPolicy(JSON.parse(readFileSync("config/delivery.json", "utf8")));
if (!read.ok) throw new Error(read.error);
const POLICY: ReportPolicy = { ...read.value.reports, gatherSeconds: 0 };
const host = () => ({ hostname: "mx.example.org", giveUpHours: 72, now: new Date() });
const REQUEST: ReportRequest = {
  mailFrom: `info@${DOMAIN}`,
  international: false,
  returns: "full",
  envelopeId: "a+2Bb",
};

async function submit(
  recipients: Readonly<Record<string, RecipientDsn>>,
  dsn: ReportRequest = REQUEST,
  of = instanceId,
): Promise<string> {
  const send = {
    ...{
      instanceId: of,
      campaignNumid: 1,
      creator: "smtp",
      senderDomain: DOMAIN,
      sender: `info@${DOMAIN}`,
      copies: [],
      archive: false,
      dsn,
    },
    content: {
      kind: "finished" as const,
      octets: Buffer.from("From: info@sender.example.org\r\nMessage-ID: <1@x>\r\n\r\nHi\r\n"),
    },
    recipients: Object.entries(recipients).map(([text, dsn]) => {
      const address = validateAddress(text, { allowSmtputf8: true });
      if (!address.ok) throw new Error(text);
      return { address: address.value, dsn };
    }),
  };
  return accepted(await database.db.transaction((transaction) => acceptSend(transaction, send))).eeid;
}

const due = () =>
  database.db("delivery_reports").where({ state: "due" }).orderBy("id").select("kind", "action", "recipient", "words");
const reportBatches = () => database.db("messages").where({ is_report: true }).orderBy("id").select("octets", "eeid");

/** Writes down what it hears, with or without the extension. */
async function recorder(offersDsn: boolean) {
  const commands: string[] = [];
  const logger = {
    ...{ info: () => {}, warn: () => {}, error: () => {}, trace: () => {}, fatal: () => {}, level: () => {} },
    debug: (_entry: object, _format: string, ...values: unknown[]) => commands.push(values.map(String).join(" ")),
  };
  const far = await sink({ hideDSN: !offersDsn, logger: logger as never });
  return { far, said: (verb: string) => commands.filter((command) => command.startsWith(verb)).at(-1) };
}

describe("a next hop that offers DSN", () => {
  it("gets what the client asked for, and tells of successes itself", async () => {
    const { far, said } = await recorder(true);
    run(makeWorker(routes({ "with.example.net": far.port })));
    const eeid = await submit({
      "one@with.example.net": { notify: ["success", "failure"], originalRecipient: "rfc822;Old+2Bx@example.org" },
    });
    await untilSent(eeid);
    expect(said("MAIL")).toMatch(/ RET=FULL ENVID=a\+2Bb$/);
    expect(said("RCPT")).toBe("RCPT TO:<one@with.example.net> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;Old+2Bx@example.org");
    expect(await due()).toEqual([]);
  });

  it("is to tell our return path of failures whatever the client wants, and gets an address beyond ASCII in ASCII", async () => {
    const { far, said } = await recorder(true);
    run(makeWorker(routes({ "with.example.net": far.port })));
    await untilSent(
      await submit({ "one@with.example.net": { notify: [], originalRecipient: "utf-8;rené@example.org" } }),
    );
    expect(said("RCPT")).toBe("RCPT TO:<one@with.example.net> NOTIFY=FAILURE ORCPT=utf-8;ren\\x{E9}@example.org");
  });

  it("gets nothing that the client did not say", async () => {
    const { far, said } = await recorder(true);
    run(makeWorker(routes({ "with.example.net": far.port })));
    await untilSent(await submit({ "one@with.example.net": {} }, { mailFrom: `info@${DOMAIN}`, international: false }));
    expect(said("MAIL")).not.toMatch(/RET|ENVID/);
    expect(said("RCPT")).toBe("RCPT TO:<one@with.example.net>");
  });
});

describe("a next hop without DSN", () => {
  it("gets no parameters, and the sender is told that the message was relayed", async () => {
    const { far, said } = await recorder(false);
    run(makeWorker(routes({ "without.example.net": far.port })));
    const wanted = { notify: ["success"], originalRecipient: "rfc822;x@example.org" } as const;
    await untilSent(
      await submit({ "one@without.example.net": wanted, "two@without.example.net": { notify: ["failure"] } }),
    );
    expect(said("MAIL")).not.toMatch(/RET|ENVID/);
    expect(said("RCPT")).not.toMatch(/NOTIFY|ORCPT/);
    expect(await due()).toMatchObject([{ kind: "success", action: "relayed", recipient: "one@without.example.net" }]);
  });
});

describe("a delay", () => {
  it("is told once, of what is still queued after hours; of what is not, nothing is", async () => {
    const far = await sink();
    const late = await sink({
      onRcptTo: (_address, _session, done) => done(Object.assign(new Error("4.2.0 later"), { responseCode: 450 })),
    });
    run(makeWorker(routes({ "late.example.net": late.port, "quick.example.net": far.port }), {}, [600]));
    const at = { notify: ["delay"] } as const;
    await submit({
      "one@late.example.net": at,
      "two@quick.example.net": at,
      "three@late.example.net": { notify: ["failure"] },
    });
    await eventually(
      () => database.db("deliveries").where({ attempts: 1 }),
      (rows) => rows.length === 3,
    );
    await endWatches(database.db, instanceId, 4);
    expect(await due()).toEqual([]);
    await database.db("delivery_reports").update({ created_at: database.db.raw("now() - interval '4 hours'") });
    await endWatches(database.db, instanceId, 4);
    expect(await due()).toMatchObject([
      { kind: "delay", action: "delayed", recipient: "one@late.example.net", words: expect.stringContaining("450") },
    ]);
    expect(await sendDueReport(database.db, POLICY, host(), instanceId)).toEqual({
      kind: "delay",
      recipients: 1,
      outcome: "sent",
    });
    await endWatches(database.db, instanceId, 4);
    expect(await sendDueReport(database.db, POLICY, host(), instanceId)).toBeUndefined();
    const [report] = await reportBatches();
    expect(report!.octets.toString()).toMatch(/^Will-Retry-Until: /m);
    // RFC 3461 §4.3: whatever RET says.
    expect(report!.octets.toString()).toMatch(/^Content-Type: text\/rfc822-headers\r$/m);
  });
});

describe("what was watched for delays", () => {
  const watched = async () => (await database.db("delivery_reports").where({ state: "watching" })).length;

  it("is forgotten a thousand at a time, until nothing is left, while reports are sent", async () => {
    const { db } = database;
    const recipients = Array.from(
      { length: 2_500 },
      (_, n) => [`r${n}@one.example.net`, { notify: ["delay"] }] as const,
    );
    await submit(Object.fromEntries(recipients));
    expect(await watched()).toBe(2_500);
    expect(await listWatchesOver(db, 4)).toEqual([]);
    await db("deliveries").whereNot({ recipient: "r7@one.example.net" }).update({ state: "delivered" });
    await db("delivery_reports").update({ created_at: db.raw("now() - interval '4 hours'") });
    expect(await listWatchesOver(db, 4)).toEqual([instanceId]);
    expect(await endWatches(db, instanceId, 4)).toBe(true);
    expect(await watched()).toBe(1_500);
    // No time passes in which it would look again.
    const time = vi.spyOn(performance, "now").mockReturnValue(performance.now());
    const policy = { ...POLICY, delayHours: 4 };
    const surroundings = { db, clock: systemClock, observe: () => {}, hostname: "mx.example.org", giveUpHours: 72 };
    const reporter = startReporter({ ...surroundings, policy });
    try {
      await eventually(
        () => db("delivery_reports").select("state", "recipient"),
        (reports) => reports.length === 1 && reports[0].state === "told",
      );
    } finally {
      await reporter.stop();
      time.mockRestore();
    }
    expect(await db("delivery_reports").pluck("recipient")).toEqual(["r7@one.example.net"]);
  });
});

describe("what is due", () => {
  it("is told once by any number of processes at the same time, and never lost", async () => {
    run(makeWorker(routes({})));
    const wanted = { notify: ["failure"] } as const;
    for (let i = 0; i < 10; i++) await submit({ [`a${i}@one.example.net`]: wanted, [`b${i}@two.example.net`]: wanted });
    await eventually(due, (rows) => rows.length === 20);
    // One that dies in the midst: nothing of it is stored.
    const broken = database.db.transaction(async (transaction) => {
      await sendDueReport(transaction as never, POLICY, host(), instanceId);
      throw new Error("killed");
    });
    await expect(broken).rejects.toThrow("killed");
    expect(await reportBatches()).toEqual([]);
    const tellAll = async () => {
      let told = 0;
      while ((await sendDueReport(database.db, POLICY, host(), instanceId)) !== undefined) told += 1;
      return told;
    };
    const told = await Promise.all([tellAll(), tellAll(), tellAll()]);
    expect(told.reduce((sum, count) => sum + count)).toBe(10);
    expect(await reportBatches()).toHaveLength(10);
    expect(await due()).toEqual([]);
    for (const { octets } of await reportBatches())
      expect(octets.toString().match(/^Final-Recipient/gm)).toHaveLength(2);
  });

  it("of a sender that has had enough is put off at once, and nobody else's with it", async () => {
    run(makeWorker(routes({})));
    for (let i = 0; i < 6; i++) await submit({ [`a${i}@one.example.net`]: {} });
    await submit({ "b@one.example.net": {} }, { ...REQUEST, mailFrom: `other@${DOMAIN}` });
    await eventually(due, (rows) => rows.length === 7);
    await hourLeft(60_000);
    const policy = { ...POLICY, reportsPerHour: 1 };
    const outcomes = [];
    for (let i = 0; i < 3; i++) outcomes.push(await sendDueReport(database.db, policy, host(), instanceId));
    expect(outcomes.map((report) => `${report?.outcome} ${report?.recipients}`).toSorted()).toEqual([
      "put-off 5",
      "sent 1",
      "sent 1",
    ]);
    expect(await sendDueReport(database.db, policy, host(), instanceId)).toBeUndefined();
    expect(await listReportingInstances(database.db, POLICY.gatherSeconds)).toEqual([]);
  });

  it("goes by instance, in turns", async () => {
    run(makeWorker(routes({})));
    await submit({ "a@one.example.net": {} });
    await eventually(due, (rows) => rows.length === 1);
    expect(await listReportingInstances(database.db, POLICY.gatherSeconds)).toEqual([instanceId]);
    expect(await sendDueReport(database.db, POLICY, host(), instanceId + 1)).toBeUndefined();
    expect((await sendDueReport(database.db, POLICY, host(), instanceId))?.outcome).toBe("sent");
  });

  it("is bounded for each sender, and told later", async () => {
    run(makeWorker(routes({})));
    for (let i = 0; i < 3; i++) await submit({ [`a${i}@one.example.net`]: {} });
    await submit({ "b@one.example.net": {} }, { ...REQUEST, mailFrom: `other@${DOMAIN}` });
    await eventually(due, (rows) => rows.length === 4);
    await hourLeft(60_000);
    const policy = { ...POLICY, reportsPerHour: 2 };
    const outcomes = [];
    for (let i = 0; i < 4; i++) outcomes.push((await sendDueReport(database.db, policy, host(), instanceId))?.outcome);
    expect(outcomes.toSorted()).toEqual(["put-off", "sent", "sent", "sent"]);
    expect(await sendDueReport(database.db, policy, host(), instanceId)).toBeUndefined();
    await database.db("delivery_reports").where({ state: "due" }).update({ due_at: database.db.fn.now() });
    const tomorrow = { ...host(), now: new Date(Date.now() + 25 * 3_600_000) };
    expect((await sendDueReport(database.db, policy, tomorrow, instanceId))?.outcome).toBe("withheld");
    expect(failures).toEqual([]);
  });

  it.skipIf(isSpread)(
    `and cannot be told of one message, or of one instance, is told of all others${why}`,
    async () => {
      const { db } = database;
      run(makeWorker(routes({})));
      const longDomain = [..."abc"]
        .map((label) => label.repeat(63))
        .concat("d".repeat(44), "test")
        .join(".");
      const [long, away] = [await addSender("long", longDomain), await addSender("away", "away.example.org")];
      const unmade = await submit({ "a@one.example.net": {} }, { ...REQUEST, mailFrom: `a@${longDomain}` }, long);
      await submit({ "b@one.example.net": {} }, { ...REQUEST, mailFrom: "b@away.example.org" }, away);
      const unreadable = await submit({ "c@one.example.net": {} });
      await eventually(due, (rows) => rows.length === 3);
      await submit({ "d@one.example.net": {} });
      await eventually(due, (rows) => rows.length === 4);
      await db("messages").where({ eeid: unreadable }).update({ dsn: "{}" });
      // Whatever is written for this one, the database refuses.
      await db.raw(
        `create function refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$;
       create trigger refused before insert on report_counts for each row when (new.instance_id = ${away}) execute function refuse()`,
      );
      const seen: Observation[] = [];
      const surroundings = { db, clock: systemClock, hostname: "mx.example.org", giveUpHours: 72 };
      const observe = (observation: Observation) => void seen.push(observation);
      const reporter = startReporter({ ...surroundings, observe, policy: { ...POLICY, delayHours: 4 } });
      const states = () =>
        db("delivery_reports").whereNot({ state: "watching" }).orderBy("recipient").select("recipient", "state");
      const wanted = ["withheld", "due", "withheld", "told"];
      await eventually(states, (rows) => rows.map(({ state }) => state).join() === wanted.join());
      const named = () => seen.map((one) => ("eeid" in one ? one.eeid : "instanceId" in one && one.instanceId));
      await expect.poll(named).toEqual(expect.arrayContaining([unmade, unreadable, away]));
      await reporter.stop();
    },
  );

  it("brings nothing to a domain that belongs to somebody else", async () => {
    run(makeWorker(routes({})));
    await submit({ "a@one.example.net": {} }, { ...REQUEST, mailFrom: "victim@example.com" });
    await eventually(due, (rows) => rows.length === 1);
    expect((await sendDueReport(database.db, POLICY, host(), instanceId))?.outcome).toBe("withheld");
    expect(await reportBatches()).toEqual([]);
  });
});
