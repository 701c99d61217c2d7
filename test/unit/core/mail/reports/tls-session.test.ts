import { describe, expect, test } from "vitest";
import {
  type AppliedSts,
  judgeTls,
  type TlsDemand,
  type TlsEvidence,
  tlsPolicyOf,
} from "../../../../../services/core/mail/reports/tls-session.ts";

const sts = (mode: AppliedSts["mode"], changes: Partial<AppliedSts> = {}): TlsDemand => ({
  sts: { mode, mx: ["*.example.org"], ...changes },
  isListed: true,
});
const NONE: TlsDemand = { isListed: true };
const DANE: TlsDemand = {
  dane: { records: [{ usage: 3, selector: 1, matchingType: 1, association: Buffer.of(0xab, 0xcd) }], names: [] },
  sts: { mode: "enforce", mx: [] },
  isListed: false,
};
const encrypted = (certificate: string): TlsEvidence => ({ kind: "encrypted", certificate });
const failed = (code: string): TlsEvidence => ({ kind: "failed", code });

describe("what a session comes to", () => {
  test.each([
    ["without a policy any certificate will do", NONE, encrypted("DEPTH_ZERO_SELF_SIGNED_CERT"), ""],
    ["without TLS", NONE, { kind: "not-offered" }, "starttls-not-supported"],
    ["a handshake that fails", NONE, failed("ERR_SSL_NO_SHARED_CIPHER"), "validation-failure"],
    ["a policy that holds", sts("enforce"), encrypted("valid"), ""],
    ["another name", sts("enforce"), failed("ERR_TLS_CERT_ALTNAME_INVALID"), "certificate-host-mismatch"],
    ["a certificate that is over", sts("enforce"), failed("CERT_HAS_EXPIRED"), "certificate-expired"],
    ["nobody vouches", sts("enforce"), failed("SELF_SIGNED_CERT_IN_CHAIN"), "certificate-not-trusted"],
    ["a policy that is tried", sts("testing"), encrypted("CERT_HAS_EXPIRED"), "certificate-expired"],
    ["a policy that is off", sts("none"), encrypted("CERT_HAS_EXPIRED"), ""],
    ["another exchanger", { ...sts("testing"), isListed: false }, encrypted("valid"), "validation-failure"],
    ["no policy to be had", sts("none", { failure: "sts-policy-invalid" }), encrypted("valid"), "sts-policy-invalid"],
    ["DANE comes first", DANE, encrypted("dane"), ""],
    ["DANE that fails", DANE, failed("DANE: the certificate matches no TLSA record"), "validation-failure"],
  ] as const)("%s", (_, demand, evidence, result) => {
    expect(judgeTls(demand, evidence).result).toBe(result);
  });

  test("what a far side made up stays short and printable", () => {
    const { reason } = judgeTls(NONE, failed(`a\r\nb\u{1f600}${"x".repeat(1_000)}`));
    expect(reason).toMatch(/^a b x+$/);
    expect(reason).toHaveLength(255);
  });
});

test("a policy is told with its words, as many as anybody needs", () => {
  expect(tlsPolicyOf(NONE)).toEqual({ policyType: "no-policy-found", policy: [], policyExchangers: [] });
  expect(tlsPolicyOf(DANE)).toEqual({ policyType: "tlsa", policy: ["3 1 1 abcd"], policyExchangers: [] });
  expect(tlsPolicyOf(sts("testing"))).toEqual({
    policyType: "sts",
    policy: ["version: STSv1", "mode: testing", "mx: *.example.org"],
    policyExchangers: ["*.example.org"],
  });
  const many = tlsPolicyOf(sts("enforce", { mx: Array.from({ length: 5_000 }, () => "x".repeat(5_000)) }));
  expect(JSON.stringify(many).length).toBeLessThan(20_000);
  const whole = { usage: 3, selector: 0, matchingType: 0, association: Buffer.alloc(60_000) };
  const dane = { records: Array.from({ length: 1_000 }, () => whole), names: [] };
  expect(JSON.stringify(tlsPolicyOf({ dane, isListed: true })).length).toBeLessThan(10_000);
});
