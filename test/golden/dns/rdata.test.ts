import { describe, expect, it } from "vitest";
import { checkRdataWire, formatRdata, parseRdata } from "../../../services/core/dns/rdata/rdata.ts";
import { typeCode } from "../../../services/core/dns/rr-types.ts";
import { accepted, hex, nameOf } from "../../unit/core/dns/support.ts";
import golden from "./rdata.json" with { type: "json" };

describe(`RDATA as ${golden.maker} has it`, () => {
  const origin = nameOf(golden.origin);

  it.each(golden.rdata.map(({ type, text, hex }) => [type, text, hex] as const))("%s %s", (mnemonic, text, octets) => {
    const type = typeCode(mnemonic)!;
    expect(hex(accepted(parseRdata(type, text, origin, "master-file")))).toBe(octets);
    const rdata = Buffer.from(octets, "hex");
    expect(checkRdataWire(type, rdata).ok).toBe(true);
    expect(hex(accepted(parseRdata(type, formatRdata(type, rdata), undefined, "master-file")))).toBe(octets);
  });
});
