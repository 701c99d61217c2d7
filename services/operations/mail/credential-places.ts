import { recentMap } from "../../core/recent-map.ts";
import type { FindPlace } from "../../platform/lookups/places.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { notePlace } from "../../store/mail/guard/behaviour.ts";

/** Credentials whose countries are remembered by a process; of a forgotten one it is noted again. */
const MOST_REMEMBERED = 20_000;

/** Notes from which countries credentials are used; who watches the instances judges them. */
export class CredentialPlaces {
  readonly #db: Db;
  readonly #findPlace: FindPlace;
  readonly #observe: Observe;
  readonly #known = recentMap<string, true>(MOST_REMEMBERED);

  /** @param findPlace knows no place where there is no database of them: then nothing is noted */
  constructor(db: Db, findPlace: FindPlace, observe: Observe) {
    this.#db = db;
    this.#findPlace = findPlace;
    this.#observe = observe;
  }

  /** @param credential that was right: `campaign <numid>`, or `instance key` */
  note(instanceId: number, credential: string, address: string): void {
    const country = this.#findPlace(address)?.countryCode;
    if (country === undefined) return;
    const name = `${instanceId} ${credential} ${country}`;
    if (this.#known.has(name)) return;
    this.#known.set(name, true);
    // Nobody waits for it; what could not be noted is noted with the next use.
    notePlace(this.#db, instanceId, { credential, country }).catch((err: unknown) => {
      this.#known.delete(name);
      this.#observe({ kind: "place-not-noted", level: "warn", err });
    });
  }
}
