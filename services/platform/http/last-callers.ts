import { Counts } from "../../core/counts.ts";

/** A client counts as the only one when no other has had a request under way for so long, in ms. */
const QUIET_MS = 5_000;

/** Tells whether a client is the only one that asks for anything. */
export class LastCallers {
  readonly #nowMs: () => number;
  /** Requests under way, by client. */
  readonly #underWay = new Counts<string>();
  #latest: string | undefined;
  #latestAtMs = Number.NEGATIVE_INFINITY;
  /** Of the last client before the latest. */
  #formerAtMs = Number.NEGATIVE_INFINITY;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Notes that a request has come. */
  begin(client: string): void {
    this.#underWay.add(client, 1);
    this.#note(client);
  }

  /** Notes that it has been answered. */
  end(client: string): void {
    this.#underWay.add(client, -1);
    this.#note(client);
  }

  /** Whether nobody else has asked for a while. */
  isAlone(client: string): boolean {
    if (this.#underWay.size > (this.#underWay.of(client) > 0 ? 1 : 0)) return false;
    const lastOtherAtMs = client === this.#latest ? this.#formerAtMs : this.#latestAtMs;
    return this.#nowMs() - lastOtherAtMs > QUIET_MS;
  }

  #note(client: string): void {
    if (client !== this.#latest) this.#formerAtMs = this.#latestAtMs;
    this.#latest = client;
    this.#latestAtMs = this.#nowMs();
  }
}
