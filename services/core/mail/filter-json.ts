/** Conditions of filters in the API's words, such as `{"campo":"edad","es":">=","valor":30}`. */
import { ok, type Result, refuse } from "../result.ts";
import { EVENT_NAMES, type EventKind } from "./event-kind.ts";
import { type Comparison, type FilterCondition, type FilterField, filterCondition } from "./filter-condition.ts";
import { bareTagName, wrappedTagName } from "./personalise.ts";

type ConditionJson = { readonly [word: string]: unknown };

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

const COMPARISON_WORDS: Readonly<Record<Comparison["is"], string>> = {
  "=": "=",
  "!=": "!=",
  "<": "<",
  "<=": "<=",
  ">": ">",
  ">=": ">=",
  contains: "contiene",
  "starts-with": "empieza con",
};

const FIELDS_BY_NAME = invert(FIELD_NAMES);
const COMPARISONS_BY_WORD = invert(COMPARISON_WORDS);
const EVENTS_BY_NAME = invert<EventKind>(EVENT_NAMES);

export function toConditionJson(condition: FilterCondition): ConditionJson {
  if ("all" in condition) return { todas: condition.all.map(toConditionJson) };
  if ("any" in condition) return { alguna: condition.any.map(toConditionJson) };
  if ("not" in condition) return { no: toConditionJson(condition.not) };
  if ("field" in condition) return { campo: FIELD_NAMES[condition.field], ...toComparisonJson(condition) };
  if ("customField" in condition)
    return { campo: wrappedTagName(condition.customField), ...toComparisonJson(condition) };
  if ("group" in condition) return { grupo: condition.group };
  if ("invalid" in condition) return { invalido: condition.invalid };
  return {
    evento: EVENT_NAMES[condition.event],
    ...(condition.campaignNumid === undefined ? {} : { campana_id: condition.campaignNumid }),
    ...(condition.withinDays === undefined ? {} : { dias: condition.withinDays }),
  };
}

function toComparisonJson({ is, value }: Comparison): ConditionJson {
  return { es: COMPARISON_WORDS[is], valor: value };
}

/** Parts of a condition, those that hold others included: it has no more levels either. */
const MOST_PARTS = 200;

/** What is read, and how many parts more it may have. */
interface Reading {
  readonly place: string;
  left: number;
}

/**
 * Reads a condition in the API's words.
 * @param place what it is called in the refusal
 * @returns refused with the place of the first part that is none, such as `condiciones.todas[1]`; with its own place where
 *   its parts are too many
 */
export function readConditionJson(json: unknown, place = "condiciones"): Result<FilterCondition, string> {
  return readPart(json, place, { place, left: MOST_PARTS });
}

function readPart(json: unknown, place: string, reading: Reading): Result<FilterCondition, string> {
  reading.left -= 1;
  if (reading.left < 0) return refuse(reading.place);
  if (typeof json !== "object" || json === null || Array.isArray(json)) return refuse(place);
  const { todas, alguna, no, ...rest } = json as ConditionJson;
  const words = Object.keys(json);
  if (words.length !== 1 || Object.keys(rest).length > 0) return readLeaf(json as ConditionJson, place);
  if (no !== undefined) {
    const part = readPart(no, `${place}.no`, reading);
    return part.ok ? ok({ not: part.value }) : part;
  }
  const parts = todas ?? alguna;
  if (!Array.isArray(parts)) return refuse(`${place}.${words[0]}`);
  const read: FilterCondition[] = [];
  for (const [index, part] of parts.entries()) {
    const condition = readPart(part, `${place}.${words[0]}[${index}]`, reading);
    if (!condition.ok) return condition;
    read.push(condition.value);
  }
  return ok(todas === undefined ? { any: read } : { all: read });
}

function readLeaf(json: ConditionJson, place: string): Result<FilterCondition, string> {
  const condition = filterCondition.safeParse(translate(json));
  return condition.success ? ok(condition.data) : refuse(place);
}

/** Word for word; a word that is none of ours makes no condition. */
function translate({ campo, es, valor, grupo, invalido, evento, campana_id, dias, ...unknown }: ConditionJson): object {
  return {
    ...(Object.keys(unknown).length === 0 ? {} : { unknown }),
    ...(campo === undefined ? {} : translateField(String(campo))),
    ...(es === undefined ? {} : { is: COMPARISONS_BY_WORD.get(String(es)) ?? "" }),
    ...(valor === undefined ? {} : { value: valor }),
    ...(grupo === undefined ? {} : { group: grupo }),
    ...(invalido === undefined ? {} : { invalid: invalido }),
    ...(evento === undefined ? {} : { event: EVENTS_BY_NAME.get(String(evento)) ?? "" }),
    ...(campana_id === undefined ? {} : { campaignNumid: campana_id }),
    ...(dias === undefined ? {} : { withinDays: dias }),
  };
}

/** A custom field is told from the others by its wrapping. */
function translateField(name: string): object {
  const bare = bareTagName(name);
  return bare === name ? { field: FIELDS_BY_NAME.get(name) ?? "" } : { customField: bare };
}

function invert<Key extends string>(names: Readonly<Record<Key, string>>): ReadonlyMap<string, Key> {
  return new Map(Object.entries<string>(names).map(([key, name]) => [name, key as Key]));
}
