import { z } from "zod";
import { parseSuppressionTarget, SUPPRESSION_KINDS, type SuppressionTarget } from "../../core/mail/suppression.ts";
import { type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { importSuppressions, MOST_NOTE_CHARACTERS } from "../../operations/mail/suppression-import.ts";
import { ADDED_KINDS, exportSuppressions, suppress, unsuppress } from "../../operations/mail/suppressions.ts";
import { exportReply } from "../../platform/http/streamed-reply.ts";
import type { ConsoleScope } from "../../store/console/console-scope.ts";
import {
  isSuppressionCursor,
  type ListedSuppression,
  listGlobalSuppressions,
  listSuppressions,
} from "../../store/mail/contacts/suppression-list.ts";
import type { SuppressionOwner } from "../../store/mail/contacts/suppressions.ts";
import { type AdminCaller, areaOf, sharerOf } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { type ConsoleEndpoint, consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { startImportJob } from "../import-job.ts";
import { problem } from "../problems.ts";
import { jobReply, pageLimit } from "../schemas.ts";
import { withInstance } from "../with-instance.ts";

/** A list of those who are not to be mailed: an instance's below its path, and the operator's, which holds for all. */
interface ListPath {
  readonly path: string;
  readonly whose: string;
  readonly params: z.ZodObject;
  readonly authorise: (caller: AdminCaller) => Refusal | undefined;
  /** Acts on the list that the path names, where the caller may. */
  act<T>(
    context: ConsoleContext,
    caller: AdminCaller,
    params: Readonly<Record<string, unknown>>,
    use: (list: OpenList) => Promise<Result<T, Refusal>>,
  ): Promise<Result<T, Refusal>>;
}

interface OpenList {
  readonly owner: SuppressionOwner;
  /** What files and jobs are called by. */
  readonly name: string;
  readonly about: ConsoleScope;
}

const INSTANCES: ListPath = {
  path: "/instances/:name/suppressions",
  whose: "an instance",
  params: z.object({ name: z.string() }),
  authorise: areaOf("instance"),
  act: (context, caller, params, use) =>
    withInstance(context, caller, String(params.name), ({ id, name }) =>
      use({ owner: { instanceId: id }, name, about: { role: "instance", scope: name } }),
    ),
};

const OPERATORS: ListPath = {
  path: "/suppressions",
  whose: "all instances",
  params: z.object({}),
  authorise: areaOf(),
  act: (_context, _caller, _params, use) =>
    use({ owner: "operator", name: "all", about: { role: "operator", scope: null } }),
};

/** Who is not to be mailed, why and since when: listed, added, taken off, brought in and out. */
export const makeSuppressionEndpoints: MakeConsoleEndpoints = (context) =>
  [INSTANCES, OPERATORS].flatMap((list) => [
    listEndpoint(context, list),
    addEndpoint(context, list),
    exportEndpoint(context, list),
    importEndpoint(context, list),
    removeEndpoint(context, list),
  ]);

const kindField = z.enum(SUPPRESSION_KINDS);
const entryJson = z.object({
  kind: kindField,
  target: z.string().nullable().meta({ description: "an address, or @ and a domain; null of an erased address" }),
  since: z.string().nullable(),
  note: z.string(),
  creator: z.string().meta({ description: "login of who put it there; empty: a command, or nobody" }),
  cause: z
    .object({
      event: z.string(),
      at: z.string(),
      eeid: z.string().nullable().meta({ description: "the batch whose message it was" }),
      detail: z.record(z.string(), z.unknown()),
    })
    .nullable(),
  campaign: z
    .object({ numid: z.int(), name: z.string() })
    .nullable()
    .meta({ description: "of an unsubscription from it alone" }),
});

function listEndpoint(context: ConsoleContext, list: ListPath): ConsoleEndpoint {
  return consoleEndpoint({
    method: "GET",
    path: list.path,
    summary: `Who is not to be mailed by ${list.whose}, why and since when, page by page`,
    authorise: list.authorise,
    params: list.params,
    fields: z.object({
      search: z.string().max(255).optional().meta({ description: "part of the address, or the whole of it" }),
      kind: kindField.optional(),
      after: z.string().max(400).optional().meta({ description: "`next` of the page before" }),
      limit: pageLimit,
    }),
    reply: z.object({ suppressions: z.array(entryJson), next: z.string().nullable() }),
    act: ({ caller, params, fields: { search, kind, after, limit } }) =>
      list.act(context, caller, params, async ({ owner }) => {
        if (after !== undefined && !isSuppressionCursor(after)) return refuse(unacceptable("suppression-cursor"));
        const sought = { text: search || undefined, kind };
        const page =
          owner === "operator"
            ? await listGlobalSuppressions(context.db, sought, { after, limit })
            : await listSuppressions(context.db, owner.instanceId, sought, { after, limit });
        return ok({ suppressions: page.entries.map(showEntry), next: page.next ?? null });
      }),
  });
}

function showEntry({ since, cause, ...entry }: ListedSuppression): z.input<typeof entryJson> {
  return {
    ...entry,
    since: since?.toISOString() ?? null,
    cause: cause && { ...cause, at: cause.at.toISOString() },
  };
}

function addEndpoint(context: ConsoleContext, list: ListPath): ConsoleEndpoint {
  return consoleEndpoint({
    method: "POST",
    path: list.path,
    summary: `Mail an address or a whole domain no more, by ${list.whose}`,
    authorise: list.authorise,
    params: list.params,
    fields: z.object({
      target: z.string().max(400).meta({ description: "an address, or a domain" }),
      kind: z.enum(ADDED_KINDS).default("by-hand"),
      note: z.string().max(MOST_NOTE_CHARACTERS).default(""),
    }),
    reply: z.object({ target: z.string(), kind: z.string(), added: z.boolean() }),
    change: {
      action: "suppression.add",
      object: ({ fields }) => fields.target,
      detail: ({ fields }) => ({ kind: fields.kind }),
    },
    act: ({ caller, params, fields: { target, ...fields } }) =>
      list.act(context, caller, params, async ({ owner }) => {
        const read = readTarget(target);
        if (!read.ok) return read;
        const done = await suppress(context.db, owner, { ...fields, target: read.value, creator: caller.login });
        if (!done.ok) return refuse(unacceptable(done.error));
        return ok({ target: read.value.text, kind: fields.kind, added: done.value === "added" });
      }),
  });
}

function removeEndpoint(context: ConsoleContext, list: ListPath): ConsoleEndpoint {
  return consoleEndpoint({
    method: "DELETE",
    path: `${list.path}/:target`,
    summary: `Let an address or a domain be mailed again by ${list.whose}`,
    authorise: list.authorise,
    params: list.params.extend({ target: z.string() }),
    fields: z.object({
      kind: kindField.optional().meta({
        description: "only the entry of this kind; absent: all of them, but for an unsubscription of its person",
      }),
    }),
    reply: z.object({ msg: z.string() }),
    change: {
      action: "suppression.remove",
      object: ({ params }) => String(params.target),
      detail: ({ fields }) => fields,
    },
    act: ({ caller, params, fields }) =>
      list.act(context, caller, params, async ({ owner }) => {
        const read = readTarget(String(params.target));
        if (!read.ok) return read;
        switch (await unsuppress(context.db, owner, read.value.key, fields.kind)) {
          case "removed":
            return ok({ msg: "deleted" });
          case "unknown":
            return refuse(problem("no-such-suppression"));
          case "whitelisted":
            return refuse(problem("suppression-whitelisted"));
          case "own-unsubscription":
            return refuse(problem("suppression-own"));
        }
      }),
  });
}

function readTarget(given: string): Result<SuppressionTarget, Refusal> {
  const target = parseSuppressionTarget(given);
  return target.ok ? target : refuse(unacceptable(target.error));
}

function exportEndpoint(context: ConsoleContext, list: ListPath): ConsoleEndpoint {
  return consoleEndpoint({
    method: "GET",
    path: `${list.path}/export`,
    summary: `All that is listed for ${list.whose} as CSV, but for erased addresses`,
    authorise: list.authorise,
    params: list.params,
    reply: z.string(),
    replyType: "text/csv",
    act: ({ caller, params }) =>
      list.act(context, caller, params, async ({ owner, name }) => {
        const sharer = owner === "operator" ? `operator ${caller.login}` : sharerOf(caller, owner.instanceId);
        return exportReply(`suppressions-${name}`, () => exportSuppressions(context.db, owner), sharer);
      }),
  });
}

function importEndpoint(context: ConsoleContext, list: ListPath): ConsoleEndpoint {
  return consoleEndpoint({
    method: "POST",
    path: `${list.path}/import`,
    summary: `List what a CSV names (the body) for ${list.whose}; the job tells what became of each line`,
    authorise: list.authorise,
    params: list.params,
    input: "stream",
    bodyType: "text/csv",
    fields: z.object({
      dry_run: z.enum(["true", "false"]).default("false").meta({ description: "report, and change nothing" }),
    }),
    reply: jobReply,
    change: {
      action: "suppression.import",
      object: ({ params }) => String(params.name ?? ""),
      detail: ({ fields }) => fields,
    },
    act: ({ caller, params, fields, incoming }) =>
      list.act(context, caller, params, async ({ owner, name, about }) => {
        const description = { kind: "suppression-import", object: name, owner: caller.login, about };
        const file = { incoming, dryRun: fields.dry_run === "true" };
        return startImportJob(context, description, file, (csv, options) =>
          importSuppressions(context.db, owner, csv, {
            ...options,
            creator: caller.login,
            now: new Date(context.clock.nowMs()),
          }),
        );
      }),
  });
}
