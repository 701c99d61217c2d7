import { CLASS, RCODE, TYPE } from "../../core/dns/rr-types.ts";
import type { Query } from "../message/query.ts";
import { HEADER_OCTETS } from "../message/query.ts";
import type { Response } from "../message/response.ts";

export interface ServerIdentity {
  /** Answer to `version.bind` and `version.server`; null to refuse. */
  readonly version: string | null;
  /** Answer to `id.server` and `hostname.bind`; null to refuse. */
  readonly id: string | null;
}

/** Answers class CH from the operator's settings (RFC 4892); whatever is not set is refused. */
export class ChaosAnswerer {
  readonly #texts: ReadonlyMap<string, Uint8Array>;

  constructor({ version, id }: ServerIdentity) {
    const texts = new Map<string, Uint8Array>();
    for (const [names, text] of [
      [["version.bind", "version.server"], version],
      [["id.server", "hostname.bind"], id],
    ] as const) {
      if (text === null) continue;
      for (const name of names) texts.set(name, Buffer.from(text, "utf8").subarray(0, 255));
    }
    this.#texts = texts;
  }

  answer(query: Query, response: Response): boolean {
    const text = this.#texts.get(nameText(query));
    if (text === undefined || (query.type !== TYPE.TXT && query.type !== TYPE.ANY)) {
      response.rcode = RCODE.REFUSED;
      return true;
    }
    if (response.position + 12 + text.length + 1 > response.limit) return false;
    response.authoritative = true;
    response.writeUint16(0xc000 | HEADER_OCTETS);
    response.writeUint16(TYPE.TXT);
    response.writeUint16(CLASS.CH);
    response.writeUint32(0);
    response.writeUint16(text.length + 1);
    response.octets[response.position++] = text.length;
    response.octets.set(text, response.position);
    response.position += text.length;
    response.counts[0] = 1;
    return true;
  }
}

function nameText({ name }: Query): string {
  const labels: string[] = [];
  for (let label = 0; label < name.labelCount; label += 1) {
    const start = name.startOf(label);
    labels.push(Buffer.from(name.octets.subarray(start + 1, start + 1 + name.octets[start]!)).toString("latin1"));
  }
  return labels.join(".");
}
