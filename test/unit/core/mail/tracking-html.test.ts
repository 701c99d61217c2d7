import { expect, it } from "vitest";
import { escapeHtml, parseTemplate, renderTemplate } from "../../../../services/core/mail/personalise.ts";
import {
  clickTag,
  linkIdOf,
  OPEN_TAG,
  trackHtml,
  trackHtmlSteps,
} from "../../../../services/core/mail/tracking-html.ts";
import { fc } from "../../../support/property.ts";

/** The body with every tracking tag shown by name, and the targets that were found. */
function track(html: string) {
  const tracked = trackHtml(html);
  const system = new Map([...tracked.links].map(([link, target]) => [clickTag(link), `[${target}]`]));
  system.set(OPEN_TAG, "[pixel]");
  const values = { system, customFields: new Map(), builtIns: new Map(), globals: new Map() };
  return {
    shown: tracked.html.replaceAll(/XYZ(_CLICK-[0-9a-f]{12}|_OPEN)XYZ/g, (tag) =>
      renderTemplate(parseTemplate(tag), values),
    ),
    targets: [...tracked.links.values()],
  };
}

const PIXEL = '<img src="[pixel]" width="1" height="1" alt="" style="display:block;border:0">';

it.each([
  ["double quotes", '<a href="https://example.org/a">x</a>', '<a href="[https://example.org/a]">x</a>'],
  ["single quotes", "<a href='http://example.org/a'>x</a>", "<a href='[http://example.org/a]'>x</a>"],
  ["no quotes", "<a href=https://example.org/a class=b>x</a>", "<a href=[https://example.org/a] class=b>x</a>"],
  ["upper case", '<A HREF="HTTPS://example.org/a">x</A>', '<A HREF="[HTTPS://example.org/a]">x</A>'],
  ["white space around", '<a href = " https://example.org/ " >x</a>', '<a href = "[https://example.org/]" >x</a>'],
  [
    "entities",
    '<a href="https://example.org/?a=1&amp;b=2#f">x</a>',
    '<a href="[https://example.org/?a=1&b=2#f]">x</a>',
  ],
  [
    "a bare ampersand",
    '<a href="https://example.org/?a=1&b=2">x</a>',
    '<a href="[https://example.org/?a=1&b=2]">x</a>',
  ],
  ["an entity at the end", '<a href="https://example.org/&amp;">x</a>', '<a href="[https://example.org/&]">x</a>'],
  [
    "an entity at the beginning",
    '<a href="&#104;ttp://example.org/&amp;a">x</a>',
    '<a href="[http://example.org/&a]">x</a>',
  ],
  [
    "nothing but entities at the beginning, without quotes",
    "<a href=\n&#x68;&#116;tp://example.org/ class=b>x</a>",
    "<a href=\n[http://example.org/] class=b>x</a>",
  ],
  [
    "personal tags",
    '<a href="https://example.org/?n=XYZNOMBREXYZ">x</a>',
    '<a href="[https://example.org/?n=XYZNOMBREXYZ]">x</a>',
  ],
  ["a quote within other quotes", `<a href="https://example.org/'">x</a>`, `<a href="[https://example.org/']">x</a>`],
  ["a quote at the end of no quotes", "<a href=https://example.org/'>x</a>", "<a href=[https://example.org/']>x</a>"],
  ["areas", '<area href="https://example.org/a">', '<area href="[https://example.org/a]">'],
  ["no closing tag", '<a href="https://example.org/a">x', '<a href="[https://example.org/a]">x'],
  [
    "the first of two",
    '<a href="https://example.org/a" href="https://example.org/b">x</a>',
    '<a href="[https://example.org/a]" href="https://example.org/b">x</a>',
  ],
  [
    "images in links",
    '<a href="https://example.org/a"><img src="https://example.org/i.png"></a>',
    '<a href="[https://example.org/a]"><img src="https://example.org/i.png"></a>',
  ],
])("rewrites links: %s", (_name, html, expected) => {
  expect(track(html).shown).toBe(expected + PIXEL);
});

it.each([
  ['<a href="mailto:info@example.org?subject=a">x</a>'],
  ['<a href="tel:+34600000000">x</a>'],
  ['<a href="#top">x</a>'],
  ['<a href="/relative">x</a>'],
  ['<a href="javascript:void(0)">x</a>'],
  ['<a href="data:text/html,x">x</a>'],
  ['<a href="XYZDESUSCXYZ">x</a>'],
  ['<a href="https://www.example.org/baja?u=XYZDESUSCXYZ&amp;c=XYZCOLORXYZ">x</a>'],
  ['<a href="XYZENLACEXYZ">x</a>'],
  ['<a href="https://">x</a>'],
  ['<a name="https://example.org/">x</a>'],
  ['<link href="https://example.org/style.css">'],
  ['<img src="https://example.org/i.png">'],
  ['<a href="https://example.org/shown">https://example.org/shown</a>'],
  ['<a href="https://example.org/"> <b>www.example.org</b> </a>'],
  ['<!--[if mso]><a href="https://example.org/">x</a><![endif]-->'],
  ['<!-- <a href="https://example.org/">x</a> -->'],
  ['<style>a[href="https://example.org/"]{color:red}</style>'],
  ["<script>document.write('<a href=\"https://example.org/\">')</script>"],
  ['<title><a href="https://example.org/"></title>'],
])("leaves alone: %s", (html) => {
  expect(track(html)).toEqual({ shown: html + PIXEL, targets: [] });
});

it("rewrites what Outlook's conditional comments show to everybody else", () => {
  const html = '<!--[if !mso]><!--><a href="https://example.org/">x</a><!--<![endif]-->';
  expect(track(html).targets).toEqual(["https://example.org/"]);
});

it.each([
  ["<html><body><p>x</p></body></html>", `<html><body><p>x</p>${PIXEL}</body></html>`],
  ["<body>a</body><!-- </body> -->", `<body>a${PIXEL}</body><!-- </body> -->`],
  ["<html>a</html>", `<html>a${PIXEL}</html>`],
  ["a", `a${PIXEL}`],
  ["", PIXEL],
])("puts the pixel at the end of the body: %s", (html, expected) => {
  expect(track(html).shown).toBe(expected);
});

it.each(["⚡4email", "amp4email", "⚡", "AMP"])("leaves an AMP page alone: %s", (attribute) => {
  const html = `<!doctype html><html ${attribute}><body><a href="https://example.org/">x</a></body></html>`;
  expect(trackHtml(html)).toEqual({ html, links: new Map(), hidden: new Set() });
});

it("names equal targets alike, and a target alike in every message", () => {
  const { links } = trackHtml('<a href="https://example.org/?a&amp;b">1</a><a href="https://example.org/?a&b">2</a>');
  expect([...links]).toEqual([[linkIdOf("https://example.org/?a&b"), "https://example.org/?a&b"]]);
});

it("changes nothing but targets, whatever the page", () => {
  const piece = fc.constantFrom(
    '<a href="https://example.org/?a=1&b=2">',
    "<a href='https://example.org/x'>",
    "<a href=https://example.org>",
    "</a>",
    '<area href="https://example.org/area"/>',
    "<!--",
    "-->",
    "<style>",
    "</style>",
    "<script>",
    "</script>",
    "<!--[if mso]>",
    "<![endif]-->",
    "<body>",
    "</body>",
    "</html>",
    "<a",
    ">",
    "<",
    '"',
    "'",
    "https://example.org/",
    "XYZNOMBREXYZ",
    "<b>",
    "ñ 🕊",
    " ",
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(piece, fc.string()), { maxLength: 30 }), (pieces) => {
      const html = pieces.join("");
      const { html: tracked, links } = trackHtml(html);
      const restored = tracked.replaceAll(/XYZ_CLICK-([0-9a-f]{12})XYZ/g, (_tag, link) => links.get(link)!);
      expect(restored.replace(/<img src="XYZ_OPENXYZ"[^>]*>/, "")).toBe(html);
    }),
    { numRuns: 2_000 },
  );
});

it("reads a long page piece by piece, and finds the same wherever the pieces end", () => {
  const page =
    '<a class="x" href="https://example.org/?a&amp;b=&ntilde;">uno &amp; dos</a><!-- <a href="https://example.org/no"> -->' +
    "<script>if (1 < 2) '<a href=\"https://example.org/no\">'</script><a href='https://example.org/2'>https://shown.example</a>" +
    "<area href=https://example.org/3></body></html>";
  const { html: expected, ...found } = trackHtml(page);
  for (let shift = 0; shift < page.length; shift += 1) {
    const padding = " ".repeat(16_384 - shift);
    expect(trackHtml(padding + page)).toEqual({ html: padding + expected, ...found });
  }
});

it("does a page with very many links in steps that are short each", () => {
  const count = 20_000;
  const html = Array.from({ length: count }, (_, link) => `<a href="https://example.org/${link}">${link}</a>`).join(
    "\n",
  );
  let steps = 0;
  for (const work = trackHtmlSteps(html); !work.next().done; ) steps += 1;
  expect(steps).toBeGreaterThan(2 * count);
});

it("makes URLs that need no escaping where they are put", () => {
  expect(escapeHtml("https://track.example.org/c/AZaz09-_")).toBe("https://track.example.org/c/AZaz09-_");
});

it.each([
  [
    "in an element that is not displayed",
    '<div style="color: red; DISPLAY: none"><p><a href="https://a.test/">x</a></p></div>',
    true,
  ],
  ["itself not displayed", '<a href="https://a.test/" style="display:none">x</a>', true],
  ["itself invisible, style first", '<a style="visibility:hidden" href="https://a.test/">x</a>', true],
  ["hidden by its attribute", '<a href="https://a.test/" hidden>x</a>', true],
  ["nested deeper", '<div hidden><div></div><a href="https://a.test/">x</a></div>', true],
  ["behind what is hidden", '<div hidden><div></div></div><a href="https://a.test/">x</a>', false],
  [
    "where a style sheet may show it",
    '<div class="phone" style="display:none"><a href="https://a.test/">x</a></div>',
    false,
  ],
  [
    "hidden in one place and shown in another",
    '<a href="https://a.test/" hidden>x</a><a href="https://a.test/">x</a>',
    false,
  ],
  ["in a paragraph that may have been left open", '<p hidden><a href="https://a.test/">x</a>', false],
])("knows whether a reader can see a link: %s", (_where, html, hidden) => {
  const tracked = trackHtml(html);
  expect([...tracked.hidden]).toEqual(hidden ? [...tracked.links.keys()] : []);
});

it("leaves targets alone that are longer than 8 KiB", () => {
  const ofOctets = (octets: number) => `https://example.org/ñ${"x".repeat(octets - 22)}`;
  const [long, longer] = [ofOctets(8_192), ofOctets(8_193)];
  expect(Buffer.byteLength(long)).toBe(8_192);
  const { shown, targets } = track(`<a href="${long}">x</a><a href="${longer}">x</a>`);
  expect(targets).toEqual([long]);
  expect(shown).toBe(`<a href="[${long}]">x</a><a href="${longer}">x</a>${PIXEL}`);
});
