import { setTimeout as sleep } from "node:timers/promises";
import type { Db } from "../../platform/db.ts";
import type { Observe } from "../../platform/observation.ts";
import { readTransferAccess, readTransferAccessVersion } from "../../store/transfer-access.ts";
import { AccessTable } from "./access-table.ts";

/** A change of an ACL is in force within a second: half of it for noticing, half for reading. */
const POLL_MS = 500;

/** Keeps the access table as the database has it; while the database is away the last table stays. */
export class AccessFeed {
  readonly #db: Db;
  readonly #secret: string;
  readonly #observe: Observe;
  readonly #stopping = new AbortController();
  #table: AccessTable | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(db: Db, secret: string, observe: Observe) {
    this.#db = db;
    this.#secret = secret;
    this.#observe = observe;
  }

  /** Undefined until it was read for the first time. */
  get table(): AccessTable | undefined {
    return this.#table;
  }

  /** Starts following; resolves after the first attempt to read, well or not. */
  async start(): Promise<void> {
    await this.#read();
    this.#running = this.#follow();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #follow(): Promise<void> {
    for (;;) {
      await sleep(POLL_MS, undefined, { signal: this.#stopping.signal }).catch(() => {});
      if (this.#stopping.signal.aborted) return;
      await this.#read();
    }
  }

  async #read(): Promise<void> {
    try {
      const version = await readTransferAccessVersion(this.#db);
      if (version === this.#table?.version) return;
      this.#table = new AccessTable(await readTransferAccess(this.#db, this.#secret));
      this.#observe({ kind: "transfer-access-read", version: this.#table.version });
    } catch (err) {
      if (!this.#stopping.signal.aborted) this.#observe({ kind: "transfer-access-unreadable", level: "warn", err });
    }
  }
}
