import { setTimeout as sleep } from "node:timers/promises";
import type { KeyRing } from "../core/key-ring.ts";
import { type DkimKey, DkimSigner } from "../core/mail/dkim.ts";
import { recentMap } from "../core/recent-map.ts";
import type { Db } from "../platform/postgres/db.ts";
import { dkimKeys, findHolderOf, findSenderKeys } from "../store/mail/instances/dkim-keys.ts";

/** A key that was changed or taken away is signed with for so long at most, unless the database cannot be asked. */
const KEPT_MS = 10_000;
/** How long a message waits for news of a signer that is known: a silent database must not hold up mail. */
const ANSWER_MS = 1_000;
const MOST_KEPT = 1_000;

/** What goes before a message of one sender. */
export interface Sender {
  readonly signer: DkimSigner;
  readonly instanceName: string;
  /** Messages carry Feedback-ID. */
  readonly feedbackId: boolean;
  /** They carry CFBL-Address: the bounce domain signs as well (RFC 9477 §3.1.3). */
  readonly feedbackAddress: boolean;
  /** Recipients' links lead to this host; undefined: to the deployment's. */
  readonly linkHost: string | undefined;
}

/**
 * The DKIM signers of sender domains. Unsealing and parsing a private key takes longer than signing with it, so that
 * one which is used all the time is kept.
 */
export class Signers {
  readonly #db: Db;
  readonly #keyRing: KeyRing;
  readonly #bounceDomain: string;
  readonly #kept = recentMap<string, { readonly sender: Promise<Sender | undefined>; readonly untilMs: number }>(
    MOST_KEPT,
  );

  constructor(db: Db, keyRing: KeyRing, bounceDomain: string) {
    this.#db = db;
    this.#keyRing = keyRing;
    this.#bounceDomain = bounceDomain;
  }

  /** @param domain A-labels. @returns undefined when the instance does not have the domain, or no more */
  find(instanceId: number, domain: string): Promise<Sender | undefined> {
    const name = `${instanceId} ${domain}`;
    const kept = this.#kept.get(name);
    if (kept && performance.now() < kept.untilMs) return kept.sender;
    const read = this.#read(instanceId, domain);
    const sender = kept === undefined ? read : soonOr(read, kept.sender);
    this.#keep(name, sender);
    sender.catch(() => this.#kept.delete(name));
    if (kept) read.then(() => this.#keep(name, read)).catch(() => {}); // late news counts as well
    return sender;
  }

  #keep(name: string, sender: Promise<Sender | undefined>): void {
    this.#kept.set(name, { sender, untilMs: performance.now() + KEPT_MS });
  }

  async #read(instanceId: number, domain: string): Promise<Sender | undefined> {
    const found = await findSenderKeys(this.#db, this.#keyRing, { instanceId, domain });
    if (found === undefined) return undefined;
    const isOthers = found.feedbackAddress && domain !== this.#bounceDomain;
    const deployment = isOthers ? await readDeploymentKeys(this.#db, this.#keyRing, this.#bounceDomain) : [];
    const { instanceName, feedbackId, linkHost } = found;
    return {
      signer: new DkimSigner([...dkimKeys(domain, found), ...deployment]),
      ...{ instanceName, feedbackId, linkHost },
      feedbackAddress: found.feedbackAddress && (domain === this.#bounceDomain || deployment.length > 0),
    };
  }
}

/** The keys of the bounce domain; none where no instance has it as a sender domain. */
export async function readDeploymentKeys(db: Db, keyRing: KeyRing, bounceDomain: string): Promise<DkimKey[]> {
  const holder = await findHolderOf(db, bounceDomain);
  if (holder === undefined) return [];
  const found = await findSenderKeys(db, keyRing, { instanceId: holder, domain: bounceDomain });
  return found ? dkimKeys(bounceDomain, found) : [];
}

/** What comes in time, or else what is known. */
function soonOr<T>(news: Promise<T>, known: Promise<T>): Promise<T> {
  return Promise.race([news, sleep(ANSWER_MS, known, { ref: false })]).catch(() => known);
}
