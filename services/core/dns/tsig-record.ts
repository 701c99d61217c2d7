import { ok, type Result, refuse } from "../result.ts";
import type { DomainName } from "./name.ts";
import { CLASS, TYPE } from "./rr-types.ts";
import { WireReader } from "./wire-reader.ts";

/** The TSIG record of a message as it stands on the wire (RFC 8945 §4.2). */
export interface TsigRecord {
  readonly keyName: DomainName;
  readonly algorithmName: DomainName;
  readonly timeSignedSeconds: number;
  readonly fudgeSeconds: number;
  readonly mac: Uint8Array;
  readonly originalId: number;
  /** 0, or BADSIG, BADKEY, BADTIME, BADTRUNC. */
  readonly error: number;
  readonly otherData: Uint8Array;
  /** Where the record starts in the message: what stands before it is what was signed. */
  readonly offset: number;
}

/**
 * Finds the TSIG record of a message.
 * @returns undefined when there is none; refused when it is not the only one, not the last record of the additional
 * section, or malformed (RFC 8945 §5.1, §5.2: FORMERR)
 */
export function findTsig(message: Uint8Array): Result<TsigRecord | undefined, { readonly message: string }> {
  const reader = new WireReader(message, 4);
  const counts = [reader.u16(), reader.u16(), reader.u16(), reader.u16()];
  const [questions, answers, authorities, additionals] = counts;
  if (questions === undefined || answers === undefined || authorities === undefined || additionals === undefined) {
    return refuse({ message: "the header ends early" });
  }
  for (let index = 0; index < questions; index += 1) {
    if (!reader.skipName() || reader.u32() === undefined) return refuse({ message: "the question is malformed" });
  }
  const recordCount = answers + authorities + additionals;
  for (let index = 0; index < recordCount; index += 1) {
    const offset = reader.offset;
    const type = reader.skipName() ? reader.u16() : undefined;
    const rrClass = reader.u16();
    const ttl = reader.u32();
    const rdata = reader.bytes(reader.u16() ?? Number.POSITIVE_INFINITY);
    if (type === undefined || rdata === undefined) return refuse({ message: "a record is malformed" });
    if (type !== TYPE.TSIG) continue;
    if (index !== recordCount - 1 || additionals === 0)
      return refuse({ message: "the TSIG record is not the last one" });
    // RFC 8945 §4.2: class ANY and TTL 0 are part of what is signed.
    const keyName = rrClass === CLASS.ANY && ttl === 0 ? new WireReader(message, offset).name() : undefined;
    const record = keyName && readTsig(keyName, rdata, offset);
    return record === undefined ? refuse({ message: "the TSIG record is malformed" }) : ok(record);
  }
  return ok(undefined);
}

function readTsig(keyName: DomainName, rdata: Uint8Array, offset: number): TsigRecord | undefined {
  const reader = new WireReader(rdata);
  const algorithmName = reader.name();
  const timeSignedSeconds = reader.u48();
  const fudgeSeconds = reader.u16();
  const mac = reader.bytes(reader.u16() ?? Number.POSITIVE_INFINITY);
  const originalId = reader.u16();
  const error = reader.u16();
  const otherData = reader.bytes(reader.u16() ?? Number.POSITIVE_INFINITY);
  if (algorithmName === undefined || timeSignedSeconds === undefined || fudgeSeconds === undefined) return undefined;
  if (mac === undefined || originalId === undefined || error === undefined || otherData === undefined) return undefined;
  if (reader.remaining > 0) return undefined;
  return { keyName, algorithmName, timeSignedSeconds, fudgeSeconds, mac, originalId, error, otherData, offset };
}
