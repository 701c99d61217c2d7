/** So long after another's last request a client counts as the only one, in ms. */
const QUIET_MS = 5_000;

/** Tells whether a client is the only one that asks for anything. */
export class LastCallers {
  readonly #nowMs: () => number;
  #latest: string | undefined;
  #latestAtMs = Number.NEGATIVE_INFINITY;
  /** When another than the latest has asked last. */
  #othersAtMs = Number.NEGATIVE_INFINITY;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Notes a request. */
  note(client: string): void {
    if (client !== this.#latest) this.#othersAtMs = this.#latestAtMs;
    this.#latest = client;
    this.#latestAtMs = this.#nowMs();
  }

  /** Whether nobody else has asked for a while. */
  isAlone(client: string): boolean {
    const othersAtMs = client === this.#latest ? this.#othersAtMs : this.#latestAtMs;
    return this.#nowMs() - othersAtMs > QUIET_MS;
  }
}
