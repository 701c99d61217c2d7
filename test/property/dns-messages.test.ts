import { describe, expect, it } from "vitest";
import { decodeMessage, encodeMessage } from "../../services/core/dns/message.ts";
import { nameFromLabels } from "../../services/core/dns/name.ts";
import { findTsig, TsigSigner, verifyRequest } from "../../services/core/dns/tsig.ts";
import { WireReader } from "../../services/core/dns/wire-reader.ts";
import { WireWriter } from "../../services/core/dns/wire-writer.ts";
import golden from "../golden/dns/messages.json" with { type: "json" };
import { fc } from "../support/property.ts";
import { accepted, hex, nameOf } from "../unit/core/dns/support.ts";

const seeds = golden.messages.map((message) => Buffer.from(message.hex, "hex"));
const key = { name: nameOf("key.example."), algorithm: "hmac-sha256", secret: Buffer.alloc(32, 1) } as const;

/** A true message with octets changed, put in, or cut off. */
const mutated = fc
  .tuple(
    fc.constantFrom(...seeds),
    fc.array(fc.tuple(fc.nat(400), fc.nat(255)), { maxLength: 6 }),
    fc.option(fc.nat(400)),
    fc.uint8Array({ maxLength: 4 }),
  )
  .map(([seed, changes, cut, tail]) => {
    const octets = Buffer.concat([seed.subarray(0, cut ?? seed.length), tail]);
    for (const [offset, value] of changes) if (offset < octets.length) octets[offset] = value;
    return new Uint8Array(octets);
  });

describe("hostile octets", () => {
  it("are refused or read, never thrown at; what is read can be written and read again", () => {
    fc.assert(
      fc.property(fc.oneof(mutated, fc.uint8Array({ maxLength: 120 })), (octets) => {
        const decoded = decodeMessage(octets);
        if (!decoded.ok) return;
        expect(decodeMessage(encodeMessage(decoded.value))).toEqual(decoded);
      }),
      { numRuns: 3000 },
    );
  });

  it("are never taken for signed", () => {
    fc.assert(
      fc.property(mutated, fc.boolean(), (octets, sign) => {
        const message = sign && octets.length >= 12 ? new TsigSigner(key).sign(octets, 1_800_000_000) : octets;
        const verdict = verifyRequest(message, () => ({ ...key, secret: Buffer.alloc(32, 2) }), 1_800_000_000);
        expect(verdict.kind).not.toBe("valid");
        findTsig(octets);
      }),
      { numRuns: 1500 },
    );
  });

  it("in one place of a signed message break the signature", () => {
    const signed = new TsigSigner(key).sign(seeds[0]!, 1_800_000_000);
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: signed.length - 1 }),
        fc.integer({ min: 1, max: 255 }),
        (offset, change) => {
          const message = signed.slice();
          message[offset]! ^= change;
          const verdict = verifyRequest(message, () => key, 1_800_000_000);
          // The case of names is no part of what is signed (RFC 8945 §4.3.3).
          if (verdict.kind === "valid") expect(hex(message).toLowerCase()).not.toBe(hex(signed));
          if (verdict.kind === "valid") expect(change).toBe(0x20);
        },
      ),
      { numRuns: 1000 },
    );
  });
});

describe("compression", () => {
  const name = fc
    .array(fc.constantFrom("a", "B", "c", "longer-label"), { maxLength: 10 })
    .map((labels) => accepted(nameFromLabels(labels.map((text) => Buffer.from(text)))));

  it("gives back every name, wherever it stands", () => {
    fc.assert(
      fc.property(fc.array(name, { maxLength: 20 }), fc.nat(0x4010), (names, start) => {
        const out = new WireWriter();
        out.bytes(new Uint8Array(start));
        for (const each of names) out.compressedName(each);
        const reader = new WireReader(out.finish(), start);
        for (const each of names) expect(reader.name()?.key).toBe(each.key);
        expect(reader.remaining).toBe(0);
      }),
    );
  });
});
