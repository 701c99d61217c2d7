import { describe, expect, it } from "vitest";
import { decodeMessage, encodeMessage, type Message } from "../../../services/core/dns/message.ts";
import { RCODE, TYPE } from "../../../services/core/dns/rr-types.ts";
import { accepted, hex } from "../../unit/core/dns/support.ts";
import golden from "./messages.json" with { type: "json" };

/** Types whose names the maker compresses although RFC 3597 §4 forbids it. */
const WRONGLY_COMPRESSED: ReadonlySet<number> = new Set([TYPE.SRV, TYPE.NAPTR]);

describe(`messages as ${golden.maker} makes them`, () => {
  it.each(golden.messages.map((message) => [message.name, message.hex] as const))("%s", (_, octets) => {
    const message = read(octets);
    const written = hex(encodeMessage(message));
    if (message.answers.some(({ type }) => WRONGLY_COMPRESSED.has(type))) expect(read(written)).toEqual(message);
    else expect(written).toBe(octets);
  });

  it("have an extended rcode and options", () => {
    const message = read(golden.messages.find(({ name }) => name === "extended rcode and options")!.hex);
    expect(message.rcode).toBe(RCODE.BADVERS);
    expect(message.edns).toMatchObject({ udpPayloadSize: 4096, version: 0, dnssecOk: false });
    expect(message.edns?.options.map(({ code, data }) => [code, data.length])).toEqual([
      [10, 8],
      [3, 0],
    ]);
  });
});

function read(octets: string): Message {
  return accepted(decodeMessage(Buffer.from(octets, "hex")));
}
