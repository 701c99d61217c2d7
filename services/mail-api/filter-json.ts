import { EVENT_NAMES } from "../core/mail/event-kind.ts";
import type { Comparison, FilterCondition, FilterField } from "../core/mail/filter-condition.ts";

/** A condition in the API's words, such as `{"campo":"edad","es":">=","valor":30}`. */
export type ConditionJson = { readonly [word: string]: unknown };

const FIELD_NAMES: Readonly<Record<FilterField, string>> = {
  email: "email",
  firstName: "nombre",
  lastName: "apellido",
  age: "edad",
  sex: "sexo",
  profession: "profesion",
  locality: "localidad",
  countryCode: "codigo_pais",
  regionCode: "codigo_region",
  city: "ciudad",
  device: "dispositivo",
  deviceSubtypeId: "subtipo_dispositivo_id",
  domainGroupId: "grupo_de_dominio_id",
};

export function toConditionJson(condition: FilterCondition): ConditionJson {
  if ("all" in condition) return { todas: condition.all.map(toConditionJson) };
  if ("any" in condition) return { alguna: condition.any.map(toConditionJson) };
  if ("not" in condition) return { no: toConditionJson(condition.not) };
  if ("field" in condition) return { campo: FIELD_NAMES[condition.field], ...toComparisonJson(condition) };
  if ("customField" in condition) return { campo: `XYZ${condition.customField}XYZ`, ...toComparisonJson(condition) };
  if ("group" in condition) return { grupo: condition.group };
  if ("invalid" in condition) return { invalido: condition.invalid };
  return {
    evento: EVENT_NAMES[condition.event],
    campana_id: condition.campaignNumid,
    dias: condition.withinDays,
  };
}

function toComparisonJson({ is, value }: Comparison): ConditionJson {
  const words = { contains: "contiene", "starts-with": "empieza con" } as const;
  return { es: is === "contains" || is === "starts-with" ? words[is] : is, valor: value };
}
