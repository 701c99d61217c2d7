import { afterAll, beforeAll, expect, it } from "vitest";
import { startConsole, type TestConsole } from "../support/console.ts";

let console: TestConsole;
beforeAll(async () => {
  console = await startConsole();
});
afterAll(() => console?.stop());

const PATH = "/instances/north";

it("the operator limits, holds and releases; the owner sees it and changes whom to tell", async () => {
  const { operator, north } = console.users;
  const limit = { scope: "sender", subject: "Info@example.org", per_hour: 10, per_day: null, over: "wait" };
  expect(await operator.call("PUT", `${PATH}/limits`, limit)).toMatchObject({ status: 200 });
  const held = await operator.call("POST", `${PATH}/hold`, { reason: "stolen key" });
  expect(held).toMatchObject({ status: 200, body: { held: { by: "operator", reason: { message: "stolen key" } } } });
  expect((await operator.call("POST", `${PATH}/hold`, { reason: "again" })).status).toBe(409);
  const notify = ["ana@example.org"];
  expect((await north.call("PATCH", `${PATH}/guard`, { notify })).status).toBe(200);
  expect((await north.call("PATCH", `${PATH}/guard`, { notify: ["nobody"] })).status).toBe(400);
  expect(await north.call("GET", `${PATH}/guard`)).toMatchObject({
    status: 200,
    body: {
      limits: [{ scope: "sender", subject: "info@example.org", per_hour: 10, used_hour: 0, over: "wait" }],
      held: { reason: { code: "guard-by-hand", values: { reason: "stolen key" } } },
      notify,
    },
  });
  expect((await operator.call("POST", `${PATH}/release`, { reason: "key replaced" })).body.held).toBeNull();
  const removed = await operator.call("DELETE", `${PATH}/limits`, { scope: "sender", subject: "info@example.org" });
  expect(removed).toMatchObject({ status: 200, body: { limits: [] } });
  const { audit } = (await operator.call("GET", "/audit")).body;
  expect(
    audit.map(({ action }: { action: string }) => action).filter((one: string) => one.startsWith("instance.")),
  ).toEqual(["instance.unlimit", "instance.release", "instance.guard", "instance.hold", "instance.limit"]);
});

it.each([
  ["PUT", "limits", { scope: "instance", per_day: 1_000_000, over: "wait" }],
  ["DELETE", "limits", { scope: "instance" }],
  ["PUT", "ramp", { on: false }],
  ["POST", "hold", { reason: "x" }],
  ["POST", "release", { reason: "x" }],
  ["POST", "waiting/release", {}],
  ["PATCH", "guard", { held_sends: "accept" }],
  ["PATCH", "guard", { detectors: { rise: "off" } }],
])("%s %s is not for the instance's own users, and nothing of it for others'", async (method, path, body) => {
  const { north, south } = console.users;
  expect((await north.call(method, `${PATH}/${path}`, body)).status).toBe(403);
  expect([403, 404]).toContain((await south.call(method, `${PATH}/${path}`, body)).status);
});

it("a campaign that the instance does not have is not limited", async () => {
  const { operator } = console.users;
  const limit = { scope: "campaign", subject: "99999", per_hour: 5, over: "wait" };
  expect((await operator.call("PUT", `${PATH}/limits`, limit)).status).toBe(404);
  expect((await operator.call("GET", `${PATH}/guard`)).body.limits).toEqual([]);
});

it("another instance's users do not see it", async () => {
  expect((await console.users.south.call("GET", `${PATH}/guard`)).status).toBe(404);
});

it.each([
  [{ scope: "campaign", subject: "x", per_hour: 1, over: "wait" }],
  [{ scope: "sender", subject: "x", per_hour: 1, over: "wait" }],
  [{ scope: "instance", subject: "7", per_hour: 1, over: "wait" }],
  [{ scope: "instance", over: "wait" }],
  [{ scope: "instance", per_hour: -1, over: "wait" }],
])("what is no limit is refused: %o", async (limit) => {
  expect((await console.users.operator.call("PUT", `${PATH}/limits`, limit)).status).toBe(400);
});
