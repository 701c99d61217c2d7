import { generate } from "selfsigned";

export interface TestCertificate {
  readonly cert: string;
  readonly key: string;
}

const DAY_MS = 86_400_000;

/** A certificate authority. */
export function makeAuthority(name: string): Promise<TestCertificate> {
  return make(name, {
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      { name: "keyUsage", keyCertSign: true, cRLSign: true, critical: true },
    ],
  });
}

/** A server's certificate, from an authority or from itself. @param daysLeft negative: it is over */
export function makeServerCertificate(
  host: string,
  options: { readonly authority?: TestCertificate; readonly daysLeft?: number } = {},
): Promise<TestCertificate> {
  const { authority, daysLeft = 30 } = options;
  return make(host, {
    notBeforeDate: new Date(Date.now() - 90 * DAY_MS),
    notAfterDate: new Date(Date.now() + daysLeft * DAY_MS),
    extensions: [{ name: "subjectAltName", altNames: [{ type: 2, value: host }] }],
    ...(authority ? { ca: { key: authority.key, cert: authority.cert } } : {}),
  });
}

async function make(name: string, options: Parameters<typeof generate>[1]): Promise<TestCertificate> {
  const { cert, private: key } = await generate([{ name: "commonName", value: name }], {
    keyType: "ec",
    algorithm: "sha256",
    ...options,
  });
  return { cert, key };
}
