import { counted } from "../core/counted.ts";
import { validateAddress } from "../core/mail/address.ts";
import type { ContentVerdict } from "../core/mail/guard/content.ts";
import { plainField } from "../core/mail/headers.ts";
import type { SmtpReply } from "../core/mail/smtp-reply.ts";
import { ContentScanner } from "../operations/mail/content-scan.ts";
import { CredentialPlaces } from "../operations/mail/credential-places.ts";
import { SendQueue } from "../operations/mail/send-queue.ts";
import type { GateRefusal } from "../operations/mail/sending-gate.ts";
import { guardPolicy } from "../platform/config/guard-policy.ts";
import { openPlaces } from "../platform/lookups/places.ts";
import { SharedLookups } from "../platform/lookups/shared-lookups.ts";
import type { Db } from "../platform/postgres/db.ts";
import type { ServiceContext } from "../platform/service.ts";
import type { SmtpHandlers, SmtpSession } from "../platform/smtp/handlers.ts";
import { readSubmissionRules, type SubmissionRules } from "../store/mail/instances/submission-settings.ts";
import { acceptMessage } from "./accept.ts";
import { Authoriser, type Submitter } from "./authorise.ts";
import { finishMessage, type MessageRefusal, type MessageRules, MOST_AUTHORS } from "./finish-message.ts";

type Session = SmtpSession<Submitter>;

/** A message that ends so soon after its MAIL FROM is judged by the same rules. */
const RULES_HOLD_MS = 1_000;

/** The rules that sessions are judged by, as they are when somebody asks. */
class RulesInForce {
  readonly #db: Db;
  readonly #lookups = new SharedLookups<SubmissionRules | undefined>();
  /** Of the last MAIL FROM of each session. */
  readonly #last = new WeakMap<Submitter, { readonly rules: SubmissionRules; readonly atMs: number }>();

  constructor(db: Db) {
    this.#db = db;
  }

  /** @returns undefined where the login has ended */
  async atMailFrom(user: Submitter): Promise<SubmissionRules | undefined> {
    const rules = await this.#find(user);
    if (rules) this.#last.set(user, { rules, atMs: performance.now() });
    return rules;
  }

  async atEndOfData(user: Submitter): Promise<SubmissionRules | undefined> {
    const last = this.#last.get(user);
    return last && performance.now() - last.atMs < RULES_HOLD_MS ? last.rules : this.#find(user);
  }

  #find(user: Submitter): Promise<SubmissionRules | undefined> {
    const login = `${user.campaign.numid} ${user.apikeyHash.toString("base64")}`;
    return this.#lookups.find(login, () => readSubmissionRules(this.#db, user));
  }
}

/** Submission, a method for each verb. `MAIL` is reached with a user only: the server asks for AUTH first. */
export function makeSubmission(context: ServiceContext): SmtpHandlers<Submitter> {
  const { db, keyRing, config, clock, observe } = context;
  const authoriser = new Authoriser(db, keyRing, observe);
  const sends = new SendQueue(db);
  const content = new ContentScanner(config.rspamd, guardPolicy.content, observe);
  const places = new CredentialPlaces(db, openPlaces(config.placeDatabase), observe);
  const rulesInForce = new RulesInForce(db);

  return {
    async authenticate(credentials, session) {
      const authorised = await authoriser.authorise(credentials, session);
      const campaign = "user" in authorised ? authorised.user.campaign : undefined;
      if (campaign) places.note(campaign.instanceId, `campaign ${campaign.numid}`, session.clientAddress);
      return authorised;
    },

    async mailFrom(address, { user, smtpUtf8 }) {
      if (!user) return AUTHENTICATION_REQUIRED;
      const sender = validateAddress(address, { allowSmtputf8: true });
      if (!sender.ok) return address === "" ? NULL_SENDER : NO_ADDRESS;
      if (sender.value.needsSmtputf8 && !smtpUtf8) return NEEDS_SMTPUTF8;
      const rules = await rulesInForce.atMailFrom(user);
      if (!rules) return LOGIN_ENDED;
      return rules.senderDomains.includes(sender.value.asciiDomain) ? undefined : FOREIGN_DOMAIN;
    },

    async rcptTo(address, { smtpUtf8 }) {
      const recipient = validateAddress(address, { allowSmtputf8: true });
      if (!recipient.ok) return reply(553, "5.1.3", recipient.error.message);
      return recipient.value.needsSmtputf8 && !smtpUtf8 ? NEEDS_SMTPUTF8 : undefined;
    },

    holderOf: ({ user }) => user && `instance ${user.campaign.instanceId}`,

    async message(octets, session) {
      if (!session.user) return AUTHENTICATION_REQUIRED;
      const rules = await rulesInForce.atEndOfData(session.user);
      if (!rules) return LOGIN_ENDED;
      const { senderDomains, ...settings } = rules;
      const finished = finishMessage(octets, messageRules(session.user, senderDomains), {
        ...arrivalOf(session),
        hostname: config.hostname,
        at: new Date(clock.nowMs()),
      });
      if (!finished.ok) return malformedReply(finished.error);
      const looked = await lookAt(content, finished.value.octets, session);
      if ("code" in looked) return looked;
      const { campaign } = session.user;
      const { mailFrom, rcptTo, smtpUtf8, dsn, recipientDsn } = session;
      const message = { ...finished.value, ...looked, mailFrom, rcptTo, smtpUtf8, dsn, recipientDsn };
      const accepted = await acceptMessage(sends, { campaign, settings }, message);
      if (!accepted.ok) return refusalReply(accepted.error);
      const { eeid } = accepted.value;
      observe({ kind: "submission-accepted", eeid, recipients: session.rcptTo.length, octets: octets.length });
      return { code: 250, lines: [`${eeid} queued`] };
    },

    closed: ({ id }) => authoriser.forget(id),
  };
}

/** @returns the message as it may leave, with what was found, or why it may not */
async function lookAt(
  content: ContentScanner,
  octets: Buffer,
  { mailFrom, rcptTo, user, clientAddress }: Session,
): Promise<{ readonly octets: Buffer; readonly verdict: ContentVerdict | undefined } | SmtpReply> {
  const login = user?.login ?? "";
  const verdict = await content.judge(() => ({ octets, mailFrom, recipients: rcptTo, user: login, clientAddress }));
  if (verdict?.action === "refuse") return verdict.scan ? CONTENT_REFUSED : CONTENT_UNSEEN;
  const isMarked = verdict?.action === "mark" && verdict.scan !== undefined;
  return { octets: isMarked ? markSpam(octets, verdict.scan.score) : octets, verdict };
}

/** Tells whoever gets it what the filter thinks of it. */
function markSpam(octets: Buffer, score: number): Buffer {
  const fields = plainField("X-Spam-Flag", "YES") + plainField("X-Spam-Score", score.toFixed(1));
  return Buffer.concat([Buffer.from(fields, "latin1"), octets]);
}

function messageRules({ campaign }: Submitter, senderDomains: readonly string[]): MessageRules {
  return { allowedDomains: new Set(senderDomains), unsubscribe: campaign.unsubscribe === true };
}

function arrivalOf({ helloName, clientAddress, protocol, user }: Session) {
  return { helloName, clientAddress, protocol, login: user?.login ?? "nobody" };
}

function reply(code: number, enhancedStatus: SmtpReply["enhancedStatus"], text: string): SmtpReply {
  return { code, enhancedStatus, lines: [text] };
}

/** The client's program tries again later by itself, but for what can never be accepted. */
function refusalReply(refusal: GateRefusal): SmtpReply {
  if (refusal.kind === "held") return reply(451, "4.7.1", `sending is held: ${refusal.reason.message}`);
  const { rule, grain, allowed, goesOnAt, mostDaysAhead } = refusal;
  const limit = `at most ${counted(allowed, "recipient")} per ${grain} for this ${rule.key.split(" ")[0]}`;
  if (mostDaysAhead !== undefined) {
    return reply(550, "5.5.3", `${limit}: the message has more than fit into ${counted(mostDaysAhead, "day")}`);
  }
  if (goesOnAt === null) return reply(550, "5.5.3", `${limit}: the message has more`);
  return reply(452, "4.5.3", `${limit}: goes on at ${goesOnAt.toISOString().slice(0, 19)}Z`);
}

const AUTHENTICATION_REQUIRED = reply(530, "5.7.0", "authentication required");
/** 421 ends the connection: what the client was told in it holds no longer, and the next one asks it for the key. */
const LOGIN_ENDED = reply(421, "4.7.0", "the login is no longer valid");
const CONTENT_REFUSED = reply(550, "5.7.1", "the content of the message is refused");
const CONTENT_UNSEEN = reply(451, "4.7.1", "the content of the message cannot be looked at now, try again");
const NO_ADDRESS = reply(550, "5.1.7", "the sender must be a full address");
const NULL_SENDER = reply(550, "5.1.7", "MAIL FROM:<> is not relayed: deliver bounces directly, or give them a sender");
const FOREIGN_DOMAIN = reply(550, "5.7.1", "dominio remitente no permitido");
const NEEDS_SMTPUTF8 = reply(553, "5.6.7", "the address needs SMTPUTF8");

function malformedReply(refusal: MessageRefusal): SmtpReply {
  return typeof refusal === "string"
    ? REFUSALS[refusal]
    : reply(550, "5.6.0", `${refusal.doubled} stands more than once`);
}

const REFUSALS: { readonly [refusal in MessageRefusal & string]: SmtpReply } = {
  "no-single-author": reply(550, "5.6.0", "the message must have exactly one From field, and at most one Sender"),
  "malformed-author": reply(550, "5.6.0", "an address in From, Sender or their Resent- fields is malformed"),
  "foreign-author": FOREIGN_DOMAIN,
  "too-many-authors": reply(550, "5.6.0", `the message must have at most ${MOST_AUTHORS} authors and senders`),
  "too-many-hops": reply(554, "5.4.6", "too many hops"),
};
