import { ok, type Result, refuse } from "../../../../../core/result.ts";
import type { Problem } from "../../http.ts";
import { wholeNumber } from "../../typed-number.ts";
import type { Contact } from "./contact.ts";

/** As the fields of the form have them. */
export type ContactValues = {
  readonly email: string;
  readonly nombre: string;
  readonly apellido: string;
  readonly edad: string;
  readonly sexo: string;
  readonly profesion: string;
  readonly localidad: string;
  /** One a line: a name may have commas. */
  readonly grupos: string;
  /** `NAME=value`, one a line. */
  readonly campos: string;
};

/** @param contact the one to change; a new one when absent */
export function valuesOf(contact?: Contact): ContactValues {
  const { email = "", nombre = "", apellido = "", sexo = "", profesion = "", localidad = "" } = contact ?? {};
  const edad = contact?.edad?.toString() ?? "";
  return { email, nombre, apellido, edad, sexo, profesion, localidad, grupos: "", campos: "" };
}

/** What the API is asked for. An age that is taken away goes as it is, for the API to say that it takes none. */
export function fieldsOf(
  { edad, grupos, campos, ...plain }: ContactValues,
  contact?: Contact,
): Result<object, Problem> {
  const fields = readFields(campos);
  if (!fields.ok) return fields;
  const groups = linesIn(grupos);
  return ok({
    ...plain,
    ...(edad.trim() === "" && (contact?.edad ?? null) === null ? {} : { edad: wholeNumber(edad) }),
    ...(groups.length === 0 ? {} : { grupos: groups }),
    ...(fields.value.length === 0 ? {} : { campos: fields.value }),
  });
}

const linesIn = (text: string) =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);

/** A name with nothing behind its `=` removes the field; a line without one may be the rest of a value. */
function readFields(text: string): Result<readonly { nombre: string; valor: string | null }[], Problem> {
  const lines = linesIn(text);
  const stray = lines.find((line) => !/^[^=]*[^=\s][^=]*=/.test(line));
  if (stray !== undefined) return refuse(notAField(stray));
  return ok(
    lines.map((line) => {
      const at = line.indexOf("=");
      const value = line.slice(at + 1).trim();
      return { nombre: line.slice(0, at).trim(), valor: value === "" ? null : value };
    }),
  );
}

function notAField(line: string): Problem {
  const reason = { code: "name-and-value", values: { line }, message: "" } as const;
  return {
    status: 400,
    message: "",
    code: "invalid-field",
    values: { field: "campos", reason },
    field: "campos",
    body: null,
  };
}
