import { describe, expect, test } from "vitest";
import {
  bareTagName,
  builtInValues,
  escapeHtml,
  type PersonalValues,
  parseTemplate,
  renderTemplate,
  wrappedTagName,
} from "../../../../services/core/mail/personalise.ts";

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
