import { createHash } from "node:crypto";
import { formatDomainName, sameName } from "../../core/dns/name.ts";
import { RCODE } from "../../core/dns/rr-types.ts";
import { judgeZone } from "../../core/dns/token.ts";
import { findTsig, TSIG_FUDGE_SECONDS, verifyRequest } from "../../core/dns/tsig.ts";
import { readUpdateRequest, type UpdateRequest } from "../../core/dns/update/update-request.ts";
import { type Refusal, sentenceOf } from "../../core/refusal.ts";
import { ok, type Result, refuse } from "../../core/result.ts";
import type { SentenceCode } from "../../core/sentences.ts";
import { updateZone } from "../../operations/dns/zone-updates.ts";
import { FairTurns } from "../../platform/fair-turns.ts";
import { SharedLookups } from "../../platform/lookups/shared-lookups.ts";
import type { Db } from "../../platform/postgres/db.ts";
import type { DnsCaller } from "../../store/dns/dns-callers.ts";
import { claimUpdate, finishUpdate, type WaitingUpdate } from "../../store/dns/dns-updates.ts";
import { withinQuotas } from "../../store/dns/quotas.ts";
import { findTsigCaller, type TokenCaller } from "../../store/dns/tokens.ts";
import { findTsigKey, type StoredTsigKey } from "../../store/dns/tsig-keys.ts";
import { zoneName } from "../../store/dns/zones.ts";
import { actorOf, scopeOf } from "../caller.ts";
import type { DnsApiContext } from "../context.ts";
import { turnOf } from "../zone-target.ts";

/** Connections to the database that updates take at a time: the API needs some too. */
const AT_ONCE = 4;

/** What became of a request. */
export interface JudgedUpdate {
  readonly rcode: number;
  /** The zone, when it changed. */
  readonly zoneId?: number;
  /** Why it was refused. */
  readonly refusal?: SentenceCode;
}

/** Judges requests and makes what they ask for, each in one transaction with its response code. */
export class UpdateJudge {
  readonly #context: DnsApiContext;
  readonly #turns = new FairTurns({ atOnce: AT_ONCE, perClient: 1 });
  readonly #keys = new SharedLookups<KnownKey | undefined>();

  constructor(context: DnsApiContext) {
    this.#context = context;
  }

  /** @returns undefined when others have it, or its time is over */
  async judge(waiting: WaitingUpdate): Promise<JudgedUpdate | undefined> {
    const authentic = await this.#authenticate(waiting);
    if (!authentic.ok) return this.#finish(waiting, authentic.error);
    const { caller, request } = authentic.value;
    const barred =
      (caller.token && judgeZone(caller.token, request.apex)) ??
      (await this.#context.quotas.countChange(caller, waiting.client));
    if (barred) return this.#finish(waiting, refusedFor(barred));
    const key = turnOf({ scope: scopeOf(caller), apex: request.apex });
    const make = () => this.#make(waiting, caller, request);
    return this.#context.zoneTurns.run(key, () => this.#turns.run(key, make));
  }

  /** The signature is checked here once more: a name server that somebody took over can make up no requests. */
  async #authenticate(
    waiting: WaitingUpdate,
  ): Promise<Result<{ readonly caller: DnsCaller; readonly request: UpdateRequest }, JudgedUpdate>> {
    const { clock, tokens } = this.#context;
    const { message, digest, client } = waiting;
    if (!createHash("sha256").update(message).digest().equals(digest)) return refuse({ rcode: RCODE.REFUSED });
    const found = findTsig(message);
    const record = found.ok ? found.value : undefined;
    // With a larger fudge a message would be good for longer than it is known that it was made.
    if (!record || record.fudgeSeconds > TSIG_FUDGE_SECONDS) return refuse({ rcode: RCODE.REFUSED });
    const name = zoneName(record.keyName);
    const known = await this.#keys.find(name, () => this.#findKey(name));
    const key = known && { ...known.key, name: record.keyName };
    const verdict = verifyRequest(message, () => key, Math.floor(clock.nowMs() / 1000));
    if (verdict.kind !== "valid" || !known) return refuse({ rcode: RCODE.NOTAUTH });
    if (!known.caller) return refuse({ rcode: RCODE.REFUSED });
    const admitted = tokens.admit(known.caller, client);
    if (!admitted.ok) return refuse(refusedFor(admitted.error));
    const request = readUpdateRequest(message);
    return request.ok ? ok({ caller: admitted.value, request: request.value }) : refuse({ rcode: request.error });
  }

  async #findKey(name: string): Promise<KnownKey | undefined> {
    const { db, keyRing } = this.#context;
    const [key, caller] = await Promise.all([findTsigKey(db, keyRing, name), findTsigCaller(db, name)]);
    return key && { key, caller };
  }

  /** Quotas throw out of the transaction, and nothing of it stays. */
  async #make(waiting: WaitingUpdate, caller: DnsCaller, request: UpdateRequest): Promise<JudgedUpdate | undefined> {
    const { db } = this.#context;
    const made = await withinQuotas(db, async () =>
      ok(
        await db.transaction(async (transaction) => {
          const claimed = await claimUpdate(transaction, waiting.id);
          if (!claimed) return undefined;
          const judged =
            claimed.apex && claimed.isTaken && sameName(claimed.apex, request.apex)
              ? await this.#update(transaction, caller, request)
              : { rcode: RCODE.REFUSED };
          await finishUpdate(transaction, waiting.id, judged.rcode);
          return judged;
        }),
      ),
    );
    return made.ok ? made.value : this.#finish(waiting, refusedFor(made.error));
  }

  async #update(transaction: Db, caller: DnsCaller, request: UpdateRequest): Promise<JudgedUpdate> {
    const { keyRing, clock } = this.#context;
    const { apex } = request;
    const target = {
      ...{ scope: scopeOf(caller), apex, domain: formatDomainName(apex), actor: actorOf(caller) },
      ...{ token: caller.token, signer: { keyRing, clock } },
    };
    const updated = await updateZone(transaction, target, request, new Date(clock.nowMs()));
    if (!updated.ok) return refusedFor(updated.error);
    const { rcode, zone } = updated.value;
    return { rcode, ...(zone && { zoneId: zone.id }) };
  }

  async #finish({ id }: WaitingUpdate, judged: JudgedUpdate): Promise<JudgedUpdate> {
    await finishUpdate(this.#context.db, id, judged.rcode);
    return judged;
  }
}

/** A key, and whose token it hangs on. Keys of ACLs hang on none: those are in the hands of secondaries. */
interface KnownKey {
  readonly key: StoredTsigKey;
  readonly caller: TokenCaller | undefined;
}

function refusedFor(refusal: Refusal): JudgedUpdate {
  return { rcode: RCODE.REFUSED, refusal: sentenceOf(refusal).code };
}
