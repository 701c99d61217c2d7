import { z } from "zod";
import { groupName } from "../../core/mail/contact-input.ts";
import type { FilterCondition } from "../../core/mail/filter-condition.ts";
import { readConditionJson, toConditionJson } from "../../core/mail/filter-json.ts";
import { invalidField, type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { findGoneGroups, judgeSelections } from "../../operations/mail/judge-selection.ts";
import { FairTurns } from "../../platform/fair-turns.ts";
import { replyItems } from "../../platform/http/streamed-json.ts";
import {
  addFilter,
  COUNTS_AT_ONCE,
  changeFilter,
  countMatches,
  type Filter,
  findFilter,
  MANY_COUNTS,
  MOST_FILTERS,
  MOST_FILTERS_MEBIBYTES,
  removeFilter,
  streamFilters,
} from "../../store/mail/contacts/filters.ts";
import type { Instance } from "../../store/mail/instances/instances.ts";
import { areaOf, sharerOf } from "../caller.ts";
import type { ConsoleContext } from "../context.ts";
import { type ConsoleEndpoint, consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { withInstance } from "../with-instance.ts";

const instanceParams = z.object({ name: z.string() });
const filterParams = z.object({ name: z.string(), id: z.string().regex(/^[1-9]\d{0,14}$/, "whole-number") });
const conditionJson = z.record(z.string(), z.unknown()).meta({
  description:
    'A condition: {"todas":[…]}, {"alguna":[…]}, {"no":…}, {"campo","es","valor"} (a field of contacts, or a custom ' +
    'one as XYZ…XYZ; es: = != < <= > >= contiene "empieza con"), {"grupo"}, {"invalido"}, ' +
    '{"evento","campana_id"?,"dias"?}',
});
const filterJson = z.object({
  ...{ id: z.int(), nombre: z.string(), condiciones: conditionJson, contactos: z.int() },
  grupo_ausente: z
    .string()
    .optional()
    .meta({ description: "a group that the conditions name and that is gone: until it is there, nobody is selected" }),
});

/** Filters of an instance: saved conditions over its contacts, in the words of the mail API. */
export const makeFilterEndpoints: MakeConsoleEndpoints = (context) => {
  const counts = new FairTurns(COUNTS_AT_ONCE);
  const inTurn: InTurn = ({ id }, work) => counts.runOrRefuse(String(id), MANY_COUNTS, work);
  return [
    listEndpoint(context, counts),
    addEndpoint(context, inTurn),
    countEndpoint(context, inTurn),
    changeEndpoint(context, inTurn),
    removeEndpoint(context),
  ];
};

/** Does what counts when it is an instance's turn. */
type InTurn = <T>(instance: Instance, work: () => Promise<Result<T, Refusal>>) => Promise<Result<T, Refusal>>;

function listEndpoint(context: ConsoleContext, counts: FairTurns): ConsoleEndpoint {
  return consoleEndpoint({
    method: "GET",
    path: "/instances/:name/filters",
    summary: "The filters of an instance, with how many contacts each selects now",
    authorise: areaOf("instance"),
    params: instanceParams,
    reply: z.object({ filtros: z.array(filterJson) }),
    act: ({ caller, params }) =>
      withInstance(context, caller, params.name, (instance) => {
        const readFilters = async function* (): AsyncGenerator<Awaited<ReturnType<typeof toJson>>> {
          for await (const filters of streamFilters(context.db, instance.id)) {
            yield await counts.run(String(instance.id), () => toJson(context, instance, filters));
          }
        };
        const key = sharerOf(caller, instance.id);
        return replyItems("filtros", readFilters, (filter) => filter, { sharer: { key, group: key }, holds: "counts" });
      }),
  });
}

function addEndpoint(context: ConsoleContext, inTurn: InTurn): ConsoleEndpoint {
  return consoleEndpoint({
    method: "POST",
    path: "/instances/:name/filters",
    summary: "Save a filter",
    authorise: areaOf("instance"),
    params: instanceParams,
    fields: z.object({ nombre: groupName, condiciones: conditionJson }),
    reply: filterJson,
    change: { action: "filter.add", object: ({ fields }) => fields.nombre },
    act: ({ caller, params, fields }) =>
      withInstance(context, caller, params.name, async (instance) => {
        const condition = readCondition(fields.condiciones);
        if (!condition.ok) return condition;
        const filter = { name: fields.nombre, condition: condition.value };
        return inTurn(instance, async () => {
          const id = await addFilter(context.db, instance.id, filter);
          if (id === "name-taken") return refuse(NAME_TAKEN);
          if (id === "oversized") return refuse(OVERSIZED);
          return ok((await toJson(context, instance, [{ id, ...filter }]))[0]!);
        });
      }),
  });
}

function countEndpoint(context: ConsoleContext, inTurn: InTurn): ConsoleEndpoint {
  return consoleEndpoint({
    method: "POST",
    path: "/instances/:name/filters/count",
    summary: "How many contacts a condition selects now, without saving it",
    authorise: areaOf("instance"),
    params: instanceParams,
    fields: z.object({ condiciones: conditionJson }),
    reply: z.object({ contactos: z.int() }),
    change: null,
    act: ({ caller, params, fields }) =>
      withInstance(context, caller, params.name, async (instance) => {
        const condition = readCondition(fields.condiciones);
        if (!condition.ok) return condition;
        const gone = await judgeSelections(context.db, instance.id, [{ condition: condition.value }]);
        if (gone !== undefined) return refuse(unacceptable(gone));
        return inTurn(instance, async () => ok({ contactos: await countNow(context, instance, condition.value) }));
      }),
  });
}

function changeEndpoint(context: ConsoleContext, inTurn: InTurn): ConsoleEndpoint {
  return consoleEndpoint({
    method: "PUT",
    path: "/instances/:name/filters/:id",
    summary: "Change a filter's name, its condition, or both",
    authorise: areaOf("instance"),
    params: filterParams,
    fields: z.object({ nombre: groupName.optional(), condiciones: conditionJson.optional() }),
    reply: filterJson,
    change: { action: "filter.change", object: ({ params }) => params.id },
    act: ({ caller, params, fields }) =>
      withInstance(context, caller, params.name, async (instance) => {
        const condition = fields.condiciones === undefined ? ok(undefined) : readCondition(fields.condiciones);
        if (!condition.ok) return condition;
        const change = {
          ...(fields.nombre === undefined ? {} : { name: fields.nombre }),
          ...(condition.value === undefined ? {} : { condition: condition.value }),
        };
        const id = Number(params.id);
        return inTurn(instance, async () => {
          const outcome = await changeFilter(context.db, instance.id, id, change);
          if (outcome === "name-taken") return refuse(NAME_TAKEN);
          if (outcome === "oversized") return refuse(OVERSIZED);
          const changed = outcome === "done" ? await findFilter(context.db, instance.id, id) : undefined;
          return changed === undefined ? refuse(NO_SUCH_FILTER) : ok((await toJson(context, instance, [changed]))[0]!);
        });
      }),
  });
}

function removeEndpoint(context: ConsoleContext): ConsoleEndpoint {
  return consoleEndpoint({
    method: "DELETE",
    path: "/instances/:name/filters/:id",
    summary: "Delete a filter",
    authorise: areaOf("instance"),
    params: filterParams,
    reply: z.object({ msg: z.string() }),
    change: { action: "filter.remove", object: ({ params }) => params.id },
    act: ({ caller, params }) =>
      withInstance(context, caller, params.name, async (instance) =>
        (await removeFilter(context.db, instance.id, Number(params.id)))
          ? ok({ msg: "deleted" })
          : refuse(NO_SUCH_FILTER),
      ),
  });
}

const NAME_TAKEN = problem("filter-exists");
const OVERSIZED = unacceptable("filters-oversized", { most: MOST_FILTERS, mebibytes: MOST_FILTERS_MEBIBYTES });
const NO_SUCH_FILTER = problem("no-such-filter");

function readCondition(json: unknown): Result<FilterCondition, Refusal> {
  const condition = readConditionJson(json);
  return condition.ok ? condition : refuse(invalidField(condition.error, "no-condition"));
}

async function toJson(context: ConsoleContext, instance: Instance, filters: readonly Filter[]) {
  const conditions = filters.map(({ condition }) => condition);
  const gone = await findGoneGroups(context.db, instance.id, conditions);
  const shown: z.infer<typeof filterJson>[] = [];
  for (const [at, { id, name, condition }] of filters.entries()) {
    const contactos = await countNow(context, instance, condition);
    shown.push({
      ...{ id, nombre: name, condiciones: toConditionJson(condition), contactos },
      ...(gone[at] === undefined ? {} : { grupo_ausente: gone[at] }),
    });
  }
  return shown;
}

function countNow({ db, clock }: ConsoleContext, instance: Instance, condition: FilterCondition): Promise<number> {
  return countMatches(db, instance.id, condition, new Date(clock.nowMs()));
}
