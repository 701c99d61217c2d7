import { z } from "zod";
import { groupName, tagName, tagValueText } from "../../core/mail/contact-input.ts";
import { toConditionJson } from "../../core/mail/filter-json.ts";
import { ok } from "../../core/result.ts";
import { type AnyEndpoint, endpoint } from "../../platform/http/endpoint.ts";
import { countMatches, listFilters } from "../../store/mail/contacts/filters.ts";
import { addGroups } from "../../store/mail/contacts/groups.ts";
import { listGlobals, removeGlobal, setGlobal } from "../../store/mail/instances/globals.ts";
import type { MailCaller } from "../dialect.ts";
import type { MailServices } from "../services.ts";

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
      await addGroups(db, caller.instance.id, [fields.nombre]);
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
  return endpoint({
    method: "GET",
    path: "/filtros",
    summary: "List filters, with the number of contacts that each selects now",
    reply: z.object({ status, filtros: z.array(filterJson) }),
    act: async ({ caller }) => {
      const now = new Date(clock.nowMs());
      const filtros: z.infer<typeof filterJson>[] = [];
      for (const { id, name, condition } of await listFilters(db, caller.instance.id)) {
        const contactos = await countMatches(db, caller.instance.id, condition, now);
        filtros.push({ id, nombre: name, condiciones: toConditionJson(condition), contactos });
      }
      return ok({ status: "ok" as const, filtros });
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
      act: async ({ caller }) => {
        const globals = await listGlobals(db, caller.instance.id);
        return ok({
          status: "ok" as const,
          globales: globals.map(({ name, value }) => ({ nombre: name, valor: value })),
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
        await setGlobal(db, caller.instance.id, { name: fields.nombre, value: fields.valor });
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
