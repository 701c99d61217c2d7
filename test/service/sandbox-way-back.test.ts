import { afterAll, beforeAll, expect, test } from "vitest";
import { start as startBounce } from "../../services/bounce/main.ts";
import { MAIL_SERVICES, type MailStack, startMailStack } from "../support/mail-stack.ts";
import { eventually } from "../support/stack.ts";

// The whole way, there and back: API, queue, delivery, sandbox, its report, MX listener, bounce worker, events.
let stack: MailStack;
let campaign: number;

beforeAll(async () => {
  stack = await startMailStack([...Object.values(MAIL_SERVICES), startBounce]);
  campaign = await stack.addCampaign();
});
afterAll(async () => {
  await stack.stop();
  expect(stack.failures).toEqual([]);
});

const send = async (email: string): Promise<number> => {
  const fields = { campana_id: campaign, email: true, contacto: { email }, html: "<p>Hi</p>" };
  return (await stack.call("POST", "/envio/send_one_inline/", fields)).body.sent;
};

const eventsOf = async (email: string): Promise<string[]> => {
  const { contacto } = (await stack.call("GET", `/contacto/${encodeURIComponent(email)}`)).body;
  return contacto.eventos.map(({ evento }: { evento: string }) => evento);
};

const untilEvents = (email: string, count: number) =>
  eventually(
    () => eventsOf(email),
    (events) => events.length >= count,
  );

const isInvalid = async (email: string): Promise<boolean> =>
  (await stack.call("GET", `/contacto/${encodeURIComponent(email)}`)).body.contacto.invalido;

test("two reports of an unknown user invalidate the contact; revalidating starts the count anew", async () => {
  const email = "bounce+1@back.example.net";
  expect(await send(email)).toBe(1);
  await untilEvents(email, 2);
  expect(await isInvalid(email)).toBe(false);
  expect(await send(email)).toBe(1);
  expect(await untilEvents(email, 5)).toEqual(["envio", "rebote_hard", "envio", "rebote_hard", "invalidacion"]);
  expect(await isInvalid(email)).toBe(true);
  expect(await send(email)).toBe(0);

  await stack.call("GET", `/revalidar/${encodeURIComponent(email)}`);
  expect(await send(email)).toBe(1);
  expect((await untilEvents(email, 9)).slice(5)).toEqual(["unknown", "revalidacion", "envio", "rebote_hard"]);
  expect(await isInvalid(email)).toBe(false);
});

test("a full mailbox is no reason to invalidate", async () => {
  const email = "full+1@back.example.net";
  for (let i = 1; i <= 3; i++) {
    await send(email);
    await untilEvents(email, 2 * i);
  }
  expect(new Set(await eventsOf(email))).toEqual(new Set(["envio", "rebote-soft"]));
  expect(await isInvalid(email)).toBe(false);
});

test("one complaint invalidates", async () => {
  const email = "complaint+1@back.example.net";
  await send(email);
  expect(await untilEvents(email, 3)).toEqual(["envio", "queja", "invalidacion"]);
});

test("a whitelisted contact keeps its events and stays valid", async () => {
  for (const email of ["bounce+2@back.example.net", "complaint+2@back.example.net"]) {
    await stack.call("PUT", `/whitelist/${encodeURIComponent(email)}`);
    for (let i = 1; i <= 3; i++) {
      expect(await send(email)).toBe(1);
      await untilEvents(email, 2 * i);
    }
    expect(await isInvalid(email)).toBe(false);
  }
});
