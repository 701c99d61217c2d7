import { ZodObject, type ZodRawShape, type ZodType, z } from "zod";
import { createDocument, type ZodOpenApiOperationObject, type ZodOpenApiPathsObject } from "zod-openapi";
import { groupBy } from "../../core/groups.ts";
import { packageVersion } from "../package-folder.ts";
import type { Credentials, Dialect } from "./dialect.ts";
import { type AnyEndpoint, type Door, takesQuery } from "./endpoint.ts";
import { PROBLEM_TYPE, problemJson } from "./problem.ts";

type OpenapiDocument = ReturnType<typeof createDocument>;

/** The OpenAPI 3.1 document of an API, made from the declarations that validate its requests. */
export function makeOpenapi<Caller>(
  { dialect, endpoints }: Door<Caller>,
  otherDoor?: Door<Caller> | undefined,
): OpenapiDocument {
  const doors = [{ dialect, endpoints }, ...(otherDoor ? [otherDoor] : [])];
  const paths = doors.map((door, at) => describePaths(door, at === 0 ? "Refusal" : "OtherRefusal"));
  return createDocument({
    openapi: "3.1.0",
    servers: [{ url: "/" }],
    info: { title: dialect.title, version: dialect.version ?? packageVersion, description: dialect.description },
    components: {
      securitySchemes: Object.assign({}, ...doors.flatMap(credentialsOf)),
    },
    paths: Object.assign({}, ...paths),
  });
}

function credentialsOf<Caller>({ dialect, endpoints }: Door<Caller>): Credentials[] {
  return [...dialect.credentials, ...endpoints.flatMap(({ credentials = [] }) => credentials)];
}

function describePaths<Caller>({ dialect, endpoints }: Door<Caller>, refusalId: string): ZodOpenApiPathsObject {
  const paths: ZodOpenApiPathsObject = {};
  const refusal = refusalSchema(dialect, refusalId);
  for (const declared of endpoints) {
    const path = dialect.base + declared.path.replaceAll(/[:*](\w+)/g, "{$1}");
    const method = declared.method.toLowerCase();
    const operation = {
      operationId: operationId(method, declared.path),
      ...describeOperation(dialect, declared, refusal),
    };
    paths[path] = { ...paths[path], [method]: operation };
  }
  return paths;
}

function requirement(credentials: Credentials): Record<string, string[]> {
  return Object.fromEntries(Object.keys(credentials).map((name) => [name, []]));
}

/** What generated clients call their functions: `getZoneFileDomain` of `GET /zone_file/:domain`. */
function operationId(method: string, path: string): string {
  const words = path.match(/[A-Za-z0-9]+/g) ?? [];
  return method + words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join("");
}

function describeOperation<Caller>(
  dialect: Dialect<Caller>,
  declared: AnyEndpoint<Caller>,
  refusal: ZodType,
): ZodOpenApiOperationObject {
  const refused = { "application/json": { schema: refusal }, [PROBLEM_TYPE]: { schema: problemJson } };
  const body = requestBody(declared, dialect);
  return {
    summary: declared.summary,
    security: declared.open ? [] : (declared.credentials ?? dialect.credentials).map(requirement),
    requestParams: {
      path: declared.params ?? pathParameters(declared.path),
      ...(declared.headerFields ? { header: declared.headerFields } : {}),
      ...(declared.fields instanceof ZodObject ? { query: queryFields(declared, dialect) } : {}),
    },
    ...body,
    responses: {
      [`${declared.replyStatus ?? 200}`]: {
        description: "Done",
        ...(declared.replyStatus !== 204 && {
          content: {
            [declared.replyType ?? "application/json"]: { schema: declared.reply as ZodType },
            ...jsonContent(declared.jsonReply),
          },
        }),
      },
      ...Object.fromEntries(
        reasonsToRefuse(dialect, declared).map(([status, description]) => [status, { description, content: refused }]),
      ),
      ...(body.requestBody && { "413": { description: "The body is too large", content: refused } }),
    },
  };
}

/** The statuses that an operation refuses with, whatever its body, each with its reasons. */
function reasonsToRefuse<Caller>(dialect: Dialect<Caller>, declared: AnyEndpoint<Caller>): [string, string][] {
  const unauthenticated = `${dialect.toHttp({ kind: "unauthenticated" }).status}`;
  const ofCallers = [
    [unauthenticated, "No credentials, or unknown ones"],
    ...(declared.authorise ? [["403", "Not with these credentials"]] : []),
    ["429", "Too many requests: see Retry-After"],
  ];
  const reasons = [
    ["400", "A field is missing or wrong, or the data does not allow it"],
    ...(declared.open ? [] : ofCallers),
    ...Object.entries(declared.refusals ?? {}),
    ["default", "Refused, or not available at present"],
  ] as [string, string][];
  const byStatus = groupBy(reasons, ([status]) => status);
  return [...byStatus].map(([status, same]) => [status, same.map(([, reason]) => reason).join("; ")]);
}

/** The fields that may come in the query string: optional where the body may have them instead. */
function queryFields<Caller>(declared: AnyEndpoint<Caller>, dialect: Dialect<Caller>): ZodObject {
  const { shape } = declared.fields as ZodObject;
  const taken = Object.keys(shape).filter((name) => takesQuery(declared, dialect, name));
  return z.object(isJson(declared) ? optional(shape, taken) : shape);
}

function optional(shape: ZodRawShape, names: readonly string[]): ZodRawShape {
  return Object.fromEntries(names.map((name) => [name, optionalField(shape[name] as ZodType)]));
}

function optionalField(field: ZodType): ZodType {
  if (field.safeParse(undefined).success) return field;
  const { description } = field;
  return description === undefined ? field.optional() : field.optional().meta({ description });
}

function isJson({ input = "json" }: Pick<AnyEndpoint<never>, "input">): boolean {
  return input === "json";
}

function requestBody<Caller>(
  declared: AnyEndpoint<Caller>,
  dialect: Dialect<Caller>,
): Pick<ZodOpenApiOperationObject, "requestBody"> {
  const { input, method, form, bodyType = form ? "multipart/form-data" : "text/plain", jsonBody } = declared;
  if (!isJson(declared)) {
    if (input === "stream" && method === "GET") return {};
    const schema = form ?? (bodyType === "*/*" ? z.unknown() : z.string());
    const content = { [bodyType]: { schema }, ...jsonContent(jsonBody) };
    return { requestBody: { required: bodyType !== "*/*", content } };
  }
  const fields: ZodType | undefined = declared.fields;
  if (!fields) return {};
  const rest =
    fields instanceof ZodObject
      ? fields.safeExtend(queryFields(declared, dialect).shape as typeof fields.shape)
      : fields;
  const required = !rest.safeParse({}).success;
  return { requestBody: { required, content: jsonContent(declared.queryFields ? rest : fields) } };
}

function jsonContent(schema: ZodType | undefined) {
  return schema ? { "application/json": { schema } } : {};
}

function pathParameters(path: string): ZodObject {
  return z.object(Object.fromEntries([...path.matchAll(/[:*](\w+)/g)].map(([, name]) => [name!, z.string()])));
}

function refusalSchema<Caller>(dialect: Dialect<Caller>, id: string): ZodType {
  const sample = dialect.toHttp({ kind: "unauthenticated" }).body as Record<string, unknown>;
  const schema = dialect.refusal ?? z.object(Object.fromEntries(Object.keys(sample).map((key) => [key, z.string()])));
  return schema.meta({ id });
}

/** The document as a page: no script, nothing loaded from elsewhere. */
export function makeDocsPage(document: OpenapiDocument): string {
  const operations = Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
    Object.entries(item ?? {}).map(([method, operation]) => describe(method, path, operation)),
  );
  const title = escapeHtml(document.info.title);
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${title}</title><style>${STYLE}</style><h1>${title} ${escapeHtml(document.info.version)}</h1>
<p>${escapeHtml(document.info.description ?? "")}</p><p><a href="openapi.json">openapi.json</a></p>
${operations.join("\n")}</html>`;
}

function describe(method: string, path: string, operation: unknown): string {
  const { summary = "", parameters, requestBody: body, responses } = operation as Record<string, string>;
  const details = JSON.stringify({ parameters, requestBody: body, responses }, null, 2);
  return `<details><summary><b>${escapeHtml(method.toUpperCase())}</b> <code>${escapeHtml(path)}</code> ${escapeHtml(summary)}</summary><pre>${escapeHtml(details)}</pre></details>`;
}

const STYLE =
  "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:auto;padding:1rem;color-scheme:light dark}" +
  "summary{cursor:pointer;padding:.3rem 0}pre{overflow:auto;font-size:.8rem}b{display:inline-block;min-width:4.5rem}";

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
