import { z } from "zod";
import { invalidField, notFound } from "../../core/refusal.ts";
import { ok, refuse } from "../../core/result.ts";
import { readToldKinds } from "../../operations/mail/told-events.ts";
import { type AnyEndpoint, endpoint, RawReply } from "../../platform/http/endpoint.ts";
import { areCampaignsOf } from "../../store/mail/campaigns/campaigns.ts";
import { USUAL_STREAM_KINDS } from "../../store/mail/events/event-kinds.ts";
import type { MailCaller } from "../dialect.ts";
import type { EventStreams, StreamRequest } from "../event-streams.ts";
import type { MailServices } from "../services.ts";

const lastEventId = z.string().regex(/^\d{1,15}$/);

/** Events as they happen, with why and how. */
export function eventStreamEndpoints({ db }: MailServices, streams: EventStreams): AnyEndpoint<MailCaller>[] {
  return [
    endpoint({
      method: "GET",
      path: "/eventos/stream",
      summary:
        "Events as Server-Sent Events, from now on, or with Last-Event-ID (a header, or `desde`) from the last one that was had; at least once, in order",
      fields: z.object({
        eventos: z.string().max(400).optional().meta({ description: "only these, with commas between them" }),
        campana_id: z.int().positive().optional().meta({ description: "only of this campaign" }),
        desde: z.int().min(0).optional().meta({ description: "as Last-Event-ID" }),
      }),
      headerFields: z.object({
        "Last-Event-ID": lastEventId.optional().meta({ description: "the last event that was had" }),
      }),
      refusals: { 404: "`no existe`: the campaign" },
      reply: z.string(),
      replyType: "text/event-stream",
      act: async ({ caller, fields, headers }) => {
        const names = (fields.eventos ?? "").split(",").filter((name) => name !== "");
        const kinds = readToldKinds(names);
        if (!kinds.ok) return refuse(invalidField("eventos", "no-event-kind", { kind: kinds.error }));
        const given = headers["last-event-id"];
        if (given !== undefined && !lastEventId.safeParse(given).success) {
          return refuse(invalidField("Last-Event-ID", "whole-number"));
        }
        const { campana_id, desde } = fields;
        if (campana_id !== undefined && !(await areCampaignsOf(db, caller.instance.id, [campana_id]))) {
          return refuse(notFound("object-unknown"));
        }
        const stream = await streams.open(caller.instance, {
          kinds: names.length === 0 ? USUAL_STREAM_KINDS : kinds.value,
          campaigns: campana_id === undefined ? null : [campana_id],
          condition: null,
          after: given === undefined ? placeOf("desde", desde) : placeOf("Last-Event-ID", Number(given)),
        });
        if (!stream.ok) return stream;
        return ok(new RawReply("text/event-stream", stream.value, 200, { "X-Accel-Buffering": "no" }));
      },
    }),
  ];
}

function placeOf(field: string, place: number | undefined): StreamRequest["after"] {
  return place === undefined ? undefined : { place, field };
}
