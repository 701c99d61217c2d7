import { knownPhrases } from "../core/mail/bounce/class.ts";
import { type Phrases, withOwnPhrases } from "../core/mail/bounce/phrases.ts";
import type { Observe } from "../platform/observability/observation.ts";
import type { Db } from "../platform/postgres/db.ts";
import { RepeatedWork } from "../platform/repeated-work.ts";
import { listWordings } from "../store/mail/inbound/wordings.ts";

/** What an operator says of words counts in sessions this soon. */
const READ_MS = 2_000;

/** What words of other mail systems mean, operators' own wordings included. */
export class WordingsInForce {
  readonly #work: RepeatedWork;
  #phrases: Phrases = knownPhrases;
  #newest = "";

  constructor({ db, observe }: { readonly db: Db; readonly observe: Observe }) {
    this.#work = new RepeatedWork({
      take: async () => {
        const own = await listWordings(db);
        const newest = own.map(({ id }) => id).join();
        if (newest !== this.#newest) this.#phrases = withOwnPhrases(own, knownPhrases);
        this.#newest = newest;
        return READ_MS;
      },
      failed: (err) => {
        observe({ kind: "wordings-not-read", level: "warn", err });
        return READ_MS;
      },
    });
  }

  get phrases(): Phrases {
    return this.#phrases;
  }

  stop(): Promise<void> {
    return this.#work.stop();
  }
}
