import { afterAll, beforeAll, expect, it } from "vitest";
import { listNodes, removeNode, reportNode } from "../../services/store/dns/nodes.ts";
import { startConsole, type TestConsole } from "../support/console.ts";

let palomar: TestConsole;

beforeAll(async () => {
  palomar = await startConsole();
});

afterAll(() => palomar.stop());

const SERVICES = [
  { name: "dns-server", ready: true },
  { name: "delivery", ready: false },
];

it("lists the nodes with what they run, as they said last", async () => {
  const { db } = palomar.database;
  await reportNode(db, { node: "two", services: SERVICES.slice(1), version: "0.9.0", lagMs: null });
  await reportNode(db, { node: "one", services: [], version: "0.9.0", lagMs: 7 });
  await reportNode(db, { node: "one", services: SERVICES, version: "1.0.0", lagMs: 12 });
  const { status, body } = await palomar.users.operator.call("GET", "/nodes");
  expect(status).toBe(200);
  expect(body.nodes).toEqual([
    { node: "one", services: SERVICES, version: "1.0.0", lag_ms: 12, seen: expect.stringMatching(/^\d{4}-.*Z$/) },
    { node: "two", services: SERVICES.slice(1), version: "0.9.0", lag_ms: null, seen: expect.any(String) },
  ]);
});

it("is the operator's alone", async () => {
  for (const user of ["one", "acme", "north"] as const) {
    expect((await palomar.users[user].call("GET", "/nodes")).status).toBe(403);
  }
  expect((await palomar.call("GET", "/nodes")).status).toBe(401);
});

it("a node that says goodbye is missed by nobody, and one that was silent for a day is forgotten", async () => {
  const { db } = palomar.database;
  await db.raw("update nodes set seen = now() - interval '90 seconds' where node = 'one'");
  expect((await listNodes(db)).find(({ node }) => node === "one")?.silentSeconds).toBeGreaterThanOrEqual(90);
  await db.raw("update nodes set seen = now() - interval '25 hours' where node = 'one'");
  await reportNode(db, { node: "three", services: [], version: "1.0.0", lagMs: null });
  expect((await listNodes(db)).map(({ node }) => node)).toEqual(["three", "two"]);
  await removeNode(db, "three");
  expect((await listNodes(db)).map(({ node }) => node)).toEqual(["two"]);
});

it("an answer carries the name of its request: the caller's own where that is lawful, else one of ours", async () => {
  const named = await palomar.call("GET", "/session", undefined, { "X-Request-Id": "order-4711" });
  expect(named.headers["x-request-id"]).toBe("order-4711");
  for (const unlawful of ["two words", "x".repeat(129), 'quo"te']) {
    const answer = await palomar.call("GET", "/session", undefined, { "X-Request-Id": unlawful });
    expect(answer.headers["x-request-id"]).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/);
  }
});
