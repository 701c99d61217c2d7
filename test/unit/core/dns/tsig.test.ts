import { describe, expect, it } from "vitest";
import { RCODE } from "../../../../services/core/dns/rr-types.ts";
import {
  appendTsigError,
  findTsig,
  TSIG_ALGORITHMS,
  type TsigKey,
  TsigSigner,
  TsigVerifier,
  tsigRecordLength,
  verifyRequest,
} from "../../../../services/core/dns/tsig.ts";
import { accepted, nameOf } from "./support.ts";

const now = 1_800_000_000;
const key: TsigKey = { name: nameOf("transfer.example.org."), algorithm: "hmac-sha256", secret: Buffer.alloc(32, 7) };
const query = Buffer.from(`1234000000010000000000000${"7"}6578616d706c65036f72670000fc0001`, "hex");
const signed = new TsigSigner(key).sign(query, now);

function verdictOf(message: Uint8Array, atSeconds = now) {
  return verifyRequest(message, (name) => (name.key === key.name.key ? key : undefined), atSeconds);
}

/** The message with one octet changed. */
function withOctet(message: Uint8Array, offset: number, value: number): Uint8Array {
  const changed = message.slice();
  changed[offset] = value;
  return changed;
}

/** The signed query with its MAC cut to so many octets. */
function withMacOctets(octets: number): Uint8Array {
  const record = accepted(findTsig(signed))!;
  const macStart = signed.length - 6 - record.mac.length;
  const cut = Buffer.concat([signed.subarray(0, macStart + octets), signed.subarray(macStart + record.mac.length)]);
  cut.writeUInt16BE(octets, macStart - 2);
  const rdataLengthAt = record.offset + key.name.wire.length + 8;
  cut.writeUInt16BE(cut.readUInt16BE(rdataLengthAt) - (record.mac.length - octets), rdataLengthAt);
  return cut;
}

describe("verifyRequest", () => {
  it.each(TSIG_ALGORITHMS.map((algorithm) => [algorithm] as const))("accepts what %s signed", (algorithm) => {
    const ofAlgorithm = { ...key, algorithm };
    const message = new TsigSigner(ofAlgorithm).sign(query, now);
    expect(verifyRequest(message, () => ofAlgorithm, now)).toMatchObject({ kind: "valid", key: ofAlgorithm });
    expect(message.length - query.length).toBe(tsigRecordLength(ofAlgorithm));
  });

  it("has a word for a message without TSIG", () => {
    expect(verdictOf(query)).toEqual({ kind: "unsigned" });
  });

  it("accepts a message whose ID was changed on the way", () => {
    expect(verdictOf(withOctet(signed, 0, 0x99))).toMatchObject({ kind: "valid", record: { originalId: 0x1234 } });
  });

  it("does not mind the case of the key's name", () => {
    const shouting = new TsigSigner({ ...key, name: nameOf("TRANSFER.Example.ORG.") }).sign(query, now);
    expect(verdictOf(shouting)).toMatchObject({ kind: "valid" });
  });

  it.each([
    ["an unknown key", new TsigSigner({ ...key, name: nameOf("other.") }).sign(query, now), "BADKEY"],
    ["another algorithm", new TsigSigner({ ...key, algorithm: "hmac-sha512" }).sign(query, now), "BADKEY"],
    ["another secret", new TsigSigner({ ...key, secret: Buffer.alloc(32, 8) }).sign(query, now), "BADSIG"],
    ["a changed question", withOctet(signed, 14, 0x58), "BADSIG"],
    ["a changed flag", withOctet(signed, 2, 1), "BADSIG"],
    ["a time long past", new TsigSigner(key).sign(query, now - 301), "BADTIME"],
    ["a time to come", new TsigSigner(key).sign(query, now + 301), "BADTIME"],
    // Key, MAC, time: the first that is wrong is said.
    ["another secret and time", new TsigSigner({ ...key, secret: Buffer.of(1) }).sign(query, 0), "BADSIG"],
  ])("refuses %s", (_, message, error) => {
    expect(verdictOf(message)).toMatchObject({ kind: "invalid", error });
  });

  it("allows the clocks to be 300 seconds apart", () => {
    expect(verdictOf(signed, now + 300).kind).toBe("valid");
    expect(verdictOf(signed, now - 300).kind).toBe("valid");
    expect(verdictOf(signed, now + 301).kind).toBe("invalid");
  });

  it.each([
    [32, "valid"],
    [31, "valid"],
    [16, "valid"],
    [15, "malformed"],
    [1, "malformed"],
    [0, "malformed"],
  ])("calls a MAC of %d octets %s", (octets, kind) => {
    expect(verdictOf(withMacOctets(octets)).kind).toBe(kind);
  });

  it("refuses a truncated MAC that is wrong", () => {
    const truncated = withMacOctets(16);
    expect(verdictOf(withOctet(truncated, truncated.length - 7, 0))).toMatchObject({
      kind: "invalid",
      error: "BADSIG",
    });
  });

  it.each([
    ["two TSIG records", new TsigSigner(key).sign(signed, now)],
    ["a TSIG record that is not the last", appendRecord(signed)],
    ["a TSIG record among the answers", withOctet(withOctet(signed, 7, 1), 11, 0)],
    ["class IN", withOctet(signed, query.length + key.name.wire.length + 3, 1)],
    ["a TTL", withOctet(signed, query.length + key.name.wire.length + 7, 1)],
    ["data cut short", withOctet(signed, query.length + key.name.wire.length + 9, 10)],
    ["half a header", signed.subarray(0, 9)],
  ])("calls %s malformed", (_, message) => {
    expect(verdictOf(message).kind).toBe("malformed");
  });
});

describe("answers", () => {
  const requestMac = accepted(findTsig(signed))!.mac;
  const answer = withOctet(query, 2, 0x84);

  it("are checked with the MAC of the request", () => {
    const message = new TsigSigner(key, requestMac).sign(answer, now);
    expect(new TsigVerifier(key, requestMac).verify(message, now).ok).toBe(true);
    expect(new TsigVerifier(key, Buffer.alloc(32)).verify(message, now).ok).toBe(false);
    expect(new TsigVerifier({ ...key, name: nameOf("a.") }, requestMac).verify(message, now).ok).toBe(false);
    expect(new TsigVerifier(key, requestMac).verify(message, now + 301).ok).toBe(false);
    expect(new TsigVerifier(key, requestMac).verify(answer, now).ok).toBe(false);
  });

  it("of several messages hang together", () => {
    const signer = new TsigSigner(key, requestMac);
    const messages = [1, 2, 3].map(() => signer.sign(answer, now));
    const verifier = new TsigVerifier(key, requestMac);
    for (const message of messages) expect(verifier.verify(message, now).ok).toBe(true);
    const other = new TsigVerifier(key, requestMac);
    expect(other.verify(messages[0]!, now).ok).toBe(true);
    expect(other.verify(messages[2]!, now).ok).toBe(false);
  });

  it("may end only on a signed message, and not leave more than 99 without", () => {
    const verifier = new TsigVerifier(key, requestMac);
    expect(verifier.isComplete).toBe(false);
    expect(verifier.verify(new TsigSigner(key, requestMac).sign(answer, now), now).ok).toBe(true);
    expect(verifier.isComplete).toBe(true);
    for (let count = 0; count < 99; count += 1) expect(verifier.verify(answer, now).ok).toBe(true);
    expect(verifier.isComplete).toBe(false);
    expect(verifier.verify(answer, now).ok).toBe(false);
  });
});

describe("appendTsigError", () => {
  const answer = withOctet(query, 3, RCODE.NOTAUTH);

  it.each([
    ["BADKEY", new TsigSigner({ ...key, name: nameOf("other.") }).sign(query, now), RCODE.BADKEY],
    ["BADSIG", withOctet(signed, 2, 1), RCODE.BADSIG],
  ])("answers %s without MAC", (_, message, error) => {
    const verdict = verdictOf(message);
    if (verdict.kind !== "invalid") throw new Error(verdict.kind);
    const record = accepted(findTsig(appendTsigError(answer, verdict, now)))!;
    expect(record).toMatchObject({
      error,
      originalId: 0x1234,
      timeSignedSeconds: now,
      keyName: verdict.record.keyName,
    });
    expect(record.mac).toHaveLength(0);
    expect(record.otherData).toHaveLength(0);
  });

  it("answers BADTIME signed, with the client's time and ours", () => {
    const late = now + 1000;
    const verdict = verdictOf(signed, late);
    if (verdict.kind !== "invalid") throw new Error(verdict.kind);
    const message = appendTsigError(answer, verdict, late);
    const record = accepted(findTsig(message))!;
    expect(record).toMatchObject({ error: RCODE.BADTIME, timeSignedSeconds: now });
    expect(Buffer.from(record.otherData).readUIntBE(0, 6)).toBe(late);
    // The client checks the MAC as of any answer, and then reads the error.
    expect(new TsigVerifier(key, accepted(findTsig(signed))!.mac).verify(message, now)).toEqual({
      ok: false,
      error: { message: `the answer carries TSIG error ${RCODE.BADTIME}` },
    });
  });
});

/** The message with one more record behind it. */
function appendRecord(message: Uint8Array): Uint8Array {
  const more = Buffer.concat([message, Buffer.from("00000100010000000000040a000001", "hex")]);
  more.writeUInt16BE(more.readUInt16BE(10) + 1, 10);
  return more;
}
