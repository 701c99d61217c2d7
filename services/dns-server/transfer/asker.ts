import { formatDomainName, nameFromStoredWire } from "../../core/dns/name.ts";
import { type TsigKey, TsigSigner, type TsigVerdict, tsigRecordLength } from "../../core/dns/tsig.ts";
import type { Authority } from "../answer/authority.ts";
import type { Client } from "../message/client.ts";
import type { AccessTable, GuardedZone } from "./access-table.ts";

/** Who asks: an address, and perhaps the holder of a key. Signs the messages of the one answer to it. */
export class Asker {
  readonly access: AccessTable;
  readonly client: Client;
  readonly #key: TsigKey | undefined;
  readonly #signer: TsigSigner | undefined;
  readonly #nowSeconds: () => number;

  /** @param verdict on the query: no signature, or a good one */
  constructor(
    access: AccessTable,
    client: Client,
    verdict: Extract<TsigVerdict, { kind: "unsigned" | "valid" }>,
    nowSeconds: () => number,
  ) {
    this.access = access;
    this.client = client;
    this.#nowSeconds = nowSeconds;
    if (verdict.kind === "unsigned") return;
    this.#key = verdict.key;
    this.#signer = new TsigSigner(verdict.key, verdict.record.mac);
  }

  /** Of the key that the request is signed with. */
  get keyName(): string | undefined {
    return this.#key && formatDomainName(this.#key.name);
  }

  /** Octets that the signature adds to each message. */
  get reservedOctets(): number {
    return this.#key ? tsigRecordLength(this.#key) : 0;
  }

  get authority(): Authority {
    return { reservedOctets: this.reservedOctets, mayRead: (apex) => this.#mayRead(apex) };
  }

  /** Whose ACL allows the transfer; undefined when none does. */
  grantorOf(zone: GuardedZone): string | undefined {
    return this.access.grantorOf(zone, this.client, this.#key);
  }

  /** The message as it goes out: signed when the query was. */
  sign(message: Uint8Array): Uint8Array {
    return this.#signer ? this.#signer.sign(message, this.#nowSeconds()) : message;
  }

  /** Feeds and catalogs answer those who may transfer them. */
  #mayRead(wire: Uint8Array): boolean {
    const apex = nameFromStoredWire(wire);
    return this.grantorOf({ apex, resellerIds: this.access.guardsOf(apex) ?? [] }) !== undefined;
  }
}
