import { createSecretKey, hkdfSync, type KeyObject } from "node:crypto";
import { ALL_PURPOSES, API_KEY_KINDS, type ApiKeyKind, isKeyPurpose, type KeyPurpose } from "./key-purposes.ts";
import { ok, type Result, refuse } from "./result.ts";

/** The keys of one purpose: what is made is made with the first; what is read may have been made with any. */
export type Keys = readonly [KeyObject, ...KeyObject[]];

/** A key was asked for that the process does not have. */
export class MissingKey extends Error {
  override readonly name = "MissingKey";

  constructor(purpose: string) {
    super(`the key of "${purpose}" is not among PALOMAR_KEYS: run this where PALOMAR_SECRET is`);
  }
}

const KEY_OCTETS = 32;
const SALT = "palomar";
const LINE = /^(\S+)((?:[ \t]+[0-9a-f]{64})+)$/i;

/**
 * The keys that a process has, by purpose: all of them, derived from the deployment's secret, or those of a key file.
 * Each key is derived once.
 * @see RFC 5869 (HKDF with SHA-256; salt "palomar", info the purpose)
 */
export class KeyRing {
  /** The one in force, then those before it; none in a ring of a key file. */
  readonly #secrets: readonly string[];
  readonly #keys: Map<KeyPurpose, Keys>;
  /** What digests of API keys are made with, where it is not derived. */
  readonly #digestKeys: ReadonlyMap<ApiKeyKind, KeyObject>;
  readonly #derivedDigestKeys = new Map<ApiKeyKind, KeyObject>();

  private constructor(
    secrets: readonly string[],
    keys: Map<KeyPurpose, Keys>,
    digestKeys: ReadonlyMap<ApiKeyKind, KeyObject>,
  ) {
    this.#secrets = secrets;
    this.#keys = keys;
    this.#digestKeys = digestKeys;
  }

  /**
   * All keys of a deployment.
   * @param secret PALOMAR_SECRET
   * @param previous secrets that it took the place of: what they made is still accepted
   */
  static ofSecret(secret: string, previous: readonly string[] = []): KeyRing {
    return new KeyRing([secret, ...previous], new Map(), new Map());
  }

  /**
   * The keys of a key file. A line names a purpose and its keys in hexadecimal digits, the one in force first; what
   * begins with `#` is a comment. `digest:<kind>` names what digests of API keys are made with.
   * @returns refused with the rest of a sentence about the text
   */
  static parse(text: string): Result<KeyRing, string> {
    const keys = new Map<KeyPurpose, Keys>();
    const digestKeys = new Map<ApiKeyKind, KeyObject>();
    for (const [index, line] of text
      .split("\n")
      .map((each) => each.trim())
      .entries()) {
      if (line === "" || line.startsWith("#")) continue;
      const [, purpose = "", digits] = LINE.exec(line) ?? [];
      if (digits === undefined) return refuse(`line ${index + 1} is not a purpose and keys of 64 hexadecimal digits`);
      const read = digits.trim().split(/\s+/).map(keyOfHex) as [KeyObject, ...KeyObject[]];
      const kind = API_KEY_KINDS.find((one) => purpose === `${DIGEST}${one}`);
      if (kind !== undefined) digestKeys.set(kind, read[0]);
      else if (!isKeyPurpose(purpose)) return refuse(`line ${index + 1}: there is no purpose "${purpose}"`);
      else if (keys.has(purpose)) return refuse(`line ${index + 1}: "${purpose}" comes twice`);
      else keys.set(purpose, read);
    }
    return ok(new KeyRing([], keys, digestKeys));
  }

  /** How many secrets it is made of; 0: of none, but of a key file. */
  get secretCount(): number {
    return this.#secrets.length;
  }

  holds(purpose: KeyPurpose): boolean {
    return this.#secrets.length > 0 || this.#keys.has(purpose);
  }

  /** The purposes whose keys it has. */
  get purposes(): KeyPurpose[] {
    return ALL_PURPOSES.filter((purpose) => this.holds(purpose));
  }

  /** What is made now is made with this one. @throws MissingKey */
  keyFor(purpose: KeyPurpose): KeyObject {
    return this.keysFor(purpose)[0];
  }

  /** What is read may have been made with any of these; the one in force first. @throws MissingKey */
  keysFor(purpose: KeyPurpose): Keys {
    const known = this.#keys.get(purpose);
    if (known !== undefined) return known;
    if (this.#secrets.length === 0) throw new MissingKey(purpose);
    const keys = this.#secrets.map((secret) => derive(secret, purpose)) as [KeyObject, ...KeyObject[]];
    this.#keys.set(purpose, keys);
    return keys;
  }

  /**
   * What digests of API keys are made with. A digest cannot be made anew without the API key, which only its holder has:
   * so this is derived from the deployment's first secret, and stored, sealed, for as long as there are digests
   * (`store/deployment-keys.ts`). Until it was read, the earliest secret of the ring counts.
   * @throws MissingKey
   */
  digestKey(kind: ApiKeyKind): KeyObject {
    const known = this.#digestKeys.get(kind) ?? this.#derivedDigestKeys.get(kind);
    if (known !== undefined) return known;
    const first = this.#secrets.at(-1);
    if (first === undefined) throw new MissingKey(`${DIGEST}${kind}`);
    const key = derive(first, `${DIGEST}${kind}`);
    this.#derivedDigestKeys.set(kind, key);
    return key;
  }

  /** The same keys, and these for digests. */
  withDigestKeys(digestKeys: ReadonlyMap<ApiKeyKind, KeyObject>): KeyRing {
    return new KeyRing(this.#secrets, this.#keys, digestKeys);
  }

  /** The same without the keys that were in force before. */
  current(): KeyRing {
    if (this.#secrets.length > 0) return new KeyRing(this.#secrets.slice(0, 1), new Map(), this.#digestKeys);
    const first = [...this.#keys].map(([purpose, [key]]) => [purpose, [key]] as const);
    return new KeyRing([], new Map<KeyPurpose, Keys>(first), this.#digestKeys);
  }

  /** The lines of a key file with these purposes, which `parse` reads. @throws MissingKey */
  format(purposes: readonly KeyPurpose[]): string {
    return purposes.map((purpose) => `${purpose} ${this.keysFor(purpose).map(hexOf).join(" ")}\n`).join("");
  }

  /** The same for what digests of API keys are made with: for a process of ours, never for a file. */
  formatDigestKeys(kinds: readonly ApiKeyKind[]): string {
    return kinds.map((kind) => `${DIGEST}${kind} ${hexOf(this.digestKey(kind))}\n`).join("");
  }
}

const DIGEST = "digest:";

function derive(secret: string, info: string): KeyObject {
  return createSecretKey(Buffer.from(hkdfSync("sha256", secret, SALT, info, KEY_OCTETS)));
}

function keyOfHex(digits: string): KeyObject {
  return createSecretKey(Buffer.from(digits, "hex"));
}

function hexOf(key: KeyObject): string {
  return key.export().toString("hex");
}
