import { createHash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { z } from "zod";
import type { Attachment } from "../../core/mail/mime.ts";
import { invalidField, type Refusal } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { type AnyEndpoint, endpoint } from "../../platform/http/endpoint.ts";
import { cleanFields, validateFields } from "../../platform/http/fields.ts";
import { acceptSend } from "../../store/batches.ts";
import { answerCall, claimCall, type IdempotentCall } from "../../store/idempotency.ts";
import type { Instance } from "../../store/instances.ts";
import { announceMail } from "../../store/queue.ts";
import type { MailCaller } from "../dialect.ts";
import type { MailServices } from "../services.ts";
import { batchEndpoints } from "./sending-batch.ts";
import { manyInline, manyUri, oneForm, oneInline, oneUri, type SendingFields, sentReply } from "./sending-fields.ts";
import { readForm } from "./sending-form.ts";
import { readSend } from "./sending-request.ts";

type SentReply = z.infer<typeof sentReply>;

/** One call: who, what, and the headers that tell whether it is a repetition. */
interface Call {
  readonly operation: string;
  readonly instance: Instance;
  readonly headers: IncomingHttpHeaders;
  readonly fields: SendingFields;
  readonly files?: readonly Attachment[];
}

/** Operations 15 to 21: sending, and what became of it. */
export function sendingEndpoints(services: MailServices): AnyEndpoint<MailCaller>[] {
  const declare = (operation: string, summary: string, fields: z.ZodType<SendingFields>) =>
    endpoint({
      method: "POST",
      path: `/envio/${operation}`,
      summary,
      fields,
      reply: sentReply,
      act: ({ caller, fields, headers }: { caller: MailCaller; fields: SendingFields; headers: IncomingHttpHeaders }) =>
        send(services, { operation, instance: caller.instance, headers, fields }),
    });
  return [
    declare("send_one_uri", "Send a web page to one contact", oneUri),
    declare("send_one_inline", "Send HTML to one contact", oneInline),
    endpoint({
      method: "POST",
      path: "/envio/send_one_form",
      summary: "Send a web page with attached files to one contact: a multipart form",
      input: "stream",
      reply: sentReply,
      act: async ({ caller, headers, incoming }) => {
        const form = await readForm(incoming, services.config.apiBodyLimitOctets);
        if (!form.ok) return form;
        const cleaned = cleanFields(form.value.fields, () => false);
        const read = cleaned.ok ? validateFields(oneForm, cleaned.value) : cleaned;
        if (!read.ok) return read;
        const fields = { ...read.value, contacto: { email: read.value.contacto } };
        const files = form.value.attachments;
        return send(services, { operation: "send_one_form", instance: caller.instance, headers, fields, files });
      },
    }),
    declare("send_many_uri", "Send a web page to many contacts", manyUri),
    declare("send_many_inline", "Send HTML to many contacts", manyInline),
    ...batchEndpoints(services),
  ];
}

/** Accepts a call once: a repetition under the same Idempotency-Key gets the first answer. */
async function send(services: MailServices, call: Call): Promise<Result<SentReply, Refusal>> {
  const repeatable = readIdempotencyKey(call);
  if (!repeatable.ok) return repeatable;
  const accepted = await readSend(services, call.instance, call.fields, call.files);
  if (!accepted.ok) return accepted;
  const answer = await services.db.transaction<Result<SentReply, Refusal>>(async (transaction) => {
    const accept = async () => toReply(await acceptSend(transaction, accepted.value));
    if (repeatable.value === undefined) return ok(await accept());
    const claim = await claimCall<SentReply>(transaction, repeatable.value);
    switch (claim.kind) {
      case "conflict":
        return refuse({ kind: "conflict", text: "Idempotency-Key repetida" });
      case "answered":
        return ok(claim.answer);
      case "new": {
        const answer = await accept();
        await answerCall(transaction, repeatable.value, answer);
        return ok(answer);
      }
    }
  });
  await announceMail(services.db).catch(() => {}); // the workers look by themselves before long
  return answer;
}

function toReply({ sent, eeid }: Awaited<ReturnType<typeof acceptSend>>): SentReply {
  return { status: "ok", sent, eeid };
}

const IDEMPOTENCY_KEY = /^[\x20-\x7e]{1,255}$/;

function readIdempotencyKey({
  operation,
  instance,
  headers,
  fields,
  files = [],
}: Call): Result<IdempotentCall | undefined, Refusal> {
  const key = headers["idempotency-key"];
  if (key === undefined) return ok(undefined);
  if (typeof key !== "string" || !IDEMPOTENCY_KEY.test(key)) {
    return refuse(invalidField("Idempotency-Key", "1 to 255 printable characters"));
  }
  const bodyHash = createHash("sha256").update(JSON.stringify([operation, fields]));
  for (const { filename, content } of files) bodyHash.update(JSON.stringify(filename)).update(content);
  return ok({ instanceId: instance.id, key, bodyHash: bodyHash.digest() });
}
