import { describe, expect, it } from "vitest";
import { formatRdata } from "../../../../services/core/dns/rdata/rdata.ts";
import { TYPE } from "../../../../services/core/dns/rr-types.ts";
import { decodeSoaRdata, encodeSoaRdata } from "../../../../services/core/dns/soa.ts";
import { nameOf } from "./support.ts";

const soa = {
  mname: nameOf("ns1.example.org."),
  rname: nameOf("first\\.last.example.org."),
  serial: 4_294_967_295,
  refresh: 7200,
  retry: 900,
  expire: 1_209_600,
  minimum: 300,
};

describe("SOA", () => {
  it("comes back as it was", () => {
    const rdata = encodeSoaRdata(soa);
    expect(decodeSoaRdata(rdata)).toEqual(soa);
    expect(formatRdata(TYPE.SOA, rdata)).toBe(
      "ns1.example.org. first\\.last.example.org. 4294967295 7200 900 1209600 300",
    );
  });

  it("throws on octets that are no SOA", () => {
    const rdata = encodeSoaRdata(soa);
    for (const length of [0, 5, 30, rdata.length - 1])
      expect(() => decodeSoaRdata(rdata.subarray(0, length))).toThrow();
    expect(() => decodeSoaRdata(Buffer.concat([rdata, Buffer.of(0)]))).toThrow();
  });
});
