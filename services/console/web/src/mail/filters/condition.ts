import { EVENT_NAMES } from "../../../../../core/mail/event-kind.ts";

/** A saved filter. */
export interface Filter {
  readonly id: number;
  readonly nombre: string;
  readonly condiciones: Condition;
  /** How many contacts it selects now. */
  readonly contactos: number;
  /** A group that it names and that is gone: it selects nobody. */
  readonly grupo_ausente?: string;
}

/** A condition in the mail API's words. */
export type Condition = AllOf | AnyOf | Not | FieldCondition | GroupCondition | ValidityCondition | EventCondition;
export interface AllOf {
  readonly todas: readonly Condition[];
}
export interface AnyOf {
  readonly alguna: readonly Condition[];
}
export interface Not {
  readonly no: Condition;
}
export interface FieldCondition {
  readonly campo: string;
  readonly es: string;
  readonly valor: string | number;
}
export interface GroupCondition {
  readonly grupo: string;
}
export interface ValidityCondition {
  readonly invalido: boolean;
}
export interface EventCondition {
  readonly evento: string;
  readonly campana_id?: number;
  readonly dias?: number;
}

/** What a row of the builder can be about. */
export type Subject = "field" | "custom" | "group" | "validity" | "event" | "all" | "any";

/** The fields of every contact, and whether they hold text or a number. */
export const FIELDS = {
  email: "text",
  nombre: "text",
  apellido: "text",
  edad: "number",
  sexo: "text",
  profesion: "text",
  localidad: "text",
  codigo_pais: "text",
  codigo_region: "text",
  ciudad: "text",
  dispositivo: "text",
  subtipo_dispositivo_id: "number",
  grupo_de_dominio_id: "number",
} as const;
export type FieldName = keyof typeof FIELDS;

export const TEXT_COMPARISONS = ["=", "!=", "contiene", "empieza con"] as const;
export const NUMBER_COMPARISONS = ["=", "!=", "<", "<=", ">", ">="] as const;

export const EVENTS: readonly string[] = Object.values(EVENT_NAMES);

/** What a new row of a subject begins with. @param group offered first among the groups */
export function newCondition(subject: Subject, group = ""): Condition {
  switch (subject) {
    case "field":
      return { campo: "email", es: "contiene", valor: "" };
    case "custom":
      return { campo: "XYZXYZ", es: "=", valor: "" };
    case "group":
      return { grupo: group };
    case "validity":
      return { invalido: false };
    case "event":
      return { evento: "vista", dias: 30 };
    case "all":
      return { todas: [newCondition("field")] };
    case "any":
      return { alguna: [newCondition("field")] };
  }
}

/** @param condition without its negation */
export function subjectOf(condition: Exclude<Condition, Not>): Subject {
  if ("todas" in condition) return "all";
  if ("alguna" in condition) return "any";
  if ("grupo" in condition) return "group";
  if ("invalido" in condition) return "validity";
  if ("evento" in condition) return "event";
  return customName(condition.campo) === undefined ? "field" : "custom";
}

/** A condition and whether it is negated; a double negation is none. */
export function splitNegation(condition: Condition): {
  readonly negated: boolean;
  readonly inner: Exclude<Condition, Not>;
} {
  if (!("no" in condition)) return { negated: false, inner: condition };
  const { negated, inner } = splitNegation(condition.no);
  return { negated: !negated, inner };
}

export function withNegation(inner: Condition, negated: boolean): Condition {
  return negated ? { no: inner } : inner;
}

/** A custom field's bare name; undefined for the fields that every contact has. */
export function customName(campo: string): string | undefined {
  return /^XYZ(.*)XYZ$/s.exec(campo)?.[1];
}

export const customField = (name: string): string => `XYZ${name}XYZ`;

/** Whether a field's values compare as numbers, which those of a custom field do when the value is one. */
export function isNumeric({ campo, valor }: FieldCondition): boolean {
  return customName(campo) === undefined ? FIELDS[campo as FieldName] === "number" : typeof valor === "number";
}

/** Whether every row says enough to be counted. */
export function isComplete(condition: Condition): boolean {
  const { inner } = splitNegation(condition);
  if ("todas" in inner) return inner.todas.every(isComplete);
  if ("alguna" in inner) return inner.alguna.every(isComplete);
  if ("grupo" in inner) return inner.grupo !== "";
  if ("campo" in inner) return customName(inner.campo) !== "" && Number.isNaN(inner.valor) === false;
  return true;
}
