import { z } from "zod";
import { validateAddress } from "../../core/mail/address.ts";
import type { Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { RawReply } from "../../platform/http/endpoint.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { readArchivedMessage } from "../../store/mail/sends/archive.ts";
import { type Batch, findBatch, listBatches, readBatchProgress } from "../../store/mail/sends/batches.ts";
import { type AdminCaller, areaOf, visibleInstance } from "../caller.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { problem } from "../problems.ts";
import { pageLimit } from "../schemas.ts";

const STATE_NAMES = {
  queued: "encolado",
  sending: "enviando",
  sent: "enviado",
  cancelled: "cancelado",
} as const satisfies Record<Batch["state"], string>;

const batchJson = z.object({
  eeid: z.string(),
  campana_id: z.int(),
  creador_id: z.string(),
  timestamp: z.string().meta({ description: "ISO 8601, UTC" }),
  modificado: z.string(),
  estado: z.enum(Object.values(STATE_NAMES)),
  pausado: z.boolean(),
  destinatarios: z.int(),
  cant_particiones: z.int(),
  particiones_tomadas: z.int(),
  particiones_finalizadas: z.int(),
  salidas_con_error: z.int(),
});
const progressJson = batchJson.extend({
  entregados: z.int(),
  en_cola: z.int(),
  cancelados: z.int(),
  rebotes_hard: z.int().meta({ description: "in the session, or reported later" }),
});
const params = z.object({ name: z.string(), eeid: z.string() });

/** Batches, how far they have come, and what their recipients got. */
export const makeBatchEndpoints: MakeConsoleEndpoints = ({ db }) => [
  consoleEndpoint({
    method: "GET",
    path: "/instances/:name/batches",
    summary: "Batches of an instance, newest first",
    authorise: areaOf("instance"),
    params: z.object({ name: z.string() }),
    fields: z.object({
      campaign: z.int().optional(),
      before: z.guid("eeid-form").optional().meta({ description: "only batches older than this one" }),
      limit: pageLimit,
    }),
    reply: z.object({ batches: z.array(batchJson) }),
    act: async ({ caller, params: { name }, fields: { campaign, before, limit } }) => {
      const instance = await visibleInstance(db, caller, name);
      if (!instance.ok) return instance;
      const batches = await listBatches(db, instance.value.id, { campaignNumid: campaign, before, limit });
      return ok({ batches: batches.map(toBatchJson) });
    },
  }),
  consoleEndpoint({
    method: "GET",
    path: "/instances/:name/batches/:eeid",
    summary: "How far a batch has come",
    authorise: areaOf("instance"),
    params,
    reply: progressJson,
    act: async ({ caller, params }) => {
      const batch = await visibleBatch(db, caller, params);
      if (!batch.ok) return batch;
      const progress = await readBatchProgress(db, batch.value.instanceId, batch.value.eeid);
      return ok({
        ...toBatchJson(batch.value),
        destinatarios: progress.recipients,
        entregados: progress.delivered,
        en_cola: progress.queued,
        cancelados: progress.cancelled,
        rebotes_hard: progress.hardBounces,
      });
    },
  }),
  consoleEndpoint({
    method: "GET",
    path: "/instances/:name/messages/:eeid/:email",
    summary: "The octets that a recipient of an archived batch got",
    authorise: areaOf("instance"),
    params: params.extend({ email: z.string() }),
    reply: z.string(),
    replyType: "message/rfc822",
    act: async ({ caller, params }) => {
      const batch = await visibleBatch(db, caller, params);
      if (!batch.ok) return batch;
      const address = validateAddress(params.email, { allowSmtputf8: true });
      const octets = address.ok ? await readArchivedMessage(db, batch.value, address.value.key) : undefined;
      return octets ? ok(new RawReply("message/rfc822", octets)) : refuse(problem("no-such-message"));
    },
  }),
];

async function visibleBatch(
  db: Db,
  caller: AdminCaller,
  { name, eeid }: z.output<typeof params>,
): Promise<Result<Batch, Refusal>> {
  const instance = await visibleInstance(db, caller, name);
  if (!instance.ok) return instance;
  const batch = z.guid().safeParse(eeid).success ? await findBatch(db, instance.value.id, eeid) : undefined;
  return batch ? ok(batch) : refuse(problem("no-such-batch"));
}

function toBatchJson(batch: Batch): z.infer<typeof batchJson> {
  return {
    eeid: batch.eeid,
    campana_id: batch.campaignNumid,
    creador_id: batch.creator,
    timestamp: batch.createdAt.toISOString(),
    modificado: batch.modifiedAt.toISOString(),
    estado: STATE_NAMES[batch.state],
    pausado: batch.held,
    destinatarios: batch.recipients,
    cant_particiones: batch.partitions,
    particiones_tomadas: batch.partitionsTaken,
    particiones_finalizadas: batch.partitionsFinished,
    salidas_con_error: batch.refused,
  };
}
