import { z } from "zod";
import { groupName, groupsFull, tagName, tagValueText } from "../../core/mail/contact-input.ts";
import type { FilterCondition } from "../../core/mail/filter-condition.ts";
import { toConditionJson } from "../../core/mail/filter-json.ts";
import { unacceptable } from "../../core/refusal.ts";
import { ok, refuse } from "../../core/result.ts";
import { FairTurns } from "../../platform/fair-turns.ts";
import { type AnyEndpoint, endpoint } from "../../platform/http/endpoint.ts";
import { replyList } from "../../platform/http/streamed-json.ts";
import { COUNTS_AT_ONCE, countMatches, streamFilters } from "../../store/mail/contacts/filters.ts";
import { addGroups } from "../../store/mail/contacts/groups.ts";
import {
  MOST_GLOBALS,
  MOST_GLOBALS_MEBIBYTES,
  removeGlobal,
  setGlobal,
  streamGlobals,
} from "../../store/mail/instances/globals.ts";
import type { MailCaller } from "../dialect.ts";
import type { MailServices } from "../services.ts";

const GLOBALS_OVERSIZED = unacceptable("globals-oversized", {
  most: MOST_GLOBALS,
  mebibytes: MOST_GLOBALS_MEBIBYTES,
});

const status = z.literal("ok");
const named = z.object({ status, nombre: z.string() });
const valued = z.object({ nombre: z.string(), valor: z.string() });

/** Operations 22 to 26: groups (also called bases), filters, global variables. */
export function groupEndpoints(services: MailServices): AnyEndpoint<MailCaller>[] {
  return [
    groupEndpoint(services, "/grupo"),
    groupEndpoint(services, "/base"),
    filterEndpoint(services),
    ...globalEndpoints(services),
  ];
}

function groupEndpoint({ db }: MailServices, path: string): AnyEndpoint<MailCaller> {
  return endpoint({
    method: "POST",
    path,
    summary: "Create a group of contacts",
    fields: z.object({ nombre: groupName }),
    reply: named,
    act: async ({ caller, fields }) => {
      const left = await addGroups(db, caller.instance.id, [fields.nombre]);
      if (left.size > 0) return refuse(unacceptable(groupsFull));
      return ok({ status: "ok" as const, nombre: fields.nombre });
    },
  });
}

function filterEndpoint({ db, clock }: MailServices): AnyEndpoint<MailCaller> {
  const filterJson = z.object({
    id: z.int(),
    nombre: z.string(),
    condiciones: z.record(z.string(), z.unknown()),
    contactos: z.int(),
  });
  const counts = new FairTurns(COUNTS_AT_ONCE);
  return endpoint({
    method: "GET",
    path: "/filtros",
    summary: "List filters, with the number of contacts that each selects now",
    reply: z.object({ status, filtros: z.array(filterJson) }),
    act: ({ caller: { instance }, sharer }) => {
      const now = new Date(clock.nowMs());
      const count = (condition: FilterCondition) =>
        counts.run(String(instance.id), () => countMatches(db, instance.id, condition, now));
      const readFilters = async function* (): AsyncGenerator<readonly z.infer<typeof filterJson>[]> {
        for await (const filters of streamFilters(db, instance.id)) {
          for (const { id, name, condition } of filters) {
            const contactos = await count(condition);
            yield [{ id, nombre: name, condiciones: toConditionJson(condition), contactos }];
          }
        }
      };
      return replyList("filtros", readFilters, (filter) => filter, { sharer, holds: "counts" });
    },
  });
}

function globalEndpoints({ db }: MailServices): AnyEndpoint<MailCaller>[] {
  return [
    endpoint({
      method: "GET",
      path: "/global",
      summary: "List global variables",
      reply: z.object({ status, globales: z.array(valued) }),
      act: ({ caller, sharer }) => {
        const readGlobals = () => streamGlobals(db, caller.instance.id);
        return replyList("globales", readGlobals, ({ name, value }) => ({ nombre: name, valor: value }), {
          sharer,
          holds: "page",
        });
      },
    }),
    endpoint({
      method: "POST",
      path: "/global",
      summary: "Create a global variable, or replace its value",
      fields: z.object({ nombre: tagName, valor: tagValueText }),
      reply: valued.extend({ status }),
      act: async ({ caller, fields }) => {
        const global = { name: fields.nombre, value: fields.valor };
        if (!(await setGlobal(db, caller.instance.id, global))) return refuse(GLOBALS_OVERSIZED);
        return ok({ status: "ok" as const, nombre: fields.nombre, valor: fields.valor });
      },
    }),
    endpoint({
      method: "DELETE",
      path: "/global",
      summary: "Delete a global variable",
      fields: z.object({ nombre: tagName, valor: z.unknown().optional() }),
      reply: named,
      act: async ({ caller, fields }) => {
        await removeGlobal(db, caller.instance.id, fields.nombre);
        return ok({ status: "ok" as const, nombre: fields.nombre });
      },
    }),
  ];
}
