import { describe, expect, test } from "vitest";
import { headerValue, MIME_LIMITS, type MimePart, partsByDepth } from "../../../services/core/mail/bounce/mime.ts";
import { decodeCharset, decodeEncodedWords, htmlToPlainText } from "../../../services/core/mail/decode.ts";

import { readMimeMessage } from "../../../services/platform/read-mime.ts";
import { processorMs } from "../../support/processor-time.ts";

const mime = (text: string) => readMimeMessage(Buffer.from(text, "latin1"));

/** `multipart/mixed(text/plain, message/rfc822(text/plain))` */
function shape(part: MimePart): string {
  return part.children.length === 0 ? part.type : `${part.type}(${part.children.map(shape).join(", ")})`;
}

describe("structure", () => {
  test("nested multiparts and messages", async () => {
    const message = await mime(
      'Content-Type: multipart/mixed; boundary="a"\n\npreamble\n--a\n\none\n--a\nContent-Type: message/rfc822\n\nSubject: x\n' +
        "Content-Type: multipart/alternative; boundary=b\n\n--b\nContent-Type: text/plain\n\nt\n--b\nContent-Type: text/html\n\nh\n--b--\n--a--\nepilogue",
    );
    expect(shape(message)).toBe(
      "multipart/mixed(text/plain, message/rfc822(multipart/alternative(text/plain, text/html)))",
    );
  });

  test.each([
    ["no end delimiter", "Content-Type: multipart/mixed; boundary=a\n\n--a\n\none\n--a\n\ntwo"],
    [
      "blanks after the delimiter",
      "Content-Type: multipart/mixed; boundary=a\r\n\r\n--a  \r\n\r\none\r\n--a\t\r\n\r\ntwo\r\n--a--",
    ],
    ["no boundary parameter", "Content-Type: multipart/mixed\n\n--xyz\n\none\n--xyz\n\ntwo\n--xyz--"],
    ["CR alone ends lines", "Content-Type: multipart/mixed; boundary=a\r\r--a\r\rone\r--a\r\rtwo\r--a--"],
    [
      "an mbox line and blank lines first",
      "\n\nFrom x Mon Mar  2 10:00:00 2026\nContent-Type: multipart/mixed; boundary=a\n\n--a\n\none\n--a\n\ntwo\n--a--",
    ],
    [
      "a delimiter that another one begins with",
      "Content-Type: multipart/mixed; boundary=a\n\n--a\n\none\n--ab\nstill one\n--a\n\ntwo\n--a--",
    ],
  ])("tolerated: %s", async (_, text) => {
    const { children } = await mime(text);
    expect(children.map((part) => part.text.trim().slice(0, 3))).toEqual(["one", "two"]);
  });

  test.each([
    ["80 blanks", "--a", " ".repeat(80), ""],
    ["80 of more blanks", "--a", `${" ".repeat(80)}`, "  "],
    ["blanks behind 83 octets", `--${"a".repeat(81)}`, "\t ", ""],
    ["no blanks behind 84 octets", `--${"a".repeat(82)}`, "", " "],
    ["no blanks between words", "--a", "", "  b"],
  ])("taken off a line that begins like a delimiter: %s", async (_, start, off, left) => {
    const { text } = await mime(`Content-Type: text/plain\n\n${start}${left}${off}\nx`);
    expect(text).toBe(`${start}${left}\nx`);
  });

  test("a multipart without any delimiter is text", async () => {
    expect((await mime("Content-Type: multipart/mixed; boundary=a\n\njust words")).text).toBe("just words");
  });
});

describe("decoding", () => {
  test.each([
    [
      "quoted-printable",
      "Content-Transfer-Encoding: quoted-printable\n\nca=66=C3=A9 =\nau lait =zz",
      "café au lait =zz",
    ],
    ["base64", "Content-Transfer-Encoding: BASE64\n\ncGxhaW4=\n", "plain"],
    ["windows-1252 without a label", "Content-Type: text/plain\n\ncaf\xe9 \x80", "café €"],
    ["windows-1252", "Content-Type: text/plain; charset=windows-1252\n\nn\x92existe \x93pas\x94", "n’existe “pas”"],
    ["a label that no one knows", "Content-Type: text/plain; charset=x-klingon\n\ncaf\xe9", "café"],
    ["ISO-2022-JP without a label", "Subject: x\n\n\x1b$B%(%i!<\x1b(B", "エラー"],
    ["a comment behind the encoding", "Content-Transfer-Encoding: base64; x\n\ncGxhaW4=\n", "plain"],
  ])("%s", async (_, text, decoded) => {
    expect((await mime(text)).text).toBe(decoded);
  });

  test.each([
    ["=?utf-8?q?caf=C3=A9_au_lait?=", "café au lait"],
    ["=?UTF-8?B?Y2Fm?= =?utf-8?b?w6k=?=", "café"],
    ["=?iso-8859-1*fr?q?caf=E9?= x", "café x"],
    ["=?windows-1252?q?it=92s_=80?=", "it’s €"],
    ["=?iso-8859-1?b?kg==?=", "’"],
    ["=?nonsense?q?a?=", "a"],
    ["=?utf-8?x?a?=", "=?utf-8?x?a?="],
  ])("encoded words %j", (value, decoded) => {
    expect(decodeEncodedWords(value)).toBe(decoded);
  });

  test("header fields are unfolded; malformed lines are passed over", async () => {
    const message = await mime("Subject: a\n  b\nnot a field\nX-Y : c\n\nbody");
    expect(headerValue(message, "subject")).toBe("a b");
    expect(headerValue(message, "x-y")).toBe("c");
  });

  test("text that is UTF-8 stays so whatever the label says of ASCII", () => {
    expect(decodeCharset(Buffer.from("café"), "us-ascii")).toBe("café");
  });
});

test("HTML becomes its visible text", () => {
  const html =
    "<style>p{}</style><p>Caf&eacute; <b>fermé</b><br>a&amp;b</p><script>x</script><table><tr><td>1</td><td>2</td></tr></table>";
  expect(htmlToPlainText(html).trim().split(/\n+/)).toEqual(["Café fermé", "a&b", "1", "2"]);
});

describe("limits", () => {
  test("lines that begin like delimiters take no longer the more blanks they have", async () => {
    const short = await readingMs("--a\r\n".repeat(200_000));
    const blank = `--a${" ".repeat(160)}b\r\n`.repeat(6_000) + `--a${" ".repeat(900)}b\r\n`.repeat(3);
    expect(await readingMs(blank)).toBeLessThan(3 * short);
  });

  test("depth", async () => {
    const message = await mime("Content-Type: message/rfc822\n\n".repeat(1000));
    expect([...partsByDepth(message)].length).toBeLessThanOrEqual(MIME_LIMITS.depth + 1);
  });

  test("parts", async () => {
    const message = await mime(`Content-Type: multipart/mixed; boundary=a\n\n${"--a\n\nx\n".repeat(5000)}`);
    expect([...partsByDepth(message)].length).toBeLessThanOrEqual(MIME_LIMITS.parts);
  });

  test("fields", async () => {
    expect((await mime("A: b\n".repeat(10_000))).headers.length).toBe(MIME_LIMITS.headerFields);
  });

  test("the length of a field", async () => {
    const { headers } = await mime(`Subject: ${"x".repeat(100_000)}\n${" y\n".repeat(10_000)}\n`);
    expect(headers[0]?.value.length).toBeLessThanOrEqual(MIME_LIMITS.fieldCharacters);
  });
});

/** Processor time for a text within as many messages as are entered. */
async function readingMs(text: string): Promise<number> {
  const message = Buffer.from(`${"Content-Type: message/rfc822\r\n\r\n".repeat(MIME_LIMITS.depth)}\r\n${text}`);
  const startedMs = processorMs();
  await readMimeMessage(message);
  return processorMs() - startedMs;
}
