import { simpleParser } from "mailparser";
import { describe, expect, test } from "vitest";
import { fillPlaces } from "../../../services/core/mail/message-places.ts";
import { linkIdOf } from "../../../services/core/mail/tracking-html.ts";
import { runAtOnce } from "../../../services/core/steps.ts";
import { trackMessage } from "../../../services/submission/track-message.ts";

const ON = { tracking: true, unsubscribe: false };
const lines = (...all: string[]) => Buffer.from(all.join("\r\n"), "latin1");
const target = "https://example.org/?a=1&b=ñ";
const click = `_CLICK-${linkIdOf(target)}`;
const values = new Map([
  [click, "https://t.example.net/c/token=="],
  ["_OPEN", "https://t.example.net/o/token"],
  ["DESUSC", "https://t.example.net/u/token"],
]);

/** What a mail reader shows of one recipient's copy. */
async function read(message: Buffer, settings = ON) {
  const tracked = runAtOnce(trackMessage(message, settings))!;
  const octets = fillPlaces(tracked.octets, tracked.tracking.places, values);
  for (const line of octets.toString("latin1").split("\r\n")) expect(line.length).toBeLessThanOrEqual(998);
  return { octets, links: tracked.tracking.links, mail: await simpleParser(octets, { skipHtmlToText: true }) };
}

const PIXEL = '<img src="https://t.example.net/o/token" width="1" height="1" alt="" style="display:block;border:0">';

describe("the HTML of a submitted message", () => {
  test("alone: its links lead through the tracker, its pixel is the recipient's", async () => {
    const { links, mail } = await read(
      lines(
        ...["From: a@example.org", "MIME-Version: 1.0", "Content-Type: text/html; charset=utf-8"],
        ...["Content-Transfer-Encoding: quoted-printable", ""],
        ...[`<p>Ma=C3=B1ana <a href=3D"https://example.org/?a=3D1&amp;b=3D=C3=B1">go</a></p></body>`, ""],
      ),
    );
    expect(links).toEqual({ [linkIdOf(target)]: target });
    expect(mail.html).toBe(`<p>Mañana <a href="https://t.example.net/c/token==">go</a></p>${PIXEL}</body>\n`);
  });

  test.each([
    ["7bit", "<p>x</p>"],
    ["base64", Buffer.from("<p>x</p>").toString("base64")],
    ["8BIT", "<p>x</p>"],
  ])("in %s", async (encoding, body) => {
    const { mail } = await read(
      lines("MIME-Version: 1.0", "Content-Type: text/html", `Content-Transfer-Encoding: ${encoding}`, "", body),
    );
    expect(mail.html).toBe(`<p>x</p>${PIXEL}`);
  });

  test("in another charset becomes UTF-8, with its other parameters", async () => {
    const { octets, mail } = await read(
      lines(
        ...["MIME-Version: 1.0", 'Content-Type: text/html; charset="ISO-8859-2"; format=flowed', "Content-MD5: x"],
        ...["Content-Transfer-Encoding: quoted-printable", "", "=B1=E6"],
      ),
    );
    expect(mail.html).toBe(`ąć${PIXEL}`);
    expect(octets.toString()).toContain("Content-Type: text/html; format=flowed; charset=utf-8\r\n");
    expect(octets.toString()).not.toContain("Content-MD5");
  });

  test.each(["windows-1252", "iso-8859-1"])(
    "in %s keeps its quotation marks, dashes and euro signs",
    async (charset) => {
      const { octets, mail } = await read(
        lines(
          ...["MIME-Version: 1.0", `Content-Type: text/html; charset=${charset}`],
          ...["Content-Transfer-Encoding: quoted-printable", "", "=93it=92s=94 =96 =80 5=85 =E9"],
        ),
      );
      expect(mail.html).toBe(`“it’s” – € 5… é${PIXEL}`);
      expect(octets.toString()).toContain("charset=utf-8");
    },
  );

  test("deep within a message: not an octet beside it changes", () => {
    const [before, html, after] = [
      lines(
        ...["From: a@example.org", "X-Odd:  kept \t as it is", "MIME-Version: 1.0"],
        ...['Content-Type: multipart/mixed; boundary="outer"', "", "preamble", "--outer"],
        ...["Content-Type: multipart/alternative;", "\tboundary=inner", "", "--inner", "", "plain =3D", "--inner", ""],
      ),
      lines("Content-Type: text/html", "", '<a href="https://example.org/">x</a>'),
      lines(
        ...["", "--inner--", "", "--outer", "Content-Type: text/html", "Content-Disposition: attachment", ""],
        ...['<a href="https://example.org/">attached</a>', "--outer--", "epilogue", ""],
      ),
    ];
    const tracked = runAtOnce(trackMessage(Buffer.concat([before, html, after]), ON))!;
    expect(tracked.octets.subarray(0, before.length)).toEqual(before);
    expect(tracked.octets.subarray(-after.length)).toEqual(after);
    expect(tracked.tracking.places.map(({ tag }) => tag)).toEqual([
      `_CLICK-${linkIdOf("https://example.org/")}`,
      "_OPEN",
    ]);
    for (const { offset } of tracked.tracking.places) {
      expect(tracked.octets.toString("latin1", offset - 3, offset)).toBe("=\r\n");
    }
  });

  test.each([
    ["shown after it", "Content-Disposition: inline; filename=b.html"],
    ["without a disposition", "X-Other: 1"],
    ["attached", "Content-Disposition:\r\n ATTACHMENT; filename=b.html"],
  ])("is one part, and another %s keeps every octet", (_what, disposition) => {
    const html = (text: string) => [
      "Content-Type: text/html; charset=utf-8",
      "",
      `<a href="https://example.org/">${text}</a>`,
      "",
    ];
    const other = lines(...["--o", disposition, ...html("XYZDESUSCXYZ"), ""]);
    for (const isAttachedFirst of [false, true]) {
      const isFirst = isAttachedFirst && disposition.includes("ATTACHMENT");
      const own = lines(...["--o", ...html("own"), ""]);
      const message = Buffer.concat([
        lines("MIME-Version: 1.0", "Content-Type: multipart/mixed; boundary=o", "", ""),
        ...(isFirst ? [other, own] : [own, other]),
        lines("--o--", ""),
      ]);
      const tracked = runAtOnce(trackMessage(message, { tracking: true, unsubscribe: true }))!;
      expect(tracked.octets.includes(other)).toBe(true);
      expect(tracked.octets.includes(own)).toBe(false);
      expect(tracked.tracking.places.filter(({ tag }) => tag === "_OPEN")).toHaveLength(1);
    }
  });

  test("what looks like a tag stays what it is, but for the unsubscribe URL", async () => {
    const body = '<a href="https://example.org/XYZNOMBREXYZ">XYZNOMBREXYZ</a> <a href="XYZDESUSCXYZ">no more</a>';
    const { mail, links } = await read(lines("MIME-Version: 1.0", "Content-Type: text/html", "", body));
    expect(links).toEqual({});
    expect(mail.html).toBe(body.replace("XYZDESUSCXYZ", "https://t.example.net/u/token") + PIXEL);
  });

  test("gets an unsubscribe link where the campaign wants one, tracked or not", async () => {
    const message = lines("MIME-Version: 1.0", "Content-Type: text/html", "", "<p>x</p>");
    const link =
      '<p style="font-size:12px;text-align:center"><a href="https://t.example.net/u/token">Cancelar suscripción</a></p>';
    expect((await read(message, { tracking: true, unsubscribe: true })).mail.html).toBe(`<p>x</p>${link}${PIXEL}`);
    expect((await read(message, { tracking: false, unsubscribe: true })).mail.html).toBe(`<p>x</p>${link}`);
    expect(runAtOnce(trackMessage(message, { tracking: false, unsubscribe: false }))).toBeUndefined();
  });
});

describe("the plain text of a submitted message", () => {
  const unsubscribe = "https://t.example.net/u/token";

  test("beside HTML shows the unsubscribe URL as it is; all else stays what it is", async () => {
    const { octets, mail } = await read(
      lines(
        ...["MIME-Version: 1.0", "Content-Type: multipart/mixed; boundary=o", "", "--o"],
        ...["Content-Type: multipart/alternative; boundary=b", "", "--b"],
        ...["Content-Type: text/plain; charset=iso-8859-1; format=flowed", "Content-Transfer-Encoding: base64", ""],
        ...[Buffer.from("caf\xe9 XYZNOMBREXYZ \r\nbaja: XYZDESUSCXYZ, adi\xf3s", "latin1").toString("base64")],
        ...["--b", "Content-Type: text/html", "", '<a href="XYZDESUSCXYZ">baja</a>', "--b--", "--o"],
        ...["Content-Type: text/plain", "Content-Disposition: attachment", "", "XYZDESUSCXYZ", "--o--", ""],
      ),
    );
    // Where a line ends with a space, flowed text goes on (RFC 3676 §4.2).
    expect(mail.text).toContain(`café XYZNOMBREXYZ baja: ${unsubscribe}, adiós`);
    expect(mail.html).toContain(`<a href="${unsubscribe}">baja</a>`);
    expect(octets.toString("latin1")).toContain("Content-Type: text/plain; format=flowed; charset=utf-8\r\n");
    expect(octets.toString("latin1")).toContain("Content-Disposition: attachment\r\n\r\nXYZDESUSCXYZ\r\n--o--");
  });

  test.each([
    ["alone", ["MIME-Version: 1.0", "Content-Type: text/plain; charset=utf-8", ""]],
    ["without MIME", ["From: a@example.org", ""]],
  ])("%s", async (_what, header) => {
    const { mail } = await read(lines(...header, "baja: XYZDESUSCXYZ", ""));
    expect(mail.text).toBe(`baja: ${unsubscribe}\n`);
  });

  test("has characters that HTML would escape as they are", () => {
    const { octets, tracking } = runAtOnce(trackMessage(lines("MIME-Version: 1.0", "", "XYZDESUSCXYZ"), ON))!;
    const filled = fillPlaces(octets, tracking.places, new Map([["DESUSC", "https://t.example.net/?a&b"]]));
    expect(filled.toString()).toContain("https://t.example.net/?a&b");
  });
});

describe("what stays as it is", () => {
  const html = ["Content-Type: text/html", "", '<a href="https://example.org/">x</a>'];
  const plain = ["Content-Type: text/plain", "", "XYZDESUSCXYZ"];
  const within = (type: string) => [
    ...[`Content-Type: ${type}; boundary=b`, "", "--b", ...html],
    ...["--b", ...plain, "--b--", ""],
  ];

  test.each<[string, string[]]>([
    ["plain text", ["MIME-Version: 1.0", "", "https://example.org/"]],
    ["no MIME", html],
    ["no MIME that says what it has", plain],
    ["inline OpenPGP text", ["MIME-Version: 1.0", "", "-----BEGIN PGP SIGNED MESSAGE-----", "XYZDESUSCXYZ"]],
    ["text under the author's domain's signature", ["DKIM-Signature: v=1", "MIME-Version: 1.0", ...plain]],
    ["S/MIME and OpenPGP signatures", ["MIME-Version: 1.0", ...within("multipart/signed")]],
    ["OpenPGP encryption", ["MIME-Version: 1.0", ...within("multipart/encrypted")]],
    ["S/MIME encryption", ["MIME-Version: 1.0", "Content-Type: application/pkcs7-mime", "", "MIAG"]],
    ["inline OpenPGP", ["MIME-Version: 1.0", "Content-Type: text/html", "", "<pre>-----BEGIN PGP MESSAGE-----"]],
    ["the author's domain's signature", ["DKIM-Signature: v=1", "MIME-Version: 1.0", ...html]],
    ["an enclosed message", ["MIME-Version: 1.0", "Content-Type: message/rfc822", "", "MIME-Version: 1.0", ...html]],
    ["a multipart without a boundary", ["MIME-Version: 1.0", "Content-Type: multipart/mixed", "", "--b", ...html]],
    [
      "octets that are not their charset's",
      ["MIME-Version: 1.0", "Content-Type: text/html; charset=utf-8", "", "\xff"],
    ],
    ["an unknown charset", ["MIME-Version: 1.0", "Content-Type: text/html; charset=klingon", "", "x"]],
    ["an unknown encoding", ["MIME-Version: 1.0", "Content-Transfer-Encoding: x-uuencode", ...html]],
    [
      "multiparts without end",
      [
        "MIME-Version: 1.0",
        ...Array.from({ length: 500 }, (_, n) => `Content-Type: multipart/mixed; boundary=b${n}\r\n\r\n--b${n}`),
        ...html,
      ],
    ],
  ])("%s", (_what, message) => {
    expect(runAtOnce(trackMessage(lines(...message), ON))).toBeUndefined();
  });
});
