import { ZodDefault, ZodNullable, ZodObject, ZodOptional, type ZodRawShape, type ZodType, type z } from "zod";
import type { Refusal } from "../core/refusal.ts";
import type { Result } from "../core/result.ts";
import { type AnyEndpoint, type Endpoint, RawReply, type Request } from "../platform/http/endpoint.ts";
import { beginAudit, settleAudit, withdrawAudit } from "../store/console/audit.ts";
import { type AdminCaller, scopeOfRequest } from "./caller.ts";
import type { ConsoleContext } from "./context.ts";
import { CREDENTIALS_OF_CHANGES } from "./dialect.ts";
import { problem } from "./problems.ts";

/** What the audit log says of a change. */
export interface Change<Params, Fields> {
  /** What is done: an object and a verb, such as `acl.add`. */
  readonly action: string;
  /** To what, in words of the user's: a name, a domain, a login. */
  object(request: Pick<Request<AdminCaller, Params, Fields>, "params" | "fields" | "caller">): string;
  /** What else is worth knowing, such as the new values. Never a secret, never a message body. */
  detail?(request: Pick<Request<AdminCaller, Params, Fields>, "params" | "fields">): object;
}

/**
 * An operation of the console. One that changes something declares the change, and the audit log has it; one that is
 * no GET and changes nothing declares `change: null`.
 */
export type ConsoleEndpointOf<Params extends ZodRawShape, Fields extends ZodType, Reply extends ZodType> = Omit<
  Endpoint<AdminCaller, Params, Fields, Reply>,
  "keepsNull"
> & {
  readonly change?: Change<z.output<ZodObject<Params>>, z.output<Fields>> | null;
};

export type ConsoleEndpoint = AnyEndpoint<AdminCaller> & {
  // biome-ignore lint/suspicious/noExplicitAny: as in AnyEndpoint, a list of many has no types in common
  readonly change?: Change<any, any> | null;
};

/** Every file of `routes/` exports one of these. */
export type MakeConsoleEndpoints = (context: ConsoleContext) => readonly ConsoleEndpoint[];

/** Declares an operation, inferring its types from its schemas. A field that may be null keeps it: null sets to nothing. */
export function consoleEndpoint<Params extends ZodRawShape, Fields extends ZodType, Reply extends ZodType>(
  declaration: ConsoleEndpointOf<Params, Fields, Reply>,
): ConsoleEndpoint {
  const { fields } = declaration;
  const shape: ZodRawShape = fields instanceof ZodObject ? fields.shape : {};
  const nullable = new Set(Object.keys(shape).filter((name) => isNullable(shape[name])));
  return { ...declaration, keepsNull: ([field, ...deeper]) => deeper.length === 0 && nullable.has(`${field}`) };
}

function isNullable(schema: unknown): boolean {
  if (schema instanceof ZodOptional || schema instanceof ZodDefault) return isNullable(schema.def.innerType);
  return schema instanceof ZodNullable;
}

/** Puts the checks around an operation that all have in common: the CSRF token, and the audit log. */
export function guard(context: ConsoleContext, declared: ConsoleEndpoint): AnyEndpoint<AdminCaller> {
  if (declared.open || (declared.method === "GET" && !declared.change)) return declared;
  if (declared.change === undefined)
    throw new Error(`${declared.method} ${declared.path} does not say what it changes`);
  const { change } = declared;
  return {
    ...declared,
    credentials: CREDENTIALS_OF_CHANGES,
    authorise: (caller) => csrfProblem(caller) ?? declared.authorise?.(caller),
    act: change === null ? declared.act : (request) => actAudited(context, { ...declared, change }, request),
  };
}

/** A cookie goes along with whatever page makes a browser send a request; the token only with requests of our own. */
function csrfProblem({ session }: AdminCaller): Refusal | undefined {
  return session === null || session.csrfGiven ? undefined : problem("csrf-wrong");
}

/**
 * The entry is written first, so that no change is made that nobody can tell of. A refused one leaves none; where it is
 * not known whether the change was made, such as when an API went away before it answered, the entry stays as begun.
 */
async function actAudited(
  { db, clock }: ConsoleContext,
  declared: ConsoleEndpoint & { readonly change: NonNullable<ConsoleEndpoint["change"]> },
  request: Request<AdminCaller, Readonly<Record<string, unknown>>, unknown>,
): Promise<Result<unknown, Refusal>> {
  const { caller, clientAddress, params } = request;
  const { change } = declared;
  const entryId = await beginAudit(
    db,
    {
      actor: caller.login,
      address: clientAddress,
      action: change.action,
      object: change.object(request),
      detail: change.detail?.(request) ?? {},
      about: scopeOfRequest(caller, declared.path, params),
    },
    new Date(clock.nowMs()),
  );
  const outcome: Result<unknown, Refusal> = await declared.act(request);
  const end = endOf(outcome);
  if (end === "done") await settleAudit(db, entryId);
  if (end === "refused") await withdrawAudit(db, entryId);
  return outcome;
}

function endOf(outcome: Result<unknown, Refusal>): "done" | "refused" | "unknown" {
  if (!outcome.ok) return isCertain(outcome.error) ? "refused" : "unknown";
  if (!(outcome.value instanceof RawReply) || outcome.value.status < 400) return "done";
  return outcome.value.status < 500 ? "refused" : "unknown";
}

function isCertain({ kind }: Refusal): boolean {
  return kind !== "unavailable" && kind !== "internal";
}
