import type { KeyRing } from "../../core/key-ring.ts";
import type { Observe } from "../../platform/observability/observation.ts";
import type { Db } from "../../platform/postgres/db.ts";
import { RepeatedWork } from "../../platform/repeated-work.ts";
import { readTransferAccess, readTransferAccessVersion, type TransferAccess } from "../../store/dns/transfer-access.ts";
import { AccessTable } from "./access-table.ts";
import { openAccess, sealAccess } from "./sealed-access.ts";

/** A change of an ACL is in force within a second: half of it for noticing, half for reading. */
const POLL_MS = 500;
/** A line of the log names so much of what cannot be read. */
const MOST_NAMED = 20;

/** Keeps the access table as the database has it; while the database is away the last table stays. */
export class AccessFeed {
  readonly #db: Db;
  readonly #keyRing: KeyRing;
  readonly #observe: Observe;
  #access: TransferAccess | undefined;
  #table: AccessTable | undefined;
  /** What was restored is believed only until the database says what it has, whatever the versions. */
  #isRestored = false;
  #following: RepeatedWork | undefined;
  /** Called after the next attempt to read that begins. */
  #waiting: (() => void)[] = [];
  #becomeKnown: () => void = () => {};
  /** Resolves when there is a table. */
  readonly known = new Promise<void>((resolve) => {
    this.#becomeKnown = resolve;
  });

  constructor(db: Db, keyRing: KeyRing, observe: Observe) {
    this.#db = db;
    this.#keyRing = keyRing;
    this.#observe = observe;
  }

  /** Undefined until it was read for the first time. */
  get table(): AccessTable | undefined {
    return this.#table;
  }

  /** What the table is made of, sealed for a file; undefined until it was read for the first time. */
  sealed(): string | undefined {
    return this.#access && sealAccess(this.#access, this.#keyRing);
  }

  /** Takes what was sealed earlier, while the database has said nothing yet. */
  restore(sealed: string): void {
    if (this.#table) return;
    try {
      this.#take(openAccess(sealed, this.#keyRing));
      this.#isRestored = true;
    } catch (err) {
      this.#observe({ kind: "transfer-access-unreadable", level: "error", err });
    }
  }

  /** Starts following; resolves after the first attempt to read, well or not. */
  start(): Promise<void> {
    const attempted = this.refresh();
    this.#following = new RepeatedWork({
      take: async () => {
        const served = this.#waiting.splice(0);
        await this.#read().finally(() => {
          for (const resolve of served) resolve();
        });
        return POLL_MS;
      },
      failed: (err) => {
        this.#observe({ kind: "transfer-access-unreadable", level: "warn", err });
        return POLL_MS;
      },
    });
    return attempted;
  }

  /**
   * Resolves when the table is what the database has at the call, or has later; where it cannot be read, the last one
   * stays. Who asks at the same time shares an attempt.
   */
  refresh(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#following?.wake();
    });
  }

  async stop(): Promise<void> {
    await this.#following?.stop();
  }

  async #read(): Promise<void> {
    const version = await readTransferAccessVersion(this.#db);
    if (version === this.#table?.version && !this.#isRestored) return;
    this.#take(await readTransferAccess(this.#db, this.#keyRing));
    this.#isRestored = false;
    this.#observe({ kind: "transfer-access-read", version });
  }

  #take(access: TransferAccess): void {
    const told = new Set(this.#table?.unreadable);
    this.#table = new AccessTable(access);
    this.#access = access;
    this.#tellUnreadable(this.#table.unreadable.filter((line) => !told.has(line)));
    this.#becomeKnown();
  }

  /** What cannot be read is told once, however often the rest changes. */
  #tellUnreadable(news: readonly string[]): void {
    if (news.length === 0) return;
    const named = news.slice(0, MOST_NAMED);
    this.#observe({ kind: "transfer-access-left-out", level: "error", unreadable: named, count: news.length });
  }
}
