import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import type { ZodObject, ZodRawShape, ZodType, z } from "zod";
import type { Refusal } from "../../core/refusal.ts";
import type { Result } from "../../core/result.ts";
import type { Aside } from "../fair-turns.ts";
import type { Credentials, Dialect } from "./dialect.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** Who shares of what there is for all are counted by: the caller, or the address where none is asked for. */
export interface Sharer {
  readonly key: string;
  /** Those who have a share together, too, however many they are: the companies of a reseller. */
  readonly group: string;
}

/** Where work is done whose memory matters. */
export interface Place {
  /** Does the work there. */
  run<T>(work: () => Promise<T>): Promise<T>;
  /** Once. */
  leave(): void;
}

/** What an operation is handed: parsed, validated, authorised. */
export interface Request<Caller, Params, Fields> {
  readonly caller: Caller;
  readonly sharer: Sharer;
  /** As declared, or HEAD in the place of GET. */
  readonly method: string;
  /** Path parameters, percent-decoded. */
  readonly params: Params;
  /** The JSON body; on GET and DELETE the query string as well where the API says so; beside `text` and `stream` the query string. */
  readonly fields: Fields;
  readonly headers: IncomingHttpHeaders;
  readonly clientAddress: string;
  /** The body as text (`input: "text"`), else empty. */
  readonly text: string;
  /** The unread request, for `input: "stream"`. */
  readonly incoming: IncomingMessage;
  /** For what an operation reads of a large body by itself: as bodies are judged, in turn with those of other callers. */
  readonly judge: <T>(judgement: () => T) => Promise<T>;
  /** For what waits for the client, or for a server that it names: others work meanwhile. */
  readonly aside: Aside;
}

/** A body other than JSON. */
export class RawReply {
  readonly contentType: string;
  readonly body: string | Buffer | Readable;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    contentType: string,
    body: string | Buffer | Readable,
    status = 200,
    headers: Readonly<Record<string, string>> = {},
  ) {
    this.contentType = contentType;
    this.body = body;
    this.status = status;
    this.headers = headers;
  }
}

/**
 * One operation, declared once: from this come routing, validation, types and the OpenAPI document.
 * The runner (`app.ts`) does parse → authorise → act → respond; `act` gets only what passed.
 */
export interface Endpoint<
  Caller,
  Params extends ZodRawShape = ZodRawShape,
  Fields extends ZodType = ZodType,
  Reply extends ZodType = ZodType,
> {
  readonly method: Method;
  /**
   * Relative to the API's base, parameters as `:name`, a last `*name` takes the rest; without a trailing slash (one is
   * always accepted).
   */
  readonly path: string;
  readonly summary: string;
  /** Needs no credentials. */
  readonly open?: boolean;
  /** The ways to say who calls where they are not those of the dialect, for the OpenAPI document. */
  readonly credentials?: readonly Credentials[];
  readonly params?: ZodObject<Params>;
  readonly fields?: Fields;
  /** Header fields that it heeds, beside those of its credentials, for the OpenAPI document. */
  readonly headerFields?: ZodObject;
  /** Where the body goes: `json` (the default) into `fields`, `text` into `text`, `stream` is left unread. */
  readonly input?: "json" | "text" | "stream";
  /** Media type of a body that is no JSON, for the OpenAPI document; one of any type may be none. */
  readonly bodyType?: string;
  /** Fields and files of the form that `input: "stream"` is, for the OpenAPI document. */
  readonly form?: ZodObject;
  /** A JSON body that is taken in the place of another one, for the OpenAPI document. */
  readonly jsonBody?: ZodType;
  /** The only fields that may come in the query string; unless said, what the dialect says of GET and DELETE. */
  readonly queryFields?: readonly string[];
  /** JSON nulls count as missing, but for those that this claims. */
  readonly keepsNull?: (path: readonly (string | number)[]) => boolean;
  readonly reply: Reply;
  /** Media type of the reply where that is not JSON, for the OpenAPI document. */
  readonly replyType?: string;
  /** A JSON reply for those whose Accept asks for it, in the place of one of `replyType`, for the OpenAPI document. */
  readonly jsonReply?: ZodType;
  /** Of what is done, unless it is 200; 204 has no body. */
  readonly replyStatus?: 201 | 204;
  /** Statuses that it refuses with beside those of all operations, each with its reason, for the OpenAPI document. */
  readonly refusals?: Readonly<Partial<Record<403 | 404 | 409, string>>>;
  /**
   * Waits for a place to work on a body, before it is parsed: what a large one of JSON becomes takes ten times its octets.
   * It is left when the answer is made.
   */
  readonly admit?: (
    caller: Caller,
    bodyOctets: number,
    headers: IncomingHttpHeaders,
  ) => Promise<Result<Place, Refusal>>;
  /** Who may; undefined lets the caller pass. */
  readonly authorise?: (caller: Caller) => Refusal | undefined;
  act(
    request: Request<Caller, z.output<ZodObject<Params>>, z.output<Fields>>,
  ): Promise<Result<z.input<Reply> | RawReply, Refusal>>;
}

/** An endpoint whose own types are forgotten, for lists of them. */
// biome-ignore lint/suspicious/noExplicitAny: the types of one endpoint's parts belong together; a list of many has none in common
export type AnyEndpoint<Caller> = Endpoint<Caller, any, any, any>;

/** Operations, and how they are spoken to. */
export interface Door<Caller> {
  readonly dialect: Dialect<Caller>;
  readonly endpoints: readonly AnyEndpoint<Caller>[];
}

/** Whether a field of an operation may come in the query string; beside a body that is no JSON it comes nowhere else. */
export function takesQuery<Caller>(
  { input, method, queryFields }: AnyEndpoint<Caller>,
  dialect: Pick<Dialect<Caller>, "queryFields">,
  field: string,
): boolean {
  if (input === "text" || input === "stream") return true;
  return queryFields?.includes(field) ?? (dialect.queryFields && (method === "GET" || method === "DELETE"));
}

/** Declares an endpoint, inferring its types from its schemas. */
export function endpoint<Caller, Params extends ZodRawShape, Fields extends ZodType, Reply extends ZodType>(
  declaration: Endpoint<Caller, Params, Fields, Reply>,
): AnyEndpoint<Caller> {
  return declaration;
}
