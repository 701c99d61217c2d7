import { createHash, createHmac, randomBytes } from "node:crypto";
import type { KeyRing } from "../core/key-ring.ts";
import { hashPassword, passwordMatches } from "../core/password.ts";
import { recentMap } from "../core/recent-map.ts";
import type { Refusal } from "../core/refusal.ts";
import { ok, type Result, refuse } from "../core/result.ts";
import type { Clock } from "../platform/clock.ts";
import { sourceOf } from "../platform/lookups/address-blocks.ts";
import type { Db } from "../platform/postgres/db.ts";
import { beginAudit, listSignInAddresses, settleAudit } from "../store/console/audit.ts";
import {
  beginAttempt,
  type CountedAttempt,
  clearFailures,
  type LockoutPolicy,
  takeBackAttempt,
} from "../store/console/console-lockouts.ts";
import { findTotp, findUser, type StoredUser, takeRecoveryCode, takeTotpStep } from "../store/console/users.ts";
import { hashRecoveryCode, totpStepOf } from "./one-time-codes.ts";
import { type PasswordCaller, PasswordTurns } from "./password-turns.ts";
import { problem } from "./problems.ts";

/** A limit of failures: by what they are counted, and how many. */
interface Limit {
  readonly name: "address and login" | "address" | "login";
  readonly policy: LockoutPolicy;
}

/** Guesses at one login from one address: whoever mistypes waits little, whoever guesses soon waits long. */
const PAIR_LIMIT: Limit = {
  name: "address and login",
  policy: { freeFailures: 5, firstWaitSeconds: 5, mostWaitSeconds: 900, forgetSeconds: 3_600 },
};

/** Guesses from one address, whatever the logins. */
const ADDRESS_LIMIT: Limit = {
  name: "address",
  policy: { freeFailures: 30, firstWaitSeconds: 5, mostWaitSeconds: 900, forgetSeconds: 900 },
};

/**
 * Guesses at one login from anywhere: many, for strangers must not be able to lock somebody out, and short waits. From an
 * address that the account was signed in from lately it does not hold at all.
 */
const LOGIN_LIMIT: Limit = {
  name: "login",
  policy: { freeFailures: 100, firstWaitSeconds: 5, mostWaitSeconds: 60, forgetSeconds: 3_600 },
};
const KNOWN_ADDRESS_DAYS = 30;
const DAY_MS = 86_400_000;

/** How long a password that was right is known to be, for tools that send it with every request. */
const REMEMBER_MS = 60_000;
const MOST_REMEMBERED = 1_000;

/** Stands in for an account that does not exist, so that a guess costs the same either way. */
const NOBODY = `scrypt$32768$8$1$${"A".repeat(22)}$${"A".repeat(43)}`;

/** What a sign-in attempt brings. */
export interface Attempt {
  readonly login: string;
  readonly password: string;
  /** A one-time code or a recovery code. */
  readonly code?: string | undefined;
  readonly address: string;
}

export type SignInRefusal =
  | Refusal
  /** Login and password are right, but the account wants a one-time code, and got none or a wrong one. */
  | { readonly kind: "code-required" };

/** Checks who somebody is, slowly, and ever more slowly for whoever keeps being wrong. */
export class SignIn {
  readonly #db: Db;
  readonly #keyRing: KeyRing;
  readonly #clock: Clock;
  /** Digests of what was right lately, with the moment until which that is believed. */
  readonly #remembered = recentMap<string, number>(MOST_REMEMBERED);
  /** Checks under way: many requests at the same moment with the same password are one check. */
  readonly #underWay = new Map<string, Promise<Result<StoredUser, Refusal>>>();
  readonly #turns = new PasswordTurns();
  readonly #digestKey = randomBytes(32);

  constructor(db: Db, keyRing: KeyRing, clock: Clock) {
    this.#db = db;
    this.#keyRing = keyRing;
    this.#clock = clock;
  }

  /** Login, password and, where the account has them, a one-time code, each of which is good for once. */
  async withCode(attempt: Attempt): Promise<Result<StoredUser, SignInRefusal>> {
    return this.#limited(attempt, async (user): Promise<Result<StoredUser, SignInRefusal>> => {
      const matched = await this.#matches(attempt, user, { kind: "unauthenticated" });
      if (!matched.ok) return matched;
      if (!matched.value.hasTotp) return matched;
      const isRight = attempt.code !== undefined && (await this.takeCode(matched.value.id, attempt.code));
      return isRight ? matched : refuse({ kind: "code-required" });
    });
  }

  /**
   * Login and password, sent with every request: what was right is remembered for a minute, unless the password is
   * changed meanwhile. An account with one-time codes cannot be used so.
   */
  async withPassword(attempt: Attempt): Promise<Result<StoredUser, Refusal>> {
    const digest = this.#digestOf(attempt.login, attempt.password);
    const known = this.#underWay.get(digest);
    if (known) return known;
    const check = this.#checkPassword(attempt).finally(() => this.#underWay.delete(digest));
    this.#underWay.set(digest, check);
    return check;
  }

  /** The password once more, of somebody who is signed in and does something grave. */
  async confirmPassword(attempt: Attempt): Promise<Result<StoredUser, Refusal>> {
    return this.#judgePassword(attempt, problem("password-wrong"));
  }

  /** What is kept of a new password, for somebody who is signed in. */
  async hash(caller: PasswordCaller, password: string): Promise<Result<string, Refusal>> {
    return this.#turns.run(caller, async () => ok(await hashPassword(password)));
  }

  /** Uses up a one-time code or a recovery code of a user. */
  async takeCode(userId: number, code: string): Promise<boolean> {
    const { current } = await findTotp(this.#db, this.#keyRing, userId);
    const step = current === null ? undefined : totpStepOf(current, code, this.#clock.nowMs());
    if (step !== undefined) return takeTotpStep(this.#db, userId, step);
    const recovery = hashRecoveryCode(code);
    return recovery !== undefined && takeRecoveryCode(this.#db, userId, recovery);
  }

  async #checkPassword(attempt: Attempt): Promise<Result<StoredUser, Refusal>> {
    const user = await this.#find(attempt.login);
    const digest = this.#digestOf(attempt.login, attempt.password, user?.passwordHash);
    const isRemembered = (this.#remembered.get(digest) ?? 0) > this.#clock.nowMs();
    const checked = isRemembered && user ? ok(user) : await this.#judgePassword(attempt, { kind: "unauthenticated" });
    if (!checked.ok) return checked;
    this.#remember(digest);
    return checked.value.hasTotp ? refuse(problem("code-needs-session")) : checked;
  }

  #judgePassword(attempt: Attempt, wrong: Refusal): Promise<Result<StoredUser, Refusal>> {
    return this.#limited(attempt, (user) => this.#matches(attempt, user, wrong));
  }

  async #limited<R extends { readonly kind: string }>(attempt: Attempt, judge: Judge<R>) {
    return this.#turns.oneByOne(attempt, () => this.#judgeCounted(attempt, judge));
  }

  /**
   * Counts the attempt against its address, its login, and both together before it is judged, and takes it back when it
   * succeeds; for the address and the login also when nothing but a code is missing. What is counted and written is the
   * same for a login that nobody has.
   */
  async #judgeCounted<R extends { readonly kind: string }>(
    attempt: Attempt,
    judge: Judge<R>,
  ): Promise<Result<StoredUser, R | Refusal>> {
    const now = new Date(this.#clock.nowMs());
    const subjects = subjectsOf(attempt);
    const waits: Wait[] = [];
    const counted: CountedAttempt[] = [];
    for (const [subject, limit] of [
      [subjects.address, ADDRESS_LIMIT],
      [subjects.pair, PAIR_LIMIT],
      [subjects.login, LOGIN_LIMIT],
    ] as const) {
      const start = await beginAttempt(this.#db, subject, limit.policy, now);
      if (start.kind === "locked") {
        if (limit === LOGIN_LIMIT && (await this.#isKnownAddress(attempt, now))) continue;
        // It is not judged, so it says nothing of the others either.
        for (const before of counted) await takeBackAttempt(this.#db, before);
        return refuse({ kind: "rate-limited", retryAfterSeconds: start.waitSeconds });
      }
      counted.push(start.counted);
      const { failures, lockedUntil } = start;
      if (lockedUntil) waits.push({ limit: limit.name, failures, until: lockedUntil.toISOString() });
    }
    const user = await this.#find(attempt.login);
    const outcome = await judge(user);
    if (outcome.ok) await clearFailures(this.#db, subjects.pair);
    // Who is asked for a code has the password right, and guesses nothing.
    const isAsked = !outcome.ok && outcome.error.kind === "code-required" && attempt.code === undefined;
    const isUnjudged = !outcome.ok && outcome.error.kind === "rate-limited";
    if (outcome.ok || isAsked || isUnjudged) {
      for (const attempted of counted) {
        if (isUnjudged || attempted.subject !== subjects.pair) await takeBackAttempt(this.#db, attempted);
      }
    } else for (const wait of waits) await this.#auditWait(attempt, user, wait, now);
    return outcome;
  }

  async #isKnownAddress({ login, address }: Attempt, now: Date): Promise<boolean> {
    const since = new Date(now.getTime() - KNOWN_ADDRESS_DAYS * DAY_MS);
    const known = await listSignInAddresses(this.#db, storable(login), since);
    return known.map(sourceOf).includes(sourceOf(address));
  }

  /** That somebody has to wait is for the audit log of whoever answers for the account; of a login of nobody's, the operator. */
  async #auditWait({ login, address }: Attempt, user: StoredUser | undefined, detail: Wait, now: Date): Promise<void> {
    const about = user ? { role: user.role, scope: user.scope } : ({ role: "operator", scope: null } as const);
    const entry = { actor: NOT_SIGNED_IN, address, action: "sign-in.wait", object: storable(login), detail, about };
    await settleAudit(this.#db, await beginAudit(this.#db, entry, now));
  }

  /** PostgreSQL has no place for NUL, so nobody's login has one. */
  async #find(login: string): Promise<StoredUser | undefined> {
    return login.includes("\0") ? undefined : findUser(this.#db, login);
  }

  #matches(attempt: Attempt, user: StoredUser | undefined, wrong: Refusal): Promise<Result<StoredUser, Refusal>> {
    return this.#turns.run(attempt, async () => {
      const isRight = (await passwordMatches(attempt.password, user?.passwordHash ?? NOBODY)) && user !== undefined;
      if (isRight) this.#turns.noteRight(attempt);
      return isRight ? ok(user) : refuse(wrong);
    });
  }

  #remember(digest: string): void {
    this.#remembered.set(digest, this.#clock.nowMs() + REMEMBER_MS);
  }

  #digestOf(...parts: readonly (string | undefined)[]): string {
    return createHmac("sha256", this.#digestKey).update(JSON.stringify(parts)).digest("base64url");
  }
}

type Judge<R> = (user: StoredUser | undefined) => Promise<Result<StoredUser, R>>;

/** That failures of an attempt are answered by a wait. */
interface Wait {
  readonly limit: Limit["name"];
  readonly failures: number;
  readonly until: string;
}

/** Stands in the audit log for who has not shown who they are; no login can be it. */
const NOT_SIGNED_IN = "?";

function subjectsOf({ login, address }: Attempt): { readonly [kind in "address" | "pair" | "login"]: string } {
  const network = sourceOf(address);
  const digest = createHash("sha256").update(login, "utf8").digest("base64url");
  return { address: `address:${network}`, pair: `pair:${network}:${digest}`, login: `login:${digest}` };
}

/** A login as it was typed, in a form that the database takes. */
function storable(login: string): string {
  return login.replaceAll("\0", "").slice(0, 64);
}
