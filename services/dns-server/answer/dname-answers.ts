import { MAX_NAME_OCTETS } from "../../core/dns/name.ts";
import { TYPE } from "../../core/dns/rr-types.ts";
import { HEADER_OCTETS } from "../message/query.ts";
import type { Response } from "../message/response.ts";
import { RECORD_FIXED_OCTETS } from "../zone-database/layout.ts";
import type { LookupName } from "../zone-database/lookup-name.ts";
import type { ZoneDatabaseReader } from "../zone-database/reader.ts";

/** What a redirection comes to where it leads to no target. */
export const REDIRECTION = {
  /** The records do not fit. */
  OVERFLOW: 0,
  /** The DNAME is in the answer, and the name that it makes has more than 255 octets (RFC 6672 §2.2). */
  TOO_LONG: -1,
} as const;

/**
 * Writes DNAMEs and the CNAMEs that they stand for into the answer section (RFC 6672 §3.2), each DNAME once. One object
 * per thread; nothing is allocated per query.
 */
export class DnameAnswers {
  readonly #reader: ZoneDatabaseReader;
  readonly #synthesised = new Uint8Array(MAX_NAME_OCTETS);
  /** DNAMEs in the answer, by `identityOf`, and where their fields are. */
  readonly #nodes: Int32Array;
  readonly #fieldsAt: Int32Array;
  #count = 0;
  #response!: Response;

  /** @param most redirections that one answer can have */
  constructor(reader: ZoneDatabaseReader, most: number) {
    this.#reader = reader;
    this.#nodes = new Int32Array(most);
    this.#fieldsAt = new Int32Array(most);
  }

  /** Before each answer. */
  begin(response: Response): void {
    this.#response = response;
    this.#count = 0;
  }

  /**
   * Writes the DNAME above a name, and its CNAME.
   * @param dnameLabel where in the name the DNAME's owner begins
   * @param owner where the name stands in the response
   * @returns where the CNAME's target stands, or a `REDIRECTION`
   */
  write(node: number, name: LookupName, dnameLabel: number, owner: number): number {
    const response = this.#response;
    const fields = this.#writeDname(node, owner === HEADER_OCTETS ? HEADER_OCTETS + name.startOf(dnameLabel) : 0);
    if (fields === 0) return REDIRECTION.OVERFLOW;
    const target = fields + 10;
    const prefixOctets = name.startOf(dnameLabel);
    const targetOctets = response.uint16At(fields + 8);
    if (prefixOctets + targetOctets > MAX_NAME_OCTETS) return REDIRECTION.TOO_LONG;
    // The prefix keeps the case that the client wrote it in.
    const prefix = owner === HEADER_OCTETS ? response.octets.subarray(HEADER_OCTETS) : name.octets;
    for (let index = 0; index < prefixOctets; index += 1) this.#synthesised[index] = prefix[index]!;
    for (let index = 0; index < targetOctets; index += 1) {
      this.#synthesised[prefixOctets + index] = response.octets[target + index]!;
    }
    const cname = response.position;
    if (!response.writeCname(owner, fields + 4, this.#synthesised, prefixOctets + targetOctets)) {
      return REDIRECTION.OVERFLOW;
    }
    return cname + RECORD_FIXED_OCTETS;
  }

  /**
   * Writes a DNAME, unless a loop has led back to one that is in the answer.
   * @returns offset of its fields behind the owner; 0 when it does not fit
   */
  #writeDname(node: number, owner: number): number {
    const dname = this.#reader.identityOf(node);
    for (let index = 0; index < this.#count; index += 1) {
      if (this.#nodes[index] === dname) return this.#fieldsAt[index]!;
    }
    const response = this.#response;
    const start = response.position;
    if (!response.writeSigned(this.#reader.findRrset(node, TYPE.DNAME), node, owner)) return 0;
    const fields = response.skipName(start);
    this.#nodes[this.#count] = dname;
    this.#fieldsAt[this.#count] = fields;
    this.#count += 1;
    return fields;
  }
}
