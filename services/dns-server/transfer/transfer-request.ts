import { decodeMessage } from "../../core/dns/message.ts";
import type { DomainName } from "../../core/dns/name.ts";
import { CLASS, OPCODE, TYPE } from "../../core/dns/rr-types.ts";
import { decodeSoaRdata } from "../../core/dns/soa.ts";

/** A query for AXFR or IXFR. */
export interface TransferRequest {
  readonly id: number;
  readonly recursionDesired: boolean;
  /** As the question has it, case included. */
  readonly name: DomainName;
  readonly type: typeof TYPE.AXFR | typeof TYPE.IXFR;
  /** The serial that the client has; undefined for AXFR. */
  readonly serial: number | undefined;
  readonly edns: { readonly dnssecOk: boolean; readonly udpPayloadOctets: number } | undefined;
}

/**
 * Reads a query for a transfer.
 * @returns "malformed" when a record of the message cannot be read, or the client's SOA is missing (RFC 1995 §3);
 *   undefined when it asks for something else
 */
export function readTransferRequest(octets: Uint8Array): TransferRequest | "malformed" | undefined {
  const decoded = decodeMessage(octets);
  if (!decoded.ok) return "malformed";
  const { id, opcode, flags, questions, authorities, edns } = decoded.value;
  const [question] = questions;
  if (opcode !== OPCODE.QUERY || question?.class !== CLASS.IN) return undefined;
  const { name, type } = question;
  if (type !== TYPE.AXFR && type !== TYPE.IXFR) return undefined;
  // Records of updates may come without data (RFC 2136 §2.4), this one may not.
  const soa = authorities.find(
    (record) => record.type === TYPE.SOA && record.owner.key === name.key && record.rdata.length > 0,
  );
  if (type === TYPE.IXFR && !soa) return "malformed";
  return {
    id,
    recursionDesired: flags.rd,
    name,
    type,
    serial: type === TYPE.IXFR && soa ? decodeSoaRdata(soa.rdata).serial : undefined,
    edns: edns && { dnssecOk: edns.dnssecOk, udpPayloadOctets: edns.udpPayloadSize },
  };
}
