import { z } from "zod";
import { validateAddress } from "../../core/mail/address.ts";
import { EVENT_NAMES } from "../../core/mail/event-kind.ts";
import { formatTimestamp } from "../../core/mail/timestamps.ts";
import { notFound, type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type AnyEndpoint, endpoint } from "../../platform/http/endpoint.ts";
import { replyJson } from "../../platform/http/streamed-json.ts";
import type { Instance } from "../../store/mail/instances/instances.ts";
import { type Archiving, findArchiving, readArchivedMessage } from "../../store/mail/sends/archive.ts";
import { type Batch, type BatchEvent, findBatch, streamBatchEvents } from "../../store/mail/sends/batches.ts";
import type { MailCaller } from "../dialect.ts";
import type { MailServices } from "../services.ts";

const STATE_NAMES: Readonly<Record<Batch["state"], string>> = {
  queued: "encolado",
  sending: "enviando",
  sent: "enviado",
  cancelled: "cancelado",
};

const NOT_ARCHIVED = unacceptable("send-not-archived");
const NO_COPY: { readonly [archiving in Archiving]: Refusal } = {
  never: NOT_ARCHIVED,
  awaited: notFound("not-sent-yet"),
  over: notFound("copy-not-kept"),
};

const batchJson = z.object({
  envio_id: z.string(),
  timestamp: z.string(),
  estado: z.string(),
  modificado: z.string(),
  campana_id: z.string(),
  cant_particiones: z.int().nullable(),
  particiones_tomadas: z.int().nullable(),
  particiones_finalizadas: z.int().nullable(),
  salidas_con_error: z.int().nullable(),
  creador_id: z.string(),
  contactos: z.array(
    z.object({
      email: z.string(),
      eventos: z.array(z.object({ eventos: z.string(), timestamp: z.string() })),
    }),
  ),
  archive: z.object({ mensajes: z.int(), octetos: z.int(), timestamp: z.string() }).optional(),
});

/** Operations 20 and 21: a batch, and what one of its recipients got. */
export function batchEndpoints({ db }: MailServices): AnyEndpoint<MailCaller>[] {
  return [
    endpoint({
      method: "GET",
      path: "/eeid_info/:eeid",
      summary: "Read a batch with the events of its recipients",
      params: z.object({ eeid: z.string() }),
      refusals: { 404: "`no existe`: the send" },
      reply: z.object({ status: z.literal("ok"), envio_efectivo: batchJson }),
      act: async ({ caller, sharer, params }) => {
        const batch = await readBatch(params.eeid, caller.instance);
        if (!batch.ok) return batch;
        const { instance } = caller;
        const write = () => {
          const events = streamBatchEvents(db, instance.id, batch.value.eeid);
          return writeBatch(batch.value, events, instance.timeZone);
        };
        return replyJson(write, sharer, "connection");
      },
    }),
    endpoint({
      method: "GET",
      path: "/eeid_eml/:eeid/:email",
      summary: "Read the message that a recipient of an archived batch got",
      params: z.object({ eeid: z.string(), email: z.string() }),
      refusals: { 404: "`no existe`: the send; or there is no copy of the message (yet, or any more)" },
      reply: z.object({ status: z.literal("ok"), msg: z.string() }),
      act: async ({ caller, params }) => {
        const batch = await readBatch(params.eeid, caller.instance);
        if (!batch.ok) return batch;
        if (batch.value.archive === undefined) return refuse(NOT_ARCHIVED);
        const address = validateAddress(params.email, { allowSmtputf8: true }); // submission takes them (RFC 6531)
        if (!address.ok) return refuse(unacceptable("email-invalid", { reason: address.error }));
        const octets = await readArchivedMessage(db, batch.value, address.value.key);
        if (octets !== undefined) return ok({ status: "ok" as const, msg: octets.toString("utf8") });
        const archiving = await findArchiving(db, batch.value, address.value);
        return refuse(archiving === undefined ? unacceptable("nothing-sent-to-recipient") : NO_COPY[archiving]);
      },
    }),
  ];

  async function readBatch(eeid: string, instance: Instance): Promise<Result<Batch, Refusal>> {
    const batch = z.guid().safeParse(eeid).success ? await findBatch(db, instance.id, eeid) : undefined;
    return batch === undefined ? refuse(notFound("object-unknown")) : ok(batch);
  }
}

type BatchJson = z.infer<typeof batchJson>;

/** The reply, its keys in the order of `batchJson`. */
async function* writeBatch(
  batch: Batch,
  events: AsyncIterable<readonly BatchEvent[]>,
  timeZone: string,
): AsyncGenerator<string> {
  const { archive, ...members } = toBatchJson(batch, timeZone);
  yield `{"status":"ok","envio_efectivo":${JSON.stringify(members).slice(0, -1)},"contactos":[`;
  let email: string | undefined;
  for await (const page of events) {
    for (const event of page) {
      const isSame = event.email === email;
      if (!isSame) yield `${email === undefined ? "" : "]},"}{"email":${JSON.stringify(event.email)},"eventos":[`;
      yield (isSame ? "," : "") + JSON.stringify(toEventJson(event, timeZone));
      email = event.email;
    }
  }
  yield `${email === undefined ? "" : "]}"}]${archive ? `,"archive":${JSON.stringify(archive)}` : ""}}}`;
}

function toEventJson({ kind, at }: BatchEvent, timeZone: string): BatchJson["contactos"][number]["eventos"][number] {
  return {
    eventos: EVENT_NAMES[kind],
    timestamp: formatTimestamp(at, timeZone),
  };
}

function toBatchJson(batch: Batch, timeZone: string): Omit<BatchJson, "contactos"> {
  const format = (moment: Date) => formatTimestamp(moment, timeZone);
  return {
    envio_id: batch.eeid,
    timestamp: format(batch.createdAt),
    estado: STATE_NAMES[batch.state],
    modificado: format(batch.modifiedAt),
    campana_id: String(batch.campaignNumid),
    cant_particiones: batch.partitions,
    particiones_tomadas: batch.partitionsTaken,
    particiones_finalizadas: batch.partitionsFinished,
    salidas_con_error: batch.refused,
    creador_id: batch.creator,
    ...(batch.archive === undefined
      ? {}
      : {
          archive: {
            mensajes: batch.archive.messages,
            octetos: batch.archive.octets,
            timestamp: format(batch.archive.lastAt ?? batch.createdAt),
          },
        }),
  };
}
