import { z } from "zod";
import { EVENT_NAMES } from "../../core/mail/event-kind.ts";
import { formatTimestamp, parseTimestamp, TIMESTAMP_FORM } from "../../core/mail/timestamps.ts";
import { invalidField, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type AnyEndpoint, endpoint } from "../../platform/http/endpoint.ts";
import { countEvents, type Period } from "../../store/mail/events/event-counts.ts";
import { type ListedEvent, readEventPage } from "../../store/mail/events/event-pages.ts";
import type { MailCaller } from "../dialect.ts";
import type { MailServices } from "../services.ts";

const timestamp = z.string().regex(TIMESTAMP_FORM, "no-timestamp");
const periodFields = z.object({
  fechahora_desde: timestamp.meta({ description: "`YYYY-MM-DD_hh:mm:ss` (or with `T`) in the instance's time zone" }),
  fechahora_hasta: timestamp.meta({ description: "as `fechahora_desde`; this second belongs to the period, too" }),
});

const eventJson = z.object({
  evento: z.string(),
  timestamp: z.string(),
  email: z.string(),
  campania: z.string(),
  campana_id: z.int().nullable(),
  eeid: z.string().nullable(),
  maquina: z.literal(true).optional(),
});

/** Operations 2 and 3: what happened in a period. */
export function eventEndpoints({ db }: MailServices): AnyEndpoint<MailCaller>[] {
  return [
    endpoint({
      method: "GET",
      path: "/cantidad_eventos",
      summary: "Count the events of a period by type",
      fields: periodFields,
      reply: z.object({
        status: z.literal("ok"),
        eventos: z.array(z.object({ count: z.int(), event: z.string() })),
      }),
      act: async ({ caller, fields }) => {
        const period = readPeriod(fields, caller.instance.timeZone);
        if (!period.ok) return period;
        const counts = await countEvents(db, caller.instance.id, period.value);
        return ok({
          status: "ok" as const,
          eventos: counts.map(({ kind, count }) => ({ count, event: EVENT_NAMES[kind] })),
        });
      },
    }),
    endpoint({
      method: "GET",
      path: "/ver_eventos",
      summary: "List the events of a period, page by page, oldest first",
      fields: periodFields.extend({ pagina: z.int().min(1), cantidad: z.int().min(10).max(1000) }),
      reply: z.object({
        status: z.literal("ok"),
        pagina: z.int(),
        cantidad: z.int(),
        total: z.int(),
        eventos: z.array(eventJson),
      }),
      act: async ({ caller, fields }) => {
        const { timeZone } = caller.instance;
        const period = readPeriod(fields, timeZone);
        if (!period.ok) return period;
        const { pagina, cantidad } = fields;
        const page = { skip: (pagina - 1) * cantidad, take: cantidad };
        const { total, events } = await readEventPage(db, caller.instance.id, period.value, page);
        const eventos = events.map((event) => toEventJson(event, timeZone));
        return ok({ status: "ok" as const, pagina, cantidad, total, eventos });
      },
    }),
  ];
}

/**
 * Both ends belong to the period, and timestamps are whole seconds: it lasts to the end of its last one. Where the
 * clocks go back, it takes in both rounds; where they go forward, what is skipped holds nothing: periods that follow each
 * other leave nothing out and take nothing in twice.
 */
function readPeriod(fields: z.output<typeof periodFields>, timeZone: string): Result<Period, Refusal> {
  const from = parseTimestamp(fields.fechahora_desde, timeZone);
  if (from === undefined) return refuse(invalidField("fechahora_desde", "no-timestamp"));
  const last = parseTimestamp(fields.fechahora_hasta, timeZone, "last");
  if (last === undefined) return refuse(invalidField("fechahora_hasta", "no-timestamp"));
  const isAfter = fields.fechahora_desde.replace("_", "T") > fields.fechahora_hasta.replace("_", "T");
  if (isAfter && from > last) return refuse(invalidField("fechahora_desde", "after-end"));
  return ok({ from, until: new Date(last.getTime() + 1_000) });
}

function toEventJson(event: ListedEvent, timeZone: string): z.infer<typeof eventJson> {
  return {
    evento: EVENT_NAMES[event.kind],
    timestamp: formatTimestamp(event.at, timeZone),
    email: event.email,
    campania: event.campaignName,
    campana_id: event.campaignNumid,
    eeid: event.eeid,
    ...(event.machine ? { maquina: true as const } : {}),
  };
}
