/** What may be said of a contact from outside: the fields of the API, which are the columns of the CSV as well. */
import { z } from "zod";
import { type Sentence, sentence } from "../sentences.ts";
import type { EmailAddress } from "./address.ts";
import { bareTagName } from "./personalise.ts";

/** A change to a contact, or a new one. Absent members stay as they are. */
export interface ContactChange {
  readonly address: EmailAddress;
  readonly firstName?: string;
  readonly lastName?: string;
  readonly age?: number;
  readonly sex?: string;
  readonly profession?: string;
  readonly locality?: string;
  readonly countryCode?: string;
  readonly regionCode?: string;
  readonly city?: string;
  readonly device?: string;
  readonly deviceSubtypeId?: number;
  /** The deprecated way: no event, and no regard for the whitelist. */
  readonly invalid?: boolean;
  /** Custom fields by name without the XYZ wrapping; null removes one. */
  readonly fields?: Readonly<Record<string, string | null>>;
  /** Names of groups to be in as well; unknown ones come into being. */
  readonly groups?: readonly string[];
}

const MAX_TEXT_CHARACTERS = 500;
const MAX_VALUE_CHARACTERS = 65_536;
export const MAX_LIST_ITEMS = 1_000;
/**
 * What a contact may have of its custom fields together, as JSON, and of the names of its groups. Contacts are read by
 * the thousand.
 */
export const MOST_KIBIBYTES = { fields: 256, groups: 64 } as const;

/** Groups of an instance. */
export const MOST_GROUPS = 50_000;
export const groupsFull: Sentence = sentence("groups-full", { most: MOST_GROUPS });

/** What there is too much of for a change: the contact's, or groups of the instance. */
export type Oversized = keyof typeof MOST_KIBIBYTES | "instance-groups";

/** Why a contact is not changed. */
export const contactOversized = (what: Oversized): Sentence =>
  what === "instance-groups" ? groupsFull : sentence(`contact-${what}-oversized`, { kibibytes: MOST_KIBIBYTES[what] });

/** Text that may end up in a header field: no line breaks. */
export const lineOfText = z
  .string()
  .max(MAX_TEXT_CHARACTERS, { abort: true, error: "at-most-characters" })
  .regex(/^[^\r\n]*$/);

/** Name of a group. */
export const groupName = lineOfText.regex(/\S/, "not-empty");

/** Name of a custom field or a global variable, with or without its XYZ wrapping. */
export const tagName = lineOfText.regex(/\S/, "not-empty");

/** Value of a custom field or a global variable. */
export const tagValueText = z.string().max(MAX_VALUE_CHARACTERS);

const customField = z.object({ nombre: tagName, valor: tagValueText.nullable() });

/** Fields of a contact but its email, by their names in the API. */
export const contactFields = {
  nombre: lineOfText.optional(),
  apellido: lineOfText.optional(),
  edad: z.int().min(0).max(150).optional(),
  sexo: z
    .string()
    // Not by `regex`: the OpenAPI document would carry it, and not all of its readers know Unicode classes.
    .refine((letter) => /^\p{L}?$/u.test(letter))
    .meta({ description: "one letter; empty: not known, as it is shown" })
    .optional(),
  profesion: lineOfText.optional(),
  localidad: lineOfText.optional(),
  codigo_pais: lineOfText.optional(),
  codigo_region: lineOfText.optional(),
  ciudad: lineOfText.optional(),
  dispositivo: lineOfText.optional(),
  subtipo_dispositivo_id: z.int32().optional(),
  invalido: z.boolean().optional(),
  campos: z.array(customField).max(MAX_LIST_ITEMS).optional(),
  grupos: z.array(groupName).max(MAX_LIST_ITEMS).optional(),
};

/** Columns of the CSV beside `email` that are fields of every contact; those of other names are custom fields. */
export const PROFILE_COLUMNS: ReadonlySet<string> = new Set(
  Object.keys(contactFields).filter((name) => name !== "campos"),
);

const contactSchema = z.object(contactFields);
type ContactFields = z.output<typeof contactSchema>;

/** The API's fields as a change. Of a custom field given twice the later one counts. */
export function toContactChange(address: EmailAddress, fields: ContactFields): ContactChange {
  return {
    address,
    firstName: fields.nombre,
    lastName: fields.apellido,
    age: fields.edad,
    sex: fields.sexo,
    profession: fields.profesion,
    locality: fields.localidad,
    countryCode: fields.codigo_pais,
    regionCode: fields.codigo_region,
    city: fields.ciudad,
    device: fields.dispositivo,
    deviceSubtypeId: fields.subtipo_dispositivo_id,
    invalid: fields.invalido,
    fields: fields.campos && Object.fromEntries(fields.campos.map(({ nombre, valor }) => [bareTagName(nombre), valor])),
    groups: fields.grupos,
  };
}
