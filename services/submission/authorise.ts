import { setTimeout as sleep } from "node:timers/promises";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { hashApiKey } from "../core/api-key.ts";
import type { KeyRing } from "../core/key-ring.ts";
import type { SmtpReply } from "../core/mail/smtp-reply.ts";
import { ok, refuse } from "../core/result.ts";
import { KeyGuesses } from "../platform/guesses/key-guesses.ts";
import { SUBMISSION_GUESSES } from "../platform/guesses/policy.ts";
import { sourceOf } from "../platform/lookups/address-blocks.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import type { SmtpCredentials } from "../platform/smtp/handlers.ts";
import { authenticateCampaign, type Campaign } from "../store/mail/campaigns/campaigns.ts";

/** Failures within this time count together, and locks last as long. */
const WINDOW_SECONDS = 600;
const FAILURES_PER_ADDRESS_AND_USER = 10;
const FAILURES_PER_ADDRESS = 100;
const FAILURES_PER_CONNECTION = 3;
/** The answer to a failure takes longer each time: 0.1 s, 0.2 s, … 0.8 s. */
const FIRST_DELAY_MS = 100;
const MOST_DOUBLINGS = 3;

const LONGEST_USER = 320;

/** A program that has logged in. */
export interface Submitter {
  readonly campaign: Campaign;
  /** Of the key that it knew. */
  readonly apikeyHash: Buffer;
  /** `<instance>-<numid>` */
  readonly login: string;
}

/** What is known of a dialogue; what a login that is under way notes of one that is over goes with it. */
interface Dialogue {
  failures: number;
  isOver: boolean;
}

/**
 * Who may submit, and who has tried too often. Failures are counted in this process's memory, loopback included, and
 * those of an IPv6 address for its whole network. A campaign that is guessed at from many addresses answers one key a
 * second; a key that was right from its address lately does not wait.
 */
export class Authoriser {
  readonly #db: Db;
  readonly #keyRing: KeyRing;
  readonly #observe: Observe;
  readonly #byUser = new RateLimiterMemory({ points: FAILURES_PER_ADDRESS_AND_USER, duration: WINDOW_SECONDS });
  readonly #byAddress = new RateLimiterMemory({ points: FAILURES_PER_ADDRESS, duration: WINDOW_SECONDS });
  /** Slows guesses at one campaign from ever new addresses. */
  readonly #guesses: KeyGuesses;
  /** By the ids of the dialogues that have tried to log in and are not over. */
  readonly #dialogues = new Map<string, Dialogue>();

  constructor(db: Db, keyRing: KeyRing, observe: Observe) {
    this.#db = db;
    this.#keyRing = keyRing;
    this.#observe = observe;
    this.#guesses = new KeyGuesses({ policy: SUBMISSION_GUESSES, limitLoopback: true, observe });
  }

  /** The live `api` campaign behind `<instance>-<numid>` and its current key. */
  async authorise(
    { username, password, actAs }: SmtpCredentials,
    { id, clientAddress }: { readonly id: string; readonly clientAddress: string },
  ): Promise<{ readonly user: Submitter } | { readonly refusal: SmtpReply }> {
    const dialogue = this.#enter(id);
    const source = sourceOf(clientAddress);
    const pair = `${source} ${username.slice(0, LONGEST_USER)}`;
    if (await this.#isLocked(pair, source)) return { refusal: LOCKED };
    const apikeyHash = hashApiKey(this.#keyRing, "campaign", password);
    const attempt = {
      address: clientAddress,
      digest: JSON.stringify([username, actAs, apikeyHash.toString("base64")]),
      target: () => username.slice(0, LONGEST_USER),
      isGone: () => dialogue.isOver,
    };
    const found = await this.#guesses.judge(attempt, async () => {
      // RFC 4616 §2: nobody here may act for somebody else.
      const campaign = actAs === username ? await this.#findCampaign(username, apikeyHash) : undefined;
      return campaign ? ok(campaign) : refuse({ kind: "unauthenticated" as const });
    });
    if (found.ok) {
      dialogue.failures = 0;
      await this.#byUser.delete(pair);
      return { user: { campaign: found.value, apikeyHash, login: username } };
    }
    if (found.error.kind !== "unauthenticated") return { refusal: LOCKED };
    return { refusal: await this.#countFailure(pair, dialogue, { clientAddress, username }) };
  }

  /** A dialogue is over. */
  forget(id: string): void {
    const dialogue = this.#dialogues.get(id);
    if (dialogue) dialogue.isOver = true;
    this.#dialogues.delete(id);
  }

  #enter(id: string): Dialogue {
    const dialogue = this.#dialogues.get(id) ?? { failures: 0, isOver: false };
    this.#dialogues.set(id, dialogue);
    return dialogue;
  }

  async #isLocked(pair: string, source: string): Promise<boolean> {
    const [user, address] = await Promise.all([this.#byUser.get(pair), this.#byAddress.get(source)]);
    return (
      (user?.consumedPoints ?? 0) >= FAILURES_PER_ADDRESS_AND_USER ||
      (address?.consumedPoints ?? 0) >= FAILURES_PER_ADDRESS
    );
  }

  async #findCampaign(username: string, apikeyHash: Buffer): Promise<Campaign | undefined> {
    // An instance's name may have hyphens of its own.
    const [, instance, numid] = /^(.{1,250})-([1-9]\d{0,14})$/.exec(username) ?? [];
    if (instance === undefined || numid === undefined || /\0/.test(username)) return undefined;
    return authenticateCampaign(this.#db, instance, Number(numid), apikeyHash);
  }

  async #countFailure(
    pair: string,
    dialogue: Dialogue,
    { clientAddress, username }: { clientAddress: string; username: string },
  ): Promise<SmtpReply> {
    const [user] = await Promise.all([this.#byUser.penalty(pair), this.#byAddress.penalty(sourceOf(clientAddress))]);
    dialogue.failures += 1;
    this.#observe({
      kind: "submission-login-failed",
      level: user.consumedPoints === FAILURES_PER_ADDRESS_AND_USER ? "warn" : "info",
      client: clientAddress,
      user: username.slice(0, LONGEST_USER),
      failures: user.consumedPoints,
    });
    await sleep(FIRST_DELAY_MS * 2 ** Math.min(user.consumedPoints - 1, MOST_DOUBLINGS));
    return dialogue.failures >= FAILURES_PER_CONNECTION ? TOO_MANY : WRONG;
  }
}

const WRONG: SmtpReply = { code: 535, enhancedStatus: "5.7.8", lines: ["authentication credentials invalid"] };
/** 421 ends the connection. */
const TOO_MANY: SmtpReply = { code: 421, enhancedStatus: "4.7.0", lines: ["too many failed logins"] };
const LOCKED: SmtpReply = {
  code: 454,
  enhancedStatus: "4.7.0",
  lines: ["too many failed logins, try again in some minutes"],
};
