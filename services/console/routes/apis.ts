import { z } from "zod";
import type { Refusal } from "../../core/refusal.ts";
import type { Result } from "../../core/result.ts";
import type { RawReply, Request } from "../../platform/http/endpoint.ts";
import { type AdminCaller, areaOf, delegateDns, visibleInstance } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { type ConsoleEndpoint, consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { passOn } from "../pass-on.ts";

const METHODS = ["GET", "POST", "PUT", "DELETE"] as const;
type ApiMethod = (typeof METHODS)[number];

const anything = z.unknown().meta({ description: "as the API answers" });

/** Operations of the mail API that change something although they are GETs. */
const CHANGING_GETS = ["invalidar", "revalidar"] as const;

/** The two APIs, through the console's session: history and audit log say who it was. */
export const makeApiEndpoints: MakeConsoleEndpoints = (context) => [
  ...CHANGING_GETS.map((operation) => changingGet(context, operation)),
  ...METHODS.flatMap((method) => [dnsEndpoint(context, method), mailEndpoint(context, method)]),
];

function dnsEndpoint(context: ConsoleContext, method: ApiMethod): ConsoleEndpoint {
  return consoleEndpoint({
    method,
    path: "/dns/:reseller_id/*path",
    summary: `${method} of the DNS API, as this reseller, or as the company that is signed in`,
    authorise: areaOf("reseller", "company"),
    params: z.object({ reseller_id: z.string(), path: z.string() }),
    input: "stream",
    bodyType: "*/*",
    change:
      method === "GET"
        ? undefined
        : { action: `dns.${method.toLowerCase()}`, object: ({ params }) => `${params.reseller_id}/${params.path}` },
    reply: anything,
    act: async (request) => {
      const delegation = await delegateDns(context.db, request.caller, request.params.reseller_id);
      if (!delegation.ok) return delegation;
      return passOn(context, request, { delegation: delegation.value, method, path: restOf(request.incoming.url) });
    },
  });
}

function mailEndpoint(context: ConsoleContext, method: ApiMethod): ConsoleEndpoint {
  return consoleEndpoint({
    method,
    path: "/mail/:instance/*path",
    summary: `${method} of the mail API, as this instance`,
    authorise: areaOf("instance"),
    params: z.object({ instance: z.string(), path: z.string() }),
    input: "stream",
    bodyType: "*/*",
    change:
      method === "GET"
        ? undefined
        : { action: `mail.${method.toLowerCase()}`, object: ({ params }) => `${params.instance}/${params.path}` },
    reply: anything,
    act: (request) => passToMail(context, request, method),
  });
}

function changingGet(context: ConsoleContext, operation: (typeof CHANGING_GETS)[number]): ConsoleEndpoint {
  return consoleEndpoint({
    method: "GET",
    path: `/mail/:instance/${operation}/:email`,
    summary: `${operation} of the mail API, as this instance: changes something, so it takes the CSRF token`,
    authorise: areaOf("instance"),
    params: z.object({ instance: z.string(), email: z.string() }),
    input: "stream",
    change: { action: `mail.${operation}`, object: ({ params }) => `${params.instance}/${params.email}` },
    reply: anything,
    act: (request) => passToMail(context, request, "GET"),
  });
}

async function passToMail(
  context: ConsoleContext,
  request: Request<AdminCaller, { readonly instance: string }, unknown>,
  method: ApiMethod,
): Promise<Result<RawReply, Refusal>> {
  const { caller, params } = request;
  const instance = await visibleInstance(context.db, caller, params.instance);
  if (!instance.ok) return instance;
  const delegation = { audience: "mail", login: caller.login, instance: instance.value.name } as const;
  return passOn(context, request, { delegation, method, path: restOf(request.incoming.url) });
}

/** What follows `/admin/v1/<api>/<whose>/`, as it was sent: the API decodes by itself. */
function restOf(url = ""): string {
  return url.split("/").slice(5).join("/");
}
