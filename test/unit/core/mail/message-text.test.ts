import { describe, expect, test } from "vitest";
import { textFromHtml } from "../../../../services/core/mail/message-text.ts";
import { processorMs } from "../../../support/processor-time.ts";

describe("text of HTML", () => {
  test.each([
    ["", ""],
    ["just text", "just text"],
    ["<p>one</p><p>two</p>", "one\n\ntwo"],
    ["<div>one</div><div>two</div>three", "one\ntwo\nthree"],
    ["one<br>two<br/><br>three<br><br><br><br>four", "one\ntwo\n\nthree\n\nfour"],
    ["  a \n <b>b</b>c <i> d</i>", "a bc d"],
    ["a&nbsp;b &lt;c&gt; &amp;amp; &ntilde;", "a b <c> &amp; ñ"],
    ["<h1>Hola XYZnombreXYZ</h1>text", "Hola XYZnombreXYZ\n\ntext"],
    ["<ul><li>one</li><li>two</ul>end", "* one\n* two\n\nend"],
    ["<table><tr><td>a</td><td>b</td></tr><tr><th>c</th><td>d</td></tr></table>", "a b\nc d"],
    ["<html><head><title>T</title><style>p{}</style></head><body>x<script>alert(1)</script></body></html>", "x"],
    ["<html><head><title>T</title><body>no end of head", "no end of head"],
    ["a</style></pre></a></div>b", "ab"],
    ["<pre>a\n  b</pre>c", "a\n  b\n\nc"],
    ["<img alt='Logo' src=x><img src=y>", "Logo"],
    ["a<hr>b", "a\n\n---\n\nb"],
    ["<!-- hidden --><![CDATA[x]]>shown", "shown"],
  ])("%j", (html, text) => {
    expect(textFromHtml(html)).toBe(text);
  });

  test.each([
    ['<a href="https://example.org/?a=1&amp;b=2">offer</a> now', "offer [https://example.org/?a=1&b=2] now"],
    ['<a href="https://example.org/">https://example.org/</a>', "https://example.org/"],
    ['<a href="mailto:a@example.org">a@example.org</a>', "a@example.org"],
    ['<a href="XYZDESUSCXYZ">unsubscribe</a>', "unsubscribe [XYZDESUSCXYZ]"],
    ['<a href="#top">top</a> <a name="x">x</a> <a href="javascript:alert(1)">y</a>', "top x y"],
    ['<a href="https://example.org/"><img src="x"></a>', "[https://example.org/]"],
  ])("link %j", (html, text) => {
    expect(textFromHtml(html)).toBe(text);
  });
});

test.each([
  ["div", "<div>"],
  ["b", "<b>"],
  ["tables", "<table><tr><td>"],
  ["lists", "<ul><li>"],
  ["links", "<a href='https://example.org/'>x"],
  ["comments", "<!--"],
  ["attributes", "<p x=1 "],
  ["entities", "&amp"],
  ["brackets", "<"],
])("hostile input costs no more than its length: %s", (_, piece) => {
  const html = `<p>start</p>${piece.repeat(50_000)}`;
  const startedMs = processorMs();
  expect(textFromHtml(html)).toMatch(/^start/);
  expect(processorMs() - startedMs).toBeLessThan(5_000);
});

test("a long page is read piece by piece, to the same text wherever the pieces end", () => {
  const page =
    '<p>one  &amp; <b>two</b> </p><a href="https://example.org/?a&amp;b">three\n four</a><pre> five\n  six </pre>' +
    '<script>if (1 < 2) "<p>no</p>"</script><!-- no --><img alt="seven &eacute;"><ul><li>eight</li></ul>';
  const expected = textFromHtml(page);
  for (let shift = 0; shift < page.length; shift += 1) {
    expect(textFromHtml(" ".repeat(16_384 - shift) + page)).toBe(expected);
  }
});
