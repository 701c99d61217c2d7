import { request } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";
import { changeUpkeep, noteStsGone, setStsExchangers } from "../../services/store/mail/instances/domain-upkeep.ts";
import { start as startTracking } from "../../services/tracking/main.ts";
import { startConsole, type TestConsole } from "../support/console.ts";

let palomar: TestConsole;
let url: string;

beforeAll(async () => {
  palomar = await startConsole([startTracking], { PALOMAR_TRACKING_LISTEN: "127.0.0.1:0" });
  const { db } = palomar.context;
  const { id } = await db("instances").where({ name: "north" }).first();
  const of = { instanceId: id, domain: "north.example.org" };
  await changeUpkeep(db, of, { stsMode: "enforce" });
  await setStsExchangers(db, of, ["mx1.example.org", "mx2.example.org"]);
  url = `${await palomar.context.addressOf("tracking")}/.well-known/mta-sts.txt`;
});
afterAll(async () => {
  await palomar.stop();
  expect(palomar.failures).toEqual([]);
});

test("a domain's policy is served at its policy host", async () => {
  const answer = await request(url, { headers: { host: "mta-sts.North.example.org" } });
  expect(answer.statusCode).toBe(200);
  expect(answer.headers["content-type"]).toContain("text/plain");
  const text = await answer.body.text();
  expect(text).toBe(
    "version: STSv1\r\nmode: enforce\r\nmx: mx1.example.org\r\nmx: mx2.example.org\r\nmax_age: 604800\r\n",
  );
});

test("one that is withdrawn is served with mode none until its records are gone", async () => {
  const { db } = palomar.context;
  const { id } = await db("instances").where({ name: "north" }).first();
  const of = { instanceId: id, domain: "north.example.org" };
  const ask = () => request(url, { headers: { host: "mta-sts.north.example.org" } });
  await changeUpkeep(db, of, { stsMode: null, stsEndsAt: new Date() });
  const answer = await ask();
  expect(await answer.body.text()).toBe("version: STSv1\r\nmode: none\r\nmax_age: 86400\r\n");
  await noteStsGone(db, of);
  const gone = await ask();
  expect(gone.statusCode).toBe(404);
  await gone.body.dump();
});

test.each(["north.example.org", "mta-sts.south.example.org", "mta-sts.", "127.0.0.1"])("%s has none", async (host) => {
  const answer = await request(url, { headers: { host } });
  expect(answer.statusCode).toBe(404);
  await answer.body.dump();
});
