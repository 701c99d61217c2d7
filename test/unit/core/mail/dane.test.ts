import { createHash, X509Certificate } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { judgeChain, readTlsa, type TlsaRecord, usableTlsa } from "../../../../services/core/mail/dane.ts";
import { makeAuthority, makeServerCertificate } from "../../../support/certificates.ts";

const HOST = "mx.example.org";

let root: X509Certificate;
let own: X509Certificate;
let expired: X509Certificate;
let self: X509Certificate;
beforeAll(async () => {
  const authority = await makeAuthority("Test root");
  const parse = ({ cert }: { cert: string }) => new X509Certificate(cert);
  root = parse(authority);
  own = parse(await makeServerCertificate(HOST, { authority }));
  expired = parse(await makeServerCertificate(HOST, { authority, daysLeft: -1 }));
  self = parse(await makeServerCertificate("other.example.net", { daysLeft: -1 }));
});

function record(usage: number, selector: number, matchingType: number, certificate: X509Certificate): TlsaRecord {
  const selected = selector === 0 ? certificate.raw : certificate.publicKey.export({ type: "spki", format: "der" });
  const association =
    matchingType === 0
      ? selected
      : createHash(matchingType === 1 ? "sha256" : "sha512")
          .update(selected)
          .digest();
  return { usage, selector, matchingType, association };
}
const judge = (records: readonly TlsaRecord[], chain: readonly X509Certificate[], names = [HOST, "example.org"]) =>
  judgeChain({ records, names }, chain, new Date());

describe("DANE-EE", () => {
  test.each([
    [0, 0],
    [0, 1],
    [0, 2],
    [1, 0],
    [1, 1],
    [1, 2],
  ])("matches by selector %i and matching type %i, whatever name and dates", (selector, matchingType) => {
    expect(judge([record(3, selector, matchingType, self)], [self])).toBeUndefined();
    expect(judge([record(3, selector, matchingType, self)], [own, root])).toBe(
      "the certificate matches no TLSA record",
    );
  });

  test("one of several records is enough", () => {
    expect(judge([record(3, 1, 1, root), record(3, 1, 1, own)], [own])).toBeUndefined();
  });
});

describe("DANE-TA", () => {
  test("vouches for what the anchor issued, for one of the names", () => {
    expect(judge([record(2, 0, 1, root)], [own, root])).toBeUndefined();
    expect(judge([record(2, 1, 2, root)], [own, root])).toBeUndefined();
    expect(judge([record(2, 0, 1, root)], [own, root], ["mx.example.net"])).toBe(
      "the certificate is not for mx.example.net",
    );
  });

  test("the anchor may be in the record alone", () => {
    expect(judge([record(2, 0, 0, root)], [own])).toBeUndefined();
    expect(judge([record(2, 0, 1, root)], [own])).toMatch(/does not lead to a trust anchor/);
  });

  test("needs a path that is valid now, and really signed", () => {
    expect(judge([record(2, 0, 1, root)], [expired, root])).toBe("a certificate is not valid now");
    expect(judge([record(2, 0, 1, root)], [self, root])).toMatch(/does not lead to a trust anchor/);
    expect(judge([record(2, 0, 1, own)], [own, root])).toMatch(/does not lead to a trust anchor/);
  });
});

test("PKIX usages, unknown selectors and digests are unusable; the stronger digest decides", () => {
  const lawful = record(3, 1, 1, own);
  const strong = record(3, 1, 2, own);
  const unusable = [0, 1, 4, 255].map((usage) => ({ ...lawful, usage }));
  const unknown = [
    { ...lawful, selector: 2 },
    { ...lawful, matchingType: 3 },
  ];
  expect(usableTlsa([...unusable, ...unknown])).toEqual([]);
  expect(usableTlsa([lawful, ...unusable])).toEqual([lawful]);
  expect(usableTlsa([lawful, strong])).toEqual([strong]);
  expect(usableTlsa([record(2, 1, 1, root), strong])).toHaveLength(2);
});

test("without a usable record any certificate will do, but with one there has to be one", () => {
  expect(judge([], [self])).toBeUndefined();
  expect(judge([record(3, 1, 1, own)], [])).toBe("no certificate was presented");
});

test("RDATA is read, and refused when it is cut short", () => {
  expect(readTlsa(Uint8Array.of(3, 1, 1, 9, 9))).toEqual({
    usage: 3,
    selector: 1,
    matchingType: 1,
    association: Uint8Array.of(9, 9),
  });
  for (const length of [0, 1, 2, 3]) expect(readTlsa(new Uint8Array(length))).toBeUndefined();
});
