import { createPrivateKey } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { KeyRing } from "../core/key-ring.ts";
import { DkimSigner } from "../core/mail/dkim.ts";
import { recentMap } from "../core/recent-map.ts";
import type { Db } from "../platform/postgres/db.ts";
import { findDkimKey } from "../store/mail/instances/instances.ts";

/** A key that was changed or taken away is signed with for so long at most, unless the database cannot be asked. */
const KEPT_MS = 10_000;
/** How long a message waits for news of a signer that is known: a silent database must not hold up mail. */
const ANSWER_MS = 1_000;
const MOST_KEPT = 1_000;

/**
 * The DKIM signers of sender domains. Unsealing and parsing a private key takes longer than signing with it, so that
 * one which is used all the time is kept.
 */
export class Signers {
  readonly #db: Db;
  readonly #keyRing: KeyRing;
  readonly #kept = recentMap<string, { readonly signer: Promise<DkimSigner | undefined>; readonly untilMs: number }>(
    MOST_KEPT,
  );

  constructor(db: Db, keyRing: KeyRing) {
    this.#db = db;
    this.#keyRing = keyRing;
  }

  /** @param domain A-labels. @returns undefined when the instance does not have the domain, or no more */
  find(instanceId: number, domain: string): Promise<DkimSigner | undefined> {
    const name = `${instanceId} ${domain}`;
    const kept = this.#kept.get(name);
    if (kept && performance.now() < kept.untilMs) return kept.signer;
    const read = this.#read(instanceId, domain);
    const signer = kept === undefined ? read : soonOr(read, kept.signer);
    this.#keep(name, signer);
    signer.catch(() => this.#kept.delete(name));
    if (kept) read.then(() => this.#keep(name, read)).catch(() => {}); // late news counts as well
    return signer;
  }

  #keep(name: string, signer: Promise<DkimSigner | undefined>): void {
    this.#kept.set(name, { signer, untilMs: performance.now() + KEPT_MS });
  }

  async #read(instanceId: number, domain: string): Promise<DkimSigner | undefined> {
    const key = await findDkimKey(this.#db, this.#keyRing, instanceId, domain);
    if (key === undefined) return undefined;
    return new DkimSigner([{ domain, selector: key.selector, privateKey: createPrivateKey(key.privateKeyPem) }]);
  }
}

/** What comes in time, or else what is known. */
function soonOr<T>(news: Promise<T>, known: Promise<T>): Promise<T> {
  return Promise.race([news, sleep(ANSWER_MS, known, { ref: false })]).catch(() => known);
}
