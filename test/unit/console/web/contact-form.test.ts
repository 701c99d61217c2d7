import { describe, expect, test } from "vitest";
import type { Contact } from "../../../../services/console/web/src/mail/contacts/contact.ts";
import { fieldsOf, valuesOf } from "../../../../services/console/web/src/mail/contacts/contact-form.ts";

const ANA = {
  email: "ana@example.org",
  nombre: "Ana",
  apellido: "",
  edad: 31,
  sexo: "F",
  profesion: "",
  localidad: "",
};
const known = ANA as unknown as Contact;

describe("a contact's form", () => {
  test("asks for what it shows, and for no age where none was given", () => {
    expect(fieldsOf(valuesOf())).toEqual({
      ok: true,
      value: { email: "", nombre: "", apellido: "", sexo: "", profesion: "", localidad: "" },
    });
    expect(fieldsOf(valuesOf(known), known)).toEqual({ ok: true, value: ANA });
  });

  test("takes the sex away, and has an age that is taken away refused", () => {
    const { sexo, edad } = (fieldsOf({ ...valuesOf(known), sexo: "", edad: "" }, known) as { value: typeof ANA }).value;
    expect({ sexo, edad }).toEqual({ sexo: "", edad: "" });
  });

  test("has a group and a custom field on each line, whatever commas they hold", () => {
    const campos = "ADDRESS=12 Main St, Rosario\n\n NOTE = a=b \nCOLOR=";
    expect(fieldsOf({ ...valuesOf(known), grupos: "Clients, VIP\nnews\n", campos }, known)).toMatchObject({
      value: {
        grupos: ["Clients, VIP", "news"],
        campos: [
          { nombre: "ADDRESS", valor: "12 Main St, Rosario" },
          { nombre: "NOTE", valor: "a=b" },
          { nombre: "COLOR", valor: null },
        ],
      },
    });
  });

  test.each(["ADDRESS=12 Main St\nRosario", "=red", " = "])("refuses %j, which is no name and value", (campos) => {
    expect(fieldsOf({ ...valuesOf(known), campos })).toMatchObject({ ok: false, error: { field: "campos" } });
  });
});
