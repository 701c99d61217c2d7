import { describe, expect, test } from "vitest";
import {
  bareTagName,
  builtInValues,
  escapeHtml,
  judgePlaces,
  MOST_PLACES,
  type PersonalValues,
  parseTemplate,
  renderTemplate,
  wrappedTagName,
} from "../../../../services/core/mail/personalise.ts";
import { processorMs } from "../../../support/processor-time.ts";

const contact = {
  email: "ana@example.net",
  firstName: "Ana",
  lastName: "",
  age: 0,
  sex: "F",
  profession: "",
  locality: "",
};
const values: PersonalValues = {
  system: new Map([["DESUSC", "https://t.example.org/u/x?a=1&b=2"]]),
  customFields: new Map([
    ["COLOR", "azul"],
    ["VACIO", ""],
    ["Fecha de alta", "2026-11-20"],
    ["A.B", "ab"],
    ["NOMBRE_2", "XYZCOLORXYZ"],
    ["DESUSC", "https://evil.example.net/"],
    ["SEXO", "from the custom field"],
  ]),
  builtIns: builtInValues(contact),
  globals: new Map([
    ["COLOR", "from the global"],
    ["VACIO", "from the global"],
    ["EMPRESA", "Ñandú & Cía <S.A.>"],
  ]),
};

function render(text: string, escapeValue?: (value: string) => string): string {
  return renderTemplate(parseTemplate(text), values, escapeValue);
}

describe("tags", () => {
  test.each([
    ["no tag at all", "no tag at all"],
    ["", ""],
    ["Hola XYZNOMBREXYZ!", "Hola Ana!"],
    ["XYZNOMBREXYZXYZCOLORXYZ", "Anaazul"],
    ["XYZEDADXYZ años", "0 años"],
    ["<XYZAPELLIDOXYZ>", "<>"],
    ["a XYZDESCONOCIDOXYZ b", "a  b"],
    ["XYZEMPRESAXYZ", "Ñandú & Cía <S.A.>"],
    ["XYZCOLORXYZ", "azul"],
    ["XYZVACIOXYZ", ""],
    ["XYZSEXOXYZ", "from the custom field"],
    ["XYZDESUSCXYZ", "https://t.example.org/u/x?a=1&b=2"],
    ["XYZTAG-CURLXYZ", ""],
    ["XYZ is not a tag, nor is XYZ", "XYZ is not a tag, nor is XYZ"],
    ["XYZnombreXYZ", ""],
    ["XYZAÑOXYZ", ""],
    ["el XYZFecha de altaXYZ, XYZA.BXYZ", "el 2026-11-20, ab"],
    ["XYZNOMBREXYZ de XYZCOLORXYZ", "Ana de azul"],
    ["XYZNOMBRE y XYZCOLORXYZ", "XYZNOMBRE y azul"],
    ["XYZ Motors and XYZ", "XYZ Motors and XYZ"],
    ["XYZa, bXYZ", "XYZa, bXYZ"],
  ])("%j becomes %j", (template, expected) => {
    expect(render(template)).toBe(expected);
  });

  test("a value that looks like a tag stays as it is", () => {
    expect(render("XYZNOMBRE_2XYZ")).toBe("XYZCOLORXYZ");
  });

  test("only values are escaped", () => {
    expect(render("<b>XYZEMPRESAXYZ</b> & co", escapeHtml)).toBe("<b>Ñandú &amp; Cía &lt;S.A.&gt;</b> & co");
    expect(render('<a href="XYZDESUSCXYZ">', escapeHtml)).toBe('<a href="https://t.example.org/u/x?a=1&amp;b=2">');
  });
});

test.each(["XYZ", "XYZa ", "XYZa.b ", "XYZ a", "XYZ-"])(
  "tags are looked for once, however often %j is there",
  (piece) => {
    const text = piece.repeat(300_000);
    const startedMs = processorMs();
    parseTemplate(text);
    expect(processorMs() - startedMs).toBeLessThan(20_000);
  },
);

test.each(["a", "a. "])("a tag that nobody closes is text, however long: XYZ%s…", (piece) => {
  const text = `XYZ${piece.repeat(5_000_000)}`;
  expect(parseTemplate(text)).toEqual([text]);
  expect(parseTemplate(`${text}XYZNOMBREXYZ`)).toEqual([text, { tag: "NOMBRE" }]);
});

test.each([
  [500, [{ tag: "n".repeat(500) }]],
  [501, [`XYZ${"n".repeat(501)}XYZ`]],
])("a tag of %d characters", (length, parsed) => {
  expect(parseTemplate(`XYZ${"n".repeat(length)}XYZ`)).toEqual(parsed);
});

test("an absent age is empty", () => {
  expect(builtInValues({ ...contact, age: null }).get("EDAD")).toBe("");
});

test("quotes cannot end an attribute", () => {
  expect(escapeHtml(`"'`)).toBe("&quot;&#39;");
});

test.each([
  ["XYZCOLORXYZ", "COLOR", "XYZCOLORXYZ"],
  ["COLOR", "COLOR", "XYZCOLORXYZ"],
  ["XYZXYZ", "XYZXYZ", "XYZXYZXYZXYZ"],
])("the wrapping of %j is optional", (given, bare, wrapped) => {
  expect(bareTagName(given)).toBe(bare);
  expect(wrappedTagName(given)).toBe(wrapped);
});

test.each([
  ["links", (count: number) => '<a HREF = "http://example.org/">x</a>'.repeat(count)],
  ["tags", (count: number) => "XYZNOMBREXYZ ".repeat(count)],
  ["both", (count: number) => `<a href="XYZURLXYZ">${'<a href="x">'.repeat(count - 2)}`],
])("a page has as many links and tags as can be made anew for each recipient: %s", (_, make) => {
  expect(judgePlaces(make(MOST_PLACES))).toBeUndefined();
  expect(judgePlaces(make(MOST_PLACES + 1))?.message).toBe("html: mas de 10000 enlaces y etiquetas");
});
