import { z } from "zod";
import { hashApiKey, makeApiKey } from "../../core/api-key.ts";
import {
  readChosenKey,
  readInstanceHost,
  readInstanceName,
  readNewSenderDomain,
  readTimeZone,
} from "../../core/customer-input.ts";
import { REPORT_LANGUAGES } from "../../core/mail/report-words.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { rotateInstanceKey } from "../../store/key-rotation.ts";
import {
  addInstance,
  allowedDomains,
  findInstanceByName,
  type Instance,
  type InstanceConflict,
  LEAST_MESSAGE_DAYS,
  listInstances,
  setInstanceSettings,
} from "../../store/mail/instances/instances.ts";
import { areaOf } from "../caller.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { graceHours, graceUntil } from "../schemas.ts";
import { withInstance } from "../with-instance.ts";

const instance = z.object({
  name: z.string(),
  host: z.string(),
  domains: z.array(z.string()),
  archive: z.boolean().meta({ description: "the licence to archive what is sent" }),
  conversions: z.boolean(),
  time_zone: z.string(),
  event_days: z.int().nullable().meta({ description: "null: kept for ever" }),
  archive_days: z.int().nullable().meta({ description: "null: kept for ever" }),
  message_days: z.int().nullable().meta({ description: "of batches with their recipients; null: kept for ever" }),
  records: z.boolean().meta({ description: "its users may add records of its sender domains to zones hosted here" }),
  failure_reports: z
    .boolean()
    .meta({ description: "programs that submit mail and do not ask for reports hear of failures" }),
  language: z.enum(REPORT_LANGUAGES).meta({ description: "what reports to senders are written in" }),
});
const nameParam = z.object({ name: z.string() });
const daysFrom = (least: number) =>
  z.int("whole-number-of-days").min(least, "at-least").max(99_999).nullable().optional();

const CONFLICTS: Readonly<Record<InstanceConflict, Refusal>> = {
  "name-taken": problem("instance-name-taken"),
  "host-taken": problem("instance-host-taken"),
  "key-taken": problem("instance-key-taken"),
};

/** What the operator alone decides about an instance; the rest is its users' as well. */
const OPERATORS_SETTINGS = ["archive", "records", "event_days", "archive_days", "message_days"] as const;

/** Instances of the mail side: settings and keys. */
export const makeInstanceEndpoints: MakeConsoleEndpoints = (context) => [
  ...listAndAddition(context),
  ...settings(context),
  ...keys(context),
];

/** Which instances there are. */
const listAndAddition: MakeConsoleEndpoints = ({ db, keyRing }) => [
  consoleEndpoint({
    method: "GET",
    path: "/instances",
    summary: "Instances: all for the operator, an instance's user its own",
    authorise: areaOf("instance"),
    reply: z.object({ instances: z.array(instance) }),
    act: async ({ caller }) => {
      if (caller.role === "operator") {
        return ok({ instances: (await listInstances(db)).map((one) => showInstance(one, one.domains)) });
      }
      const own = await findInstanceByName(db, caller.scope!);
      return ok({ instances: own ? [showInstance(own, await allowedDomains(db, own.id))] : [] });
    },
  }),
  consoleEndpoint({
    method: "POST",
    path: "/instances",
    summary: "Add an instance; gives its key, once",
    authorise: areaOf(),
    fields: z.object({
      name: z.string(),
      host: z.string(),
      domains: z.array(z.string()).default([]),
      key: z.string().optional(),
      archive: z.boolean().default(false),
      time_zone: z.string().optional(),
    }),
    change: {
      action: "instance.add",
      object: ({ fields }) => fields.name,
      detail: ({ fields: { host, domains, archive } }) => ({ host, domains, archive }),
    },
    reply: z.object({ name: z.string(), host: z.string(), key: z.string(), domains: z.array(z.string()) }),
    act: async ({ fields }) => {
      const read = readNewInstance(fields);
      if (!read.ok) return read;
      const { name, host, key, domains } = read.value;
      const conflict = await addInstance(db, keyRing, { ...read.value, archive: fields.archive });
      return conflict ? refuse(CONFLICTS[conflict]) : ok({ name, host, key, domains });
    },
  }),
];

/** What an instance is like. */
const settings: MakeConsoleEndpoints = (context) => {
  const { db } = context;
  return [
    consoleEndpoint({
      method: "PATCH",
      path: "/instances/:name",
      summary: "Change settings; its own users change conversions, time_zone, failure_reports and language",
      authorise: areaOf("instance"),
      params: nameParam,
      fields: z.object({
        archive: z.boolean().optional(),
        conversions: z.boolean().optional(),
        time_zone: z.string().optional(),
        event_days: daysFrom(1),
        archive_days: daysFrom(1),
        message_days: daysFrom(LEAST_MESSAGE_DAYS),
        records: z.boolean().optional(),
        failure_reports: z.boolean().optional(),
        language: z.enum(REPORT_LANGUAGES).optional(),
      }),
      change: { action: "instance.change", object: ({ params }) => params.name, detail: ({ fields }) => fields },
      reply: instance,
      act: ({ caller, params, fields }) =>
        withInstance(context, caller, params.name, async ({ id }) => {
          const isOperators = OPERATORS_SETTINGS.find((field) => fields[field] !== undefined);
          if (caller.role !== "operator" && isOperators !== undefined) {
            return refuse(problem("operators-setting", { setting: isOperators }));
          }
          const timeZone = fields.time_zone === undefined ? ok(undefined) : readTimeZone(fields.time_zone);
          if (!timeZone.ok) return timeZone;
          await setInstanceSettings(db, id, {
            ...(fields.archive === undefined ? {} : { archive: fields.archive }),
            ...(fields.conversions === undefined ? {} : { conversions: fields.conversions }),
            ...(timeZone.value === undefined ? {} : { timeZone: timeZone.value }),
            ...(fields.event_days === undefined ? {} : { eventRetentionDays: fields.event_days }),
            ...(fields.archive_days === undefined ? {} : { archiveRetentionDays: fields.archive_days }),
            ...(fields.message_days === undefined ? {} : { messageRetentionDays: fields.message_days }),
            ...(fields.records === undefined ? {} : { createsRecords: fields.records }),
            ...(fields.failure_reports === undefined ? {} : { failureReports: fields.failure_reports }),
            ...(fields.language === undefined ? {} : { language: fields.language }),
          });
          const changed = (await findInstanceByName(db, params.name)) as Instance;
          return ok(showInstance(changed, await allowedDomains(db, id)));
        }),
    }),
  ];
};

/** What its programs show to the API. */
const keys: MakeConsoleEndpoints = (context) => {
  const { db, keyRing, clock } = context;
  return [
    consoleEndpoint({
      method: "POST",
      path: "/instances/:name/key",
      summary: "Replace an instance's key; gives the new one, once. The old one is good for grace_hours more",
      authorise: areaOf(),
      params: nameParam,
      fields: z.object({ grace_hours: graceHours }),
      change: { action: "instance.key", object: ({ params }) => params.name, detail: ({ fields }) => fields },
      reply: z.object({ name: z.string(), key: z.string(), old_key_until: z.string().nullable() }),
      act: ({ caller, params, fields }) =>
        withInstance(context, caller, params.name, async ({ id, name }) => {
          const key = makeApiKey();
          const until = graceUntil(clock, fields.grace_hours);
          await rotateInstanceKey(db, id, { keyHash: hashApiKey(keyRing, "instance", key), graceUntil: until });
          return ok({ name, key, old_key_until: until?.toISOString() ?? null });
        }),
    }),
  ];
};

function readNewInstance(fields: {
  readonly name: string;
  readonly host: string;
  readonly domains: readonly string[];
  readonly key?: string | undefined;
  readonly time_zone?: string | undefined;
}): Result<{ name: string; host: string; key: string; domains: string[]; timeZone?: string }, Refusal> {
  const name = readInstanceName(fields.name);
  if (!name.ok) return name;
  const host = readInstanceHost(fields.host);
  if (!host.ok) return host;
  const key = fields.key === undefined ? ok(makeApiKey()) : readChosenKey("key", fields.key);
  if (!key.ok) return key;
  const domains = new Set<string>();
  for (const text of fields.domains) {
    const domain = readNewSenderDomain(text);
    if (!domain.ok)
      return refuse(domain.error.kind === "invalid-field" ? { ...domain.error, field: "domains" } : domain.error);
    domains.add(domain.value);
  }
  const timeZone = fields.time_zone === undefined ? ok(undefined) : readTimeZone(fields.time_zone);
  if (!timeZone.ok) return timeZone;
  return ok({
    ...{ name: name.value, host: host.value, key: key.value, domains: [...domains] },
    ...(timeZone.value === undefined ? {} : { timeZone: timeZone.value }),
  });
}

function showInstance(one: Instance, domains: readonly string[]): z.input<typeof instance> {
  return {
    ...{ name: one.name, host: one.host, domains: [...domains], archive: one.archive, conversions: one.conversions },
    time_zone: one.timeZone,
    event_days: one.eventRetentionDays,
    archive_days: one.archiveRetentionDays,
    message_days: one.messageRetentionDays,
    records: one.createsRecords,
    failure_reports: one.failureReports,
    language: one.language,
  };
}
