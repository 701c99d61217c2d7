import { createPrivateKey, createPublicKey } from "node:crypto";
import { dkimVerify } from "mailauth/lib/dkim/verify.js";
import { beforeAll, describe, expect, test } from "vitest";
import {
  type DkimKey,
  DkimSigner,
  dkimRecord,
  generateDkimKey,
  relaxBody,
} from "../../../../services/core/mail/dkim.ts";
import { fieldValue, splitMessage } from "../../../../services/core/mail/message.ts";
import { processorMs } from "../../../support/processor-time.ts";

const SIGNED_AT = new Date();
const MESSAGE = [
  "From: Tienda <ventas@example.org>",
  "To: ana@example.net",
  "Subject:  one\t two  ",
  "Date: Sun, 01 Mar 2026 12:00:00 +0000",
  "Message-ID: <a@example.org>",
  "List-Unsubscribe: <https://t.example.org/u/x>",
  "List-Unsubscribe-Post: List-Unsubscribe=One-Click",
  "",
  "body  with\tspaces \r\n\r\n\r\n",
].join("\r\n");

let rsa: DkimKey;
let ed25519: DkimKey;
const records = new Map<string, string>();

async function makeKey(selector: string, type: "rsa" | "ed25519"): Promise<DkimKey> {
  const { privateKeyPem, record } = await generateDkimKey(type);
  records.set(`${selector}._domainkey.example.org`, record);
  return { domain: "example.org", selector, privateKey: createPrivateKey(privateKeyPem) };
}

beforeAll(async () => {
  [rsa, ed25519] = await Promise.all([makeKey("s1", "rsa"), makeKey("s2", "ed25519")]);
});

/** Verdicts of an implementation that nobody here wrote, one per signature. */
async function verify(message: Buffer): Promise<string[]> {
  const resolver = async (name: string) => [[records.get(name) ?? ""]];
  const { results } = await dkimVerify(message, { resolver });
  return results.map(({ status }) => status.result);
}

function sign(message: string, keys: readonly DkimKey[] = [rsa]): Buffer {
  const octets = Buffer.from(message, "utf8");
  return Buffer.concat([new DkimSigner(keys).sign(octets, SIGNED_AT), octets]);
}

describe("a signature", () => {
  test("verifies, RSA and Ed25519 side by side", async () => {
    expect(await verify(sign(MESSAGE))).toEqual(["pass"]);
    expect(await verify(sign(MESSAGE, [rsa, ed25519]))).toEqual(["pass", "pass"]);
  });

  test("made on the thread pool is the same", async () => {
    const octets = Buffer.from(MESSAGE, "utf8");
    const signer = new DkimSigner([rsa, ed25519]);
    expect(await signer.signInPool(octets, SIGNED_AT)).toEqual(signer.sign(octets, SIGNED_AT));
  });

  test("states its tags, in lines of 78 characters at most", () => {
    const [field] = splitMessage(sign(MESSAGE)).fields;
    if (field === undefined) throw new Error("no field");
    expect(field.name).toBe("dkim-signature");
    for (const line of field.raw.split("\r\n")) expect(line.length).toBeLessThanOrEqual(78);
    const tags = new Map(
      fieldValue(field)
        .split(";")
        .map((tag) => [tag.slice(0, tag.indexOf("=")).trim(), tag.slice(tag.indexOf("=") + 1).replace(/\s/g, "")]),
    );
    expect(Object.fromEntries(tags)).toMatchObject({
      v: "1",
      a: "rsa-sha256",
      c: "relaxed/relaxed",
      d: "example.org",
      s: "s1",
      t: String(Math.floor(SIGNED_AT.getTime() / 1000)),
    });
    const names = (tags.get("h") ?? "").split(":");
    for (const name of ["from", "to", "subject", "list-unsubscribe", "list-unsubscribe-post"]) {
      expect(
        names.filter((other) => other === name),
        name,
      ).toHaveLength(2);
    }
    expect(names.filter((name) => name === "cc")).toHaveLength(1);
  });

  test.each([
    ["relayed with other folding", (text: string) => text.replace("Subject:  one\t two  ", "Subject: one\r\n two")],
    ["given a trace field", (text: string) => `Received: from a by b; Sun, 01 Mar 2026 12:00:00 +0000\r\n${text}`],
    ["left without its final empty lines", (text: string) => text.replace(/(\r\n)+$/, "\r\n")],
    ["stripped of white space at a line's end", (text: string) => text.replace("spaces \r\n", "spaces\r\n")],
  ])("survives a message being %s", async (_, alter) => {
    expect(await verify(Buffer.from(alter(sign(MESSAGE).toString("latin1")), "latin1"))).toEqual(["pass"]);
  });

  test.each([
    ["another body", (text: string) => text.replace("body", "Body")],
    ["another subject", (text: string) => text.replace("one", "two")],
    ["a second From", (text: string) => text.replace("\r\nFrom:", "\r\nFrom: eve@example.net\r\nFrom:")],
    ["a second Subject", (text: string) => text.replace("\r\nTo:", "\r\nSubject: eve\r\nTo:")],
    ["an added Reply-To", (text: string) => text.replace("\r\nTo:", "\r\nReply-To: eve@example.net\r\nTo:")],
    ["another unsubscribe address", (text: string) => text.replace("/u/x", "/u/y")],
    ["no List-Unsubscribe-Post", (text: string) => text.replace(/List-Unsubscribe-Post:.*\r\n/, "")],
    ["text after the end", (text: string) => `${text}more`],
  ])("does not survive %s", async (_, alter) => {
    const altered = Buffer.from(alter(sign(MESSAGE).toString("latin1")), "latin1");
    expect(altered).not.toEqual(sign(MESSAGE));
    expect(await verify(altered)).not.toContain("pass");
  });

  test.each([
    ["an empty body", "From: a@example.org\r\n\r\n"],
    ["a body of empty lines", "From: a@example.org\r\n\r\n\r\n\r\n"],
    ["a body of white space", "From: a@example.org\r\n\r\n \t \r\n"],
    ["a body without a final line break", "From: a@example.org\r\n\r\nx"],
    ["two fields of one name", "From: a@example.org\r\nTo: b@example.net\r\nTo: c@example.net\r\n\r\nx\r\n"],
    ["UTF-8 in a header", "From: añá@example.org\r\nSubject: señal\r\n\r\nà \r\n"],
  ])("verifies over %s", async (_, message) => {
    expect(await verify(sign(message))).toEqual(["pass"]);
  });
});

test("a hostile message costs no more than its length", () => {
  const header = `From: a@example.org\r\n${"To: b\r\n".repeat(50_000)}Subject: x${" \r\n".repeat(500_000)} y\r\n`;
  const body = `${" ".repeat(1_000_000)}x${"\r\n".repeat(500_000)}y${" \r\n".repeat(500_000)}`;
  const startedMs = processorMs();
  sign(`${header}\r\n${body}`);
  expect(processorMs() - startedMs).toBeLessThan(5_000);
});

test.each([
  ["", ""],
  ["\r\n", ""],
  [" C \r\nD \t E\r\n\r\n\r\n", " C\r\nD E\r\n"], // RFC 6376 §3.4.5
  ["a", "a\r\n"],
  ["a \t", "a\r\n"],
  ["\r\n \r\na", "\r\n\r\na\r\n"],
])("the relaxed form of %j", (body, relaxed) => {
  expect(relaxBody(Buffer.from(body, "latin1")).toString("latin1")).toBe(relaxed);
});

test("records publish the key as DNS readers expect it", () => {
  expect(dkimRecord(createPublicKey(rsa.privateKey))).toMatch(/^v=DKIM1; k=rsa; p=MIIBIjAN[A-Za-z0-9+/]+=*$/);
  expect(dkimRecord(createPublicKey(ed25519.privateKey))).toMatch(/^v=DKIM1; k=ed25519; p=[A-Za-z0-9+/]{43}=$/);
});

test("keys are of the documented strength, and fresh", async () => {
  expect(rsa.privateKey.asymmetricKeyDetails?.modulusLength).toBe(2048);
  expect((await generateDkimKey("ed25519")).record).not.toBe(records.get("s2._domainkey.example.org"));
});
