import { describe, expect, it } from "vitest";
import { validateAddress } from "../../services/core/mail/address.ts";
import { acceptSend } from "../../services/operations/mail/accept-sends.ts";
import type { StoredMessage } from "../../services/store/mail/sends/messages.ts";
import { accepted } from "../support/accepted.ts";
import {
  DOMAIN,
  database,
  instanceId,
  makeWorker,
  routes,
  run,
  setUpDelivery,
  sink,
  untilSent,
} from "../support/delivery.ts";

setUpDelivery();

const finished = (...lines: readonly string[]): StoredMessage["content"] => ({
  kind: "finished",
  octets: Buffer.from([...lines, "", "Hi", ""].join("\r\n")),
});

async function submit(content: StoredMessage["content"]): Promise<string> {
  const address = validateAddress("bob@far.example.net", { allowSmtputf8: true });
  if (!address.ok) throw new Error("no address");
  const send = {
    ...{ instanceId, campaignNumid: 1, creator: "smtp", senderDomain: DOMAIN, sender: `info@${DOMAIN}` },
    ...{ content, recipients: [{ address: address.value }], copies: [], archive: false },
  };
  return accepted(await database.db.transaction((transaction) => acceptSend(transaction, send))).eeid;
}

/** A server, with the extension or without it, and what it is told of who sends. */
async function far(offersSmtputf8: boolean) {
  const told: boolean[] = [];
  const server = await sink({
    hideSMTPUTF8: !offersSmtputf8,
    onMailFrom: (_address, session, done) => {
      told.push((session.envelope as { readonly smtpUtf8?: boolean }).smtpUtf8 === true);
      done();
    },
  });
  run(makeWorker(routes({ "far.example.net": server.port })));
  return { told, messages: server.messages };
}

/** Kind 5 is a soft bounce: the address may be well. */
const bounces = () => database.db("events").where({ kind: 5 }).pluck("detail");

describe.each([
  ["a submitted message", finished(`From: =?utf-8?q?Jos=C3=A9?= <josé@${DOMAIN}>`, "Subject: x")],
  [
    "a call's message with a copy for others to see",
    {
      kind: "template",
      attachments: [],
      template: {
        ...{ from: { name: "", address: `info@${DOMAIN}` }, subject: "x", html: "<p>Hi</p>", unsubscribe: false },
        to: { name: "", address: "bob@far.example.net" },
        cc: [{ name: "", address: "josé@example.net" }],
      },
    },
  ],
] satisfies [string, StoredMessage["content"]][])("%s whose header has an address beyond ASCII", (_, content) => {
  it("leaves with SMTPUTF8 for an address within it (RFC 6531 §3.4)", async () => {
    const { told, messages } = await far(true);
    await untilSent(await submit(content));
    expect(told).toEqual([true]);
    expect(messages[0]!.octets.includes("josé@")).toBe(true);
  });

  it("does not go to a server without the extension, and the bounce says why (RFC 6531 §3.5)", async () => {
    const { told, messages } = await far(false);
    await untilSent(await submit(content));
    expect([told, messages]).toEqual([[], []]);
    expect(JSON.stringify(await bounces())).toContain("5.6.7 the server does not take internationalized mail");
  });
});

it.each([
  ["in ASCII", finished(`From: info@${DOMAIN}`, "Subject: x", "", "josé")],
  [
    "in octets that are no UTF-8",
    { kind: "finished", octets: Buffer.from(`From: info@${DOMAIN}\r\nX: \xe9\r\n\r\nHi\r\n`, "latin1") },
  ],
  [
    "beyond ASCII but for addresses",
    finished(`From: José <info@${DOMAIN}>`, `List-Unsubscribe: <https://${DOMAIN}/?n=ñ>`, `References: <ñ@${DOMAIN}>`),
  ],
] satisfies [string, StoredMessage["content"]][])("a header %s needs no SMTPUTF8", async (_, content) => {
  const { told, messages } = await far(false);
  await untilSent(await submit(content));
  expect(told).toEqual([false]);
  expect(messages).toHaveLength(1);
});
