import { setImmediate as nextTurn } from "node:timers/promises";
import type { KeyRing } from "../core/key-ring.ts";
import type { Db } from "../platform/postgres/db.ts";
import { loadMessages, type MessageKey, type StoredMessage, sizeOf } from "../store/mail/sends/messages.ts";
import { type PreparedMessage, prepareMessage } from "./compose.ts";
import { Signers } from "./signers.ts";

const MOST_OCTETS = 64 * 2 ** 20;
/** The encoded form is about twice the given one, and both are kept. */
const PREPARED_FACTOR = 3;
/** Where nobody is told of changes, messages are loaded anew so often. */
const MOST_AGE_MS = 60_000;
/** What a prepared message takes apart from its content. */
const BASE_OCTETS = 16 * 2 ** 10;

/**
 * The messages that are being sent, prepared, until some of them may have changed. The ones used longest ago make room for
 * others; one that would not fit by itself stays until the next comes.
 */
export class MessageCache {
  readonly #db: Db;
  readonly #signers: Signers;
  readonly #prepared = new Map<number, Promise<PreparedMessage>>();
  readonly #sizes = new Map<number, number>();
  #octets = 0;
  /** By the monotonic clock. */
  #forgetAtMs = performance.now() + MOST_AGE_MS;
  /** Asked for in this turn of the event loop; the lanes of one look begin together. */
  #asked: { readonly keys: MessageKey[]; readonly loaded: Promise<ReadonlyMap<number, StoredMessage>> } | undefined;

  /** @param bounceDomain signs as well where messages name an address of it */
  constructor(db: Db, keyRing: KeyRing, bounceDomain: string) {
    this.#db = db;
    this.#signers = new Signers(db, keyRing, bounceDomain);
  }

  find(key: MessageKey): Promise<PreparedMessage> {
    if (performance.now() >= this.#forgetAtMs) this.forget();
    const messageId = key.id;
    const known = this.#prepared.get(messageId);
    if (known !== undefined) {
      this.#prepared.delete(messageId);
      this.#prepared.set(messageId, known);
      return known;
    }
    const prepared = this.#prepare(key);
    this.#prepared.set(messageId, prepared);
    const isKept = () => this.#prepared.get(messageId) === prepared;
    prepared.then(
      ({ message }) => isKept() && this.#count(messageId, sizeOf(message.content)),
      () => isKept() && this.#prepared.delete(messageId),
    );
    return prepared;
  }

  /** Messages may have changed: each is loaded anew when it is asked for. */
  forget(): void {
    this.#prepared.clear();
    this.#sizes.clear();
    this.#octets = 0;
    this.#forgetAtMs = performance.now() + MOST_AGE_MS;
  }

  async #prepare(key: MessageKey): Promise<PreparedMessage> {
    return prepareMessage(this.#db, this.#signers, await this.#load(key));
  }

  #count(messageId: number, contentOctets: number): void {
    const size = BASE_OCTETS + PREPARED_FACTOR * contentOctets;
    this.#sizes.set(messageId, size);
    this.#octets += size;
    this.#makeRoom(messageId);
  }

  /** One statement loads what is asked for at the same time: submitted messages have a recipient each. */
  async #load(key: MessageKey): Promise<StoredMessage> {
    const asked = this.#asked ?? this.#ask();
    asked.keys.push(key);
    const message = (await asked.loaded).get(key.id);
    if (message === undefined) throw new Error(`message ${key.id} is gone`);
    return message;
  }

  #ask() {
    const keys: MessageKey[] = [];
    const loaded = nextTurn().then(() => {
      this.#asked = undefined;
      return loadMessages(this.#db, keys);
    });
    this.#asked = { keys, loaded };
    return this.#asked;
  }

  #makeRoom(newest: number): void {
    for (const id of this.#prepared.keys()) {
      if (this.#octets <= MOST_OCTETS) return;
      const size = this.#sizes.get(id);
      if (size === undefined || id === newest) continue; // without a size it is still being prepared
      this.#prepared.delete(id);
      this.#sizes.delete(id);
      this.#octets -= size;
    }
  }
}
