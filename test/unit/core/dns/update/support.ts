import { encodeMessage, type MessageRecord } from "../../../../../services/core/dns/message.ts";
import { CLASS, OPCODE, TYPE } from "../../../../../services/core/dns/rr-types.ts";
import { nameOf, recordOf } from "../support.ts";

const FLAGS = { qr: false, aa: false, tc: false, rd: false, ra: false, ad: false, cd: false };
const NO_DATA = new Uint8Array(0);

/** An UPDATE of example.org. */
export function updateMessage(
  updates: readonly MessageRecord[],
  prerequisites: readonly MessageRecord[] = [],
  questions = [{ name: nameOf("example.org."), type: TYPE.SOA as number, class: CLASS.IN as number }],
): Uint8Array {
  const sections = { questions, answers: prerequisites, authorities: updates, additionals: [] };
  return encodeMessage({ id: 7, opcode: OPCODE.UPDATE, flags: FLAGS, rcode: 0, ...sections });
}

/** A record with data: of class IN to be added or to be there, of class NONE to be deleted. */
export function withData(
  owner: string,
  type: string,
  text: string,
  ttl = 0,
  rrClass: number = CLASS.IN,
): MessageRecord {
  return { ...recordOf(owner, type, text, ttl), class: rrClass };
}

/** A record of class ANY or NONE that is about a name or an RRset. */
export function bare(owner: string, type: keyof typeof TYPE, rrClass: number): MessageRecord {
  return { owner: nameOf(owner, nameOf("example.org.")), type: TYPE[type], class: rrClass, ttl: 0, rdata: NO_DATA };
}
