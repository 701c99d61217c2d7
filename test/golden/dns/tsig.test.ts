import { describe, expect, it } from "vitest";
import {
  findTsig,
  type TsigAlgorithm,
  TsigSigner,
  TsigVerifier,
  verifyRequest,
} from "../../../services/core/dns/tsig.ts";
import { accepted, hex, nameOf } from "../../unit/core/dns/support.ts";
import golden from "./tsig.json" with { type: "json" };

describe.each(golden.cases.map((exchange) => [exchange.algorithm, exchange] as const))(
  `%s as ${golden.maker} signs`,
  (algorithm, exchange) => {
    const key = {
      name: nameOf(golden.keyName),
      algorithm: algorithm as TsigAlgorithm,
      secret: Buffer.from(golden.secret, "hex"),
    };
    const request = Buffer.from(exchange.request, "hex");
    const requestMac = Buffer.from(exchange.requestMac, "hex");

    /** The message as it was before it was signed. */
    function unsigned(octets: Buffer): Buffer {
      const message = Buffer.from(octets.subarray(0, accepted(findTsig(octets))!.offset));
      message.writeUInt16BE(message.readUInt16BE(10) - 1, 10);
      return message;
    }

    it("is accepted in a request, in an answer, and in an answer of several messages", () => {
      expect(verifyRequest(request, () => key, golden.timeSeconds)).toMatchObject({ kind: "valid" });
      expect(new TsigVerifier(key, requestMac).verify(Buffer.from(exchange.answer, "hex"), golden.timeSeconds).ok).toBe(
        true,
      );
      const verifier = new TsigVerifier(key, requestMac);
      for (const message of exchange.transfer) {
        expect(verifier.verify(Buffer.from(message, "hex"), golden.timeSeconds)).toEqual({
          ok: true,
          value: undefined,
        });
      }
      expect(verifier.isComplete).toBe(true);
    });

    it("is what comes of signing the same messages", () => {
      const requestSigner = new TsigSigner(key);
      expect(macOf(requestSigner.sign(unsigned(request), golden.timeSeconds))).toBe(exchange.requestMac);
      const answer = Buffer.from(exchange.answer, "hex");
      const answerSigner = new TsigSigner(key, requestSigner.lastMac);
      expect(macOf(answerSigner.sign(unsigned(answer), golden.timeSeconds))).toBe(macOf(answer));
      const transferSigner = new TsigSigner(key, requestMac);
      for (const text of exchange.transfer) {
        const message = Buffer.from(text, "hex");
        expect(macOf(transferSigner.sign(unsigned(message), golden.timeSeconds))).toBe(macOf(message));
      }
    });
  },
);

function macOf(message: Uint8Array): string {
  return hex(accepted(findTsig(message))!.mac);
}
