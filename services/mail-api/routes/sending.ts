import { createHash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { z } from "zod";
import { conflict, invalidField, type Refusal, unacceptable } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import { sentence } from "../../core/sentences.ts";
import { acceptSend, BatchOver, type SendOutcome } from "../../operations/mail/accept-sends.ts";
import { SendQueue } from "../../operations/mail/send-queue.ts";
import { sendRefusal } from "../../operations/mail/send-refusal.ts";
import type { Clock } from "../../platform/clock.ts";
import { type Aside, FairTurns, type TurnLimits } from "../../platform/fair-turns.ts";
import { type AnyEndpoint, endpoint } from "../../platform/http/endpoint.ts";
import { cleanFields, validateFields } from "../../platform/http/fields.ts";
import { FieldsOversized, MOST_FIELDS_MEBIBYTES } from "../../store/mail/contacts/recipients.ts";
import {
  answerCall,
  type Claim,
  claimCall,
  findCall,
  type IdempotentCall,
  withdrawCall,
} from "../../store/mail/sends/idempotency.ts";
import type { MailCaller } from "../dialect.ts";
import type { MailServices } from "../services.ts";
import { batchEndpoints } from "./sending-batch.ts";
import {
  LICENCE_NEEDED,
  manyInline,
  manyUri,
  oneForm,
  oneFormWithFiles,
  oneInline,
  oneUri,
  type SendingFields,
  sentReply,
} from "./sending-fields.ts";
import { readForm } from "./sending-form.ts";
import { readReuse, readSend, type SendParts } from "./sending-request.ts";

type SentReply = z.infer<typeof sentReply>;
type Outcome = Result<SentReply, Refusal>;

/** A call as its endpoint has it. */
interface SendingCall extends SendParts {
  readonly headers: IncomingHttpHeaders;
  readonly clientAddress: string;
}

/** One call: who, what, and the headers that tell whether it is a repetition. */
interface Call extends SendingCall {
  readonly operation: string;
}

/** What calls share. */
interface Sending {
  readonly services: MailServices;
  readonly sends: SendQueue;
  readonly underWay: CallsUnderWay;
  /** Calls that fetch a page, by instance: its HTML is in memory until the send is stored. */
  readonly fetching: FairTurns;
}

const idempotencyKey = z
  .string()
  .regex(/^[\x20-\x7e]{1,255}$/)
  .meta({ description: "for 24 hours the same call under the same key sends nothing more, and gets the first answer" });
const headerFields = z.object({ "Idempotency-Key": idempotencyKey.optional() });
/** How sends are refused; those that archive also without the licence for it. */
const REFUSALS = {
  403: "`envios retenidos: …`: sending is held",
  404: "`no existe`: the campaign, or the send that is to be joined",
  409: "`Idempotency-Key repetida`: the key of another call",
};
const ARCHIVE_REFUSALS = { ...REFUSALS, 403: `${LICENCE_NEEDED}; ${REFUSALS[403]}` };

/** Pages are up to 5 MiB and may come slowly. */
const FETCHING: TurnLimits = { atOnce: 64, perClient: 32, own: 2 };
const MANY_CALLS = { mostWaiting: 1_000, retryAfterSeconds: 5 };

/** Operations 15 to 21: sending, and what became of it. */
export function sendingEndpoints(services: MailServices): AnyEndpoint<MailCaller>[] {
  const sending: Sending = {
    services,
    sends: new SendQueue(services.db, services.largeSends),
    underWay: new CallsUnderWay(),
    fetching: new FairTurns(FETCHING),
  };
  const declare = (operation: string, summary: string, fields: z.ZodType<SendingFields>, refusals = REFUSALS) =>
    endpoint({
      method: "POST",
      path: `/envio/${operation}`,
      summary,
      headerFields,
      fields,
      refusals,
      reply: sentReply,
      act: ({ caller, fields, headers, clientAddress, aside }: SendingCall) =>
        send(sending, { operation, caller, headers, fields, clientAddress, aside }),
    });
  return [
    declare("send_one_uri", "Send a web page to one contact", oneUri),
    declare("send_one_inline", "Send HTML to one contact", oneInline, ARCHIVE_REFUSALS),
    endpoint({
      method: "POST",
      path: "/envio/send_one_form",
      summary: "Send a web page with attached files to one contact: a multipart form",
      headerFields,
      input: "stream",
      form: oneFormWithFiles,
      refusals: REFUSALS,
      reply: sentReply,
      act: async ({ caller, headers, clientAddress, incoming, aside }) => {
        const form = await aside(() => readForm(incoming, services.config.apiBodyLimitOctets));
        if (!form.ok) return form;
        const cleaned = cleanFields(form.value.fields, () => false);
        const read = cleaned.ok ? validateFields(oneForm, cleaned.value) : cleaned;
        if (!read.ok) return read;
        const fields = { ...read.value, contacto: { email: read.value.contacto } };
        const files = form.value.attachments;
        return send(sending, {
          operation: "send_one_form",
          caller,
          headers,
          fields,
          clientAddress,
          files,
          aside,
        });
      },
    }),
    declare("send_many_uri", "Send a web page to many contacts", manyUri),
    declare("send_many_inline", "Send HTML to many contacts", manyInline, ARCHIVE_REFUSALS),
    ...batchEndpoints(services),
  ];
}

/** Accepts a call once: a repetition under the same Idempotency-Key gets the first answer, and fetches nothing. */
async function send(sending: Sending, call: Call): Promise<Outcome> {
  const { instance, login } = call.caller;
  // Through the console the address is the console's.
  if (login === undefined) sending.services.places.note(instance.id, "instance key", call.clientAddress);
  const repeatable = readIdempotencyKey(call);
  if (!repeatable.ok) return repeatable;
  const key = repeatable.value;
  if (key === undefined) return acceptJoining(sending, call, undefined);
  // The other call may wait aside, and then for its place again: whoever waits for it must not have that.
  return sending.underWay.share(key, call.aside, async () => {
    const known = await findCall<SentReply>(sending.services.db, key);
    return known ? answerAgain(known) : acceptJoining(sending, call, key);
  });
}

/**
 * Recipients may have too much to be read at once, and a batch that was there when the call was read may be cancelled,
 * or kept no longer, when it is to be joined.
 */
async function acceptJoining(sending: Sending, call: Call, key: IdempotentCall | undefined): Promise<Outcome> {
  try {
    return await acceptInTurn(sending, call, key);
  } catch (error) {
    if (error instanceof FieldsOversized) return refuse(unacceptable(recipientsOversized()));
    if (!(error instanceof BatchOver)) throw error;
    const reused = await readReuse(sending.services, call.caller.instance, call.fields);
    // What is over is so for good, and the second look says why.
    if (reused.ok) throw error;
    return reused;
  }
}

const recipientsOversized = () => sentence("recipients-fields-oversized", { mebibytes: MOST_FIELDS_MEBIBYTES });

/** What fetches no page waits for nobody: a subject is small. */
async function acceptInTurn(sending: Sending, call: Call, key: IdempotentCall | undefined): Promise<Outcome> {
  if (call.fields.html !== undefined) return acceptCall(sending, call, key);
  const client = String(call.caller.instance.id);
  if (sending.fetching.waitingOf(client) >= MANY_CALLS.mostWaiting) {
    return refuse({ kind: "rate-limited", retryAfterSeconds: MANY_CALLS.retryAfterSeconds });
  }
  const endTurn = await call.aside(() => sending.fetching.take(client));
  try {
    return await acceptCall(sending, call, key);
  } finally {
    endTurn();
  }
}

async function acceptCall({ services, sends }: Sending, call: Call, key: IdempotentCall | undefined): Promise<Outcome> {
  const read = await readSend(services, call);
  if (!read.ok) return read;
  const now = new Date(services.clock.nowMs());
  const judged = await services.content.judgeSend(read.value, call.clientAddress, now);
  if (!judged.ok) return judged;
  if (key === undefined) return toOutcome(await sends.accept(judged.value), services.clock);
  return sends.acceptAlone<Outcome>(judged.value, async (transaction) => {
    // Another process may have answered while this one was fetching.
    const claim = await claimCall<SentReply>(transaction, key);
    if (claim.kind !== "new") return answerAgain(claim);
    const answer = toOutcome(await acceptSend(transaction, judged.value), services.clock);
    // A refused call does not use the key up.
    if (answer.ok) await answerCall(transaction, key, answer.value);
    else await withdrawCall(transaction, key);
    return answer;
  });
}

function answerAgain(known: Exclude<Claim<SentReply>, { kind: "new" }>): Outcome {
  if (known.kind === "conflict") return refuse(conflict("idempotency-key-reused"));
  return ok(toReply(known.answer)); // jsonb has an order of members of its own
}

/** Calls with a key that are not answered yet: the same call at the same time waits for that answer, and shares it. */
class CallsUnderWay {
  readonly #calls = new Map<string, { readonly bodyHash: Buffer; readonly outcome: Promise<Outcome> }>();

  /** @param answer called unless the same call is under way; after another call under the same key has ended */
  async share(
    { instanceId, key, bodyHash }: IdempotentCall,
    aside: Aside,
    answer: () => Promise<Outcome>,
  ): Promise<Outcome> {
    const name = `${instanceId} ${key}`;
    for (let other = this.#calls.get(name); other; other = this.#calls.get(name)) {
      const { outcome } = other;
      if (bodyHash.equals(other.bodyHash)) return aside(() => outcome);
      await aside(() => outcome.catch(() => {})); // its caller hears of it
    }
    const outcome = answer().finally(() => this.#calls.delete(name));
    this.#calls.set(name, { bodyHash, outcome });
    return outcome;
  }
}

function toOutcome(accepted: SendOutcome, clock: Clock): Outcome {
  return accepted.ok ? ok(toReply(accepted.value)) : refuse(sendRefusal(accepted.error, clock.nowMs()));
}

function toReply({ sent, eeid }: Pick<SentReply, "sent" | "eeid">): SentReply {
  return { status: "ok", sent, eeid };
}

function readIdempotencyKey({
  operation,
  caller,
  headers,
  fields,
  files = [],
}: Call): Result<IdempotentCall | undefined, Refusal> {
  const given = headers["idempotency-key"];
  if (given === undefined) return ok(undefined);
  const { data: key } = idempotencyKey.safeParse(given);
  if (key === undefined) {
    return refuse(invalidField("Idempotency-Key", "printable-characters", { least: 1, most: 255 }));
  }
  const bodyHash = createHash("sha256").update(JSON.stringify([operation, fields]));
  for (const { filename, contentType, content } of files) {
    bodyHash.update(JSON.stringify([filename, contentType, content.length])).update(content);
  }
  return ok({ instanceId: caller.instance.id, key, bodyHash: bodyHash.digest() });
}
