import { describe, expect, it } from "vitest";
import { formatDomainName } from "../../../../services/core/dns/name.ts";
import { WireReader } from "../../../../services/core/dns/wire-reader.ts";
import { WireWriter } from "../../../../services/core/dns/wire-writer.ts";
import { hex, nameOf } from "./support.ts";

describe("WireWriter", () => {
  it("grows, and patches what it wrote", () => {
    const out = new WireWriter(1);
    out.u8(1);
    out.u16(0x0203);
    out.u32(0x04050607);
    out.u48(0x08090a0b0c0d);
    out.bytes(Uint8Array.of(14, 15));
    out.patchU16(1, 0xffff);
    expect(hex(out.finish())).toBe("01ffff0405060708090a0b0c0d0e0f");
  });

  it("compresses against any suffix, whatever its case, and keeps the case of what it writes", () => {
    const out = new WireWriter();
    out.compressedName(nameOf("www.Example.org."));
    out.compressedName(nameOf("mail.EXAMPLE.ORG."));
    out.compressedName(nameOf("WWW.example.org."));
    out.compressedName(nameOf("."));
    out.compressedName(nameOf("org."));
    expect(hex(out.finish())).toBe("03777777074578616d706c65036f726700" + "046d61696cc004" + "c000" + "00" + "c00c");
  });

  it("makes no target that a pointer does not reach", () => {
    const out = new WireWriter();
    out.bytes(new Uint8Array(0x3ffe));
    out.compressedName(nameOf("a.b."));
    const second = out.length;
    out.compressedName(nameOf("a.b."));
    expect(out.length - second).toBe(2);
    out.compressedName(nameOf("b."));
    // "b." started at 0x4000, out of reach.
    expect(hex(out.finish().subarray(second))).toBe(`fffe${"016200"}`);
  });

  it("forgets targets that are cut off", () => {
    const out = new WireWriter();
    out.compressedName(nameOf("a.b."));
    out.compressedName(nameOf("c.b."));
    out.truncate(5);
    out.compressedName(nameOf("c.b."));
    expect(hex(out.finish())).toBe("0161016200" + "0163c002");
  });
});

/** The root, and so many pointers, each to the one before. */
function chainOf(pointers: number): string {
  const chain = Array.from({ length: pointers }, (_, index) => (0xc000 + Math.max(0, 2 * index - 1)).toString(16));
  return `00${chain.join("")}`;
}

describe("WireReader", () => {
  it("reads numbers and stops at the end", () => {
    const reader = new WireReader(Buffer.from("01ffff0405060708090a0b0c0d0e", "hex"));
    expect([reader.u8(), reader.u16(), reader.u32(), reader.u48()]).toEqual([1, 0xffff, 0x04050607, 0x08090a0b0c0d]);
    expect(reader.u16()).toBeUndefined();
    expect(reader.u8()).toBe(14);
    expect([reader.u8(), reader.u32(), reader.u48(), reader.bytes(1)]).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
    expect(reader.bytes(0)).toHaveLength(0);
  });

  it.each([
    ["without pointer", "016101620000", 0, "a.b.", 5],
    ["with a pointer", "0162000161c000", 3, "a.b.", 7],
    ["with a chain of pointers", "0162000161c0000163c003", 7, "c.a.b.", 11],
    ["that is only a pointer", "016200c000", 3, "b.", 5],
    ["that points to the root", "000161c000", 1, "a.", 5],
    ["with a chain of 127 pointers", chainOf(127), 2 * 127 - 1, ".", 2 * 127 + 1],
  ])("reads a name %s", (_, octets, offset, expected, end) => {
    const reader = new WireReader(Buffer.from(octets, "hex"), offset);
    expect(formatDomainName(reader.name()!)).toBe(expected);
    expect(reader.offset).toBe(end);
  });

  it.each([
    ["a pointer to itself", "c000", 0],
    ["a pointer forward", "c002016100", 0],
    ["a pointer into its own labels", "0161c000", 0],
    ["two pointers at each other", "c002c000", 2],
    ["a pointer past the end", "016100c0", 3],
    ["label type 01", "4161", 0],
    ["label type 10", "8161", 0],
    ["an end too early", "0361", 0],
    ["no root", "0161", 0],
    ["nothing", "", 0],
    ["a chain of 128 pointers", chainOf(128), 2 * 128 - 1],
    ["256 octets", `${"0161".repeat(127)}016100`, 0],
    ["256 octets by way of a pointer", `${"0161".repeat(120)}00${"0161".repeat(8)}c000`, 241],
  ])("refuses a name with %s", (_, octets, offset) => {
    expect(new WireReader(Buffer.from(octets, "hex"), offset).name()).toBeUndefined();
  });
});
