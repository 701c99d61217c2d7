import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { ParsedUrlQuery } from "node:querystring";
import { ZodDefault, ZodNumber, ZodObject, ZodOptional, type ZodType } from "zod";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result } from "../../core/result.ts";
import type { Aside, FairTurns } from "../fair-turns.ts";
import type { Observe } from "../observability/observation.ts";
import { isDatabaseAway } from "../postgres/db.ts";
import type { Dialect } from "./dialect.ts";
import { type AnyEndpoint, type Sharer, takesQuery } from "./endpoint.ts";
import { cleanFields, validateFields } from "./fields.ts";
import { parseJsonBody, parseTextBody } from "./request-body.ts";

/** A request whose caller is known and may ask for this, with its body: all that it takes to carry it out, in any thread. */
export interface Asked<Caller> {
  readonly requestId: string;
  readonly method: string;
  /** As the client wrote it. */
  readonly path: string;
  /** Path parameters, percent-decoded. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: ParsedUrlQuery;
  readonly headers: IncomingHttpHeaders;
  readonly clientAddress: string;
  readonly caller: Caller;
  readonly sharer: Sharer;
  /** Empty for `input: "stream"`. */
  readonly body: Buffer;
}

/** What of a request only the thread that has its connection, or the place that it is worked on in, can give. */
export interface Surroundings {
  readonly aside: Aside;
  /** The unread request, for `input: "stream"`. */
  readonly incoming?: IncomingMessage;
  /** In which large bodies are judged, one after another by caller. */
  readonly judgements?: FairTurns;
}

/** An endpoint's answer to a request: a value for its `reply`, a `RawReply`, or a refusal. */
export type Outcome = Result<unknown, Refusal>;

/** Waits for a place where the endpoint wants one, judges path, query and body, and acts. */
export async function carryOut<Caller>(
  declared: AnyEndpoint<Caller>,
  dialect: Pick<Dialect<Caller>, "judgedFields" | "queryFields">,
  asked: Asked<Caller>,
  { aside, incoming, judgements }: Surroundings,
): Promise<Outcome> {
  const { caller, sharer, method, headers, clientAddress, body } = asked;
  const place = await declared.admit?.(caller, body.length, headers);
  if (place && !place.ok) return place;
  const judge = async <T>(judgement: () => T): Promise<T> =>
    judgements ? judgements.runThenRest(sharer.key, judgement, sharer.group) : judgement();
  const act = async () => {
    const input = await judge(() => judgeInput(declared, dialect, asked));
    if (!input.ok) return input;
    const { params, fields, text } = input.value;
    const whose = { caller, sharer, method, headers, clientAddress, aside, incoming: incoming as IncomingMessage };
    return declared.act({ ...whose, judge, params, fields, text });
  };
  if (!place) return act();
  try {
    return await place.value.run(act);
  } finally {
    place.value.leave();
  }
}

/** What is said to the client of an error that should not be, after it was told to the operator. */
export function failureOf(
  err: unknown,
  observe: Observe,
  { requestId, method, path }: Pick<Asked<unknown>, "requestId" | "method" | "path">,
): Refusal {
  const databaseAway = isDatabaseAway(err);
  observe({
    kind: databaseAway ? "database-away" : "request-failed",
    level: "error",
    ...{ requestId, method, path, err },
  });
  return { kind: databaseAway ? "unavailable" : "internal" };
}

function judgeInput<Caller>(
  declared: AnyEndpoint<Caller>,
  dialect: Pick<Dialect<Caller>, "judgedFields" | "queryFields">,
  asked: Asked<Caller>,
) {
  const keepsNull = declared.keepsNull ?? (() => false);
  const cleanParams = cleanFields(asked.params, keepsNull, dialect.judgedFields);
  if (!cleanParams.ok) return cleanParams;
  const params = declared.params ? validateFields(declared.params, cleanParams.value) : ok({});
  if (!params.ok) return params;
  if (declared.input === "stream" || declared.input === "text") {
    const cleaned = cleanFields(withQuery(declared, dialect, {}, asked.query), keepsNull, dialect.judgedFields);
    if (!cleaned.ok) return cleaned;
    const fields = declared.fields ? validateFields(declared.fields, cleaned.value) : ok(undefined);
    if (!fields.ok) return fields;
    if (declared.input === "stream") return ok({ params: params.value, fields: fields.value, text: "" });
    const text = parseTextBody(asked.body);
    return text.ok ? ok({ params: params.value, fields: fields.value, text: text.value }) : text;
  }
  const body = parseJsonBody(asked.body);
  if (!body.ok) return body;
  const raw = withQuery(declared, dialect, body.value, asked.query);
  const cleaned = cleanFields(raw, keepsNull, dialect.judgedFields);
  if (!cleaned.ok) return cleaned;
  const fields = declared.fields ? validateFields(declared.fields, cleaned.value) : ok(undefined);
  return fields.ok ? ok({ params: params.value, fields: fields.value, text: "" }) : fields;
}

/**
 * Fields of the query string stand in where the body has none, or null. Everything is text there, so digits are read as a
 * number where the schema wants one; in a body a number must be a JSON number.
 */
function withQuery<Caller>(
  declared: AnyEndpoint<Caller>,
  dialect: Pick<Dialect<Caller>, "queryFields">,
  body: unknown,
  query: ParsedUrlQuery,
): unknown {
  if (body === null || typeof body !== "object" || Array.isArray(body)) return body;
  const fields: Record<string, unknown> = { ...body };
  for (const [key, given] of Object.entries(query)) {
    if ((fields[key] ?? null) !== null || !takesQuery(declared, dialect, key)) continue;
    const value = Array.isArray(given) ? given[0]! : given!;
    fields[key] = /^\d{1,16}$/.test(value) && isNumberField(declared.fields, key) ? Number(value) : value;
  }
  return fields;
}

function isNumberField(schema: ZodType | undefined, key: string): boolean {
  let field: ZodType | undefined = schema instanceof ZodObject ? schema.shape[key] : undefined;
  while (field instanceof ZodOptional || field instanceof ZodDefault) field = field.def.innerType as ZodType;
  return field instanceof ZodNumber;
}
