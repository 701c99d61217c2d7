import { generateKeyPairSync } from "node:crypto";
import { expect, it } from "vitest";
import { KeyRing } from "../../../services/core/key-ring.ts";
import { DkimSigner } from "../../../services/core/mail/dkim.ts";
import { composeMessage, prepareMessage } from "../../../services/delivery/compose.ts";
import type { Sender } from "../../../services/delivery/signers.ts";
import type { Db } from "../../../services/platform/postgres/db.ts";
import { type StoredMessage, sizeOf } from "../../../services/store/mail/sends/messages.ts";

const ACCEPTED_AT = new Date("2026-11-20T12:00:00Z");
const MESSAGE: StoredMessage = {
  id: 1,
  eeid: "6f1c1c2e-8b0e-4a5c-9d0f-0c9e7f3b2a11",
  instanceId: 1,
  campaignNumid: 1,
  senderDomain: "sender.example.org",
  archive: false,
  acceptedAt: ACCEPTED_AT,
  content: { kind: "finished", octets: Buffer.from("From: info@sender.example.org\r\n\r\nHi\r\n") },
};
const DELIVERY = {
  id: 7,
  partitionId: 1,
  contactId: null,
  role: "to",
  recipient: "one@example.net",
  personal: {},
  dsn: {},
  attempts: 0,
  hasWaited: false,
} as const;
const OPTIONS = {
  keyRing: KeyRing.ofSecret("a secret for tests only"),
  bounceDomain: "bounces.example.org",
  trackingUrl: "http://track.example.org",
  feedbackAddress: "fbl@bounces.example.org",
  now: ACCEPTED_AT,
};

it("signs each copy with the key that the sender domain has then", async () => {
  const { privateKey } = generateKeyPairSync("ed25519");
  const keyOf = (selector: string): Sender => ({
    signer: new DkimSigner([{ domain: MESSAGE.senderDomain, selector, privateKey }]),
    ...{ instanceName: "shop", feedbackId: false, feedbackAddress: false, linkHost: undefined },
  });
  const signers = [keyOf("first"), keyOf("second"), undefined];
  const prepared = await prepareMessage({} as Db, { find: async () => signers.shift() }, MESSAGE);
  const copies = [];
  for (let copy = 0; copy < 3; copy += 1) copies.push(await composeMessage(prepared, DELIVERY, OPTIONS));
  const selectors = copies.map(
    ({ octets }) => /^DKIM-Signature:[\s\S]*? s=(\w+);/.exec(octets.toString("latin1"))?.[1],
  );
  expect(selectors).toEqual(["first", "second", undefined]);
});

it("adds Feedback-ID and CFBL-Address where they are on, covered by both signatures, once", async () => {
  const { privateKey } = generateKeyPairSync("ed25519");
  const keys = [MESSAGE.senderDomain, OPTIONS.bounceDomain].map((domain) => ({ domain, selector: "s", privateKey }));
  const sender: Sender = {
    signer: new DkimSigner(keys),
    ...{ instanceName: "shop", feedbackId: true, feedbackAddress: true, linkHost: undefined },
  };
  const compose = async (octets: string) => {
    const message: StoredMessage = { ...MESSAGE, content: { kind: "finished", octets: Buffer.from(octets) } };
    const prepared = await prepareMessage({} as Db, { find: async () => sender }, message);
    return (await composeMessage(prepared, DELIVERY, OPTIONS)).octets.toString("latin1");
  };
  const text = await compose("From: info@sender.example.org\r\n\r\nHi\r\n");
  const unfolded = text.replaceAll(/\r\n[ \t]+/g, " ");
  expect(unfolded).toMatch(new RegExp(`^Feedback-ID: 1:${MESSAGE.eeid}:shop:[0-9a-f]{12}$`, "m"));
  expect(unfolded).toMatch(/^CFBL-Address: fbl@bounces\.example\.org; report=arf$/m);
  const covered = [...unfolded.matchAll(/^DKIM-Signature: .* h=([^;]+);/gm)].map(([, names]) =>
    names!.replaceAll(" ", ""),
  );
  expect(covered).toHaveLength(2);
  for (const names of covered) expect(names).toContain("feedback-id:feedback-id:cfbl-address:cfbl-address");
  const own = await compose("From: info@sender.example.org\r\nFeedback-ID: mine\r\n\r\nHi\r\n");
  expect(own.match(/^Feedback-ID/gm)).toHaveLength(1);
});

it("makes room for the subject and the addressees that every copy shows", () => {
  const mailbox = { name: "ñ".repeat(100), address: "cc@example.net" };
  const shown = { to: mailbox, cc: Array.from({ length: 99 }, () => mailbox) };
  const template = { from: mailbox, ...shown, subject: "ñ", html: "<p>", unsubscribe: false };
  expect(sizeOf({ kind: "template", template, attachments: [] })).toBe(100 * (200 + 14) + 2 + 3);
});
