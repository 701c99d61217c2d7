import { expect, test } from "vitest";
import { findReturnedTokens } from "../../../../../services/core/mail/bounce/returned-tokens.ts";
import { readMimeMessage } from "../../../../../services/platform/read-mime.ts";
import { processorMs } from "../../../../support/processor-time.ts";

const RETURN_PATH = `b+${"a2".repeat(6)}.${"b".repeat(24)}`;
const TOKEN = "A-z_09".repeat(6);
const find = async (text: string) =>
  findReturnedTokens(await readMimeMessage(Buffer.from(text.replaceAll("\n", "\r\n"))));

test.each([
  ["a field of the header", `X-Original: <${RETURN_PATH}@bounces.example.org>\n\nx`],
  ["a folded field", `X-Original: sent by\n\t<${RETURN_PATH.toUpperCase()}@bounces.example.org>\n\nx`],
  ["a text", `Subject: x\n\nreturn path was ${RETURN_PATH}@bounces.example.org\n`],
  [
    "an enclosed message in quoted-printable",
    `Content-Type: message/rfc822\n\nContent-Type: text/html\nContent-Transfer-Encoding: quoted-printable\n\n<a href=3D"mailto:${RETURN_PATH.slice(0, 20)}=\n${RETURN_PATH.slice(20)}@bounces.example.org">\n`,
  ],
  [
    "an enclosed message in base64",
    `Content-Type: message/rfc822\n\nContent-Type: text/plain\nContent-Transfer-Encoding: base64\n\n${Buffer.from(`to ${RETURN_PATH}@bounces.example.org`).toString("base64")}\n`,
  ],
])("a return path is found in %s", async (_, text) => {
  expect((await find(text)).returnPaths.map((found) => found.toLowerCase())).toEqual([RETURN_PATH]);
});

test("an unsubscribe URL is found, those of opens and clicks are not: they are shown to others", async () => {
  const urls = ["u", "o", "c"].map((kind) => `https://track.example.org/${kind}/${TOKEN}`).join(" ");
  expect(await find(`Subject: x\n\n${urls}`)).toEqual({ returnPaths: [], unsubscribe: [TOKEN] });
});

test.each([`x${RETURN_PATH}`, `${RETURN_PATH}b`, `b+1.${"b".repeat(24)}`, `b+aaaa.${"b".repeat(23)}`])(
  "%s is no return path of ours by its looks",
  async (text) => expect((await find(`Subject: ${text}\n\nx`)).returnPaths).toEqual([]),
);

test("fields come before texts, and only so many are looked at, in little time", async () => {
  const other = (n: number) => RETURN_PATH.replace("a2a2", `${"abcdefgh"[n % 8]}${"abcdefgh"[(n >> 3) % 8]}zz`);
  const crowd = Array.from({ length: 60 }, (_, n) => other(n)).join(" ");
  const { returnPaths } = await find(`X-Token: ${RETURN_PATH}\n\n${crowd}`);
  expect(returnPaths[0]).toBe(RETURN_PATH);
  expect(returnPaths).toHaveLength(20);
  const hostile = [
    "b+".repeat(100_000),
    `b+${"a".repeat(31)}.`.repeat(20_000),
    "/u/".repeat(100_000),
    `/u/${TOKEN}`.repeat(20_000),
  ];
  for (const text of hostile) {
    const before = processorMs();
    await find(`Subject: x\n\n${text}`);
    expect(processorMs() - before).toBeLessThan(1_000);
  }
});
