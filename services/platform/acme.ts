import { unlessAborted } from "./deadline.ts";

/** What an order of a certificate needs (RFC 8555). */
export interface CertificateOrder {
  /** URL of the authority's directory. */
  readonly directory: string;
  /** Our account there: its key as PEM, and its URL once there is one. */
  readonly account: { readonly keyPem: string; readonly url: string | undefined };
  /** A-labels. */
  readonly host: string;
  /**
   * Makes the authority see a TXT value at `_acme-challenge` of the host, before it resolves (RFC 8555 §8.4). It heeds the
   * signal, and is always waited for.
   */
  prove(value: string): Promise<void>;
  /** Ends the wait for the authority, and for its seeing the proof. */
  readonly signal: AbortSignal;
}

/** A certificate as it was issued. */
export interface IssuedCertificate {
  /** PEM, its own first. */
  readonly chain: string;
  readonly keyPem: string;
  readonly accountUrl: string;
}

/** The authority is asked again after so long, and so often. */
const PATIENCE = { backoffAttempts: 12, backoffMin: 1_000, backoffMax: 8_000 } as const;

/** Makes the key of an account. @returns PEM */
export async function makeAccountKey(): Promise<string> {
  const { crypto } = await import("acme-client");
  return (await crypto.createPrivateEcdsaKey()).toString();
}

/**
 * Orders a certificate with a new key, proving by the DNS that the host is ours to speak for. The account is made where it
 * has no URL; whoever sets a directory agrees to its terms.
 * @throws what the authority, or the proof, said; as soon as the signal says so, and the proof is no longer being made
 */
export async function orderCertificate(wanted: CertificateOrder): Promise<IssuedCertificate> {
  const { signal } = wanted;
  signal.throwIfAborted();
  let proving: Promise<void> | undefined;
  const prove = (value: string) => {
    proving = wanted.prove(value);
    return proving;
  };
  try {
    return await unlessAborted(converse({ ...wanted, prove }), signal, () => {
      throw signal.reason;
    });
  } finally {
    await proving?.catch(() => {});
  }
}

async function converse({ directory, account, host, prove, signal }: CertificateOrder): Promise<IssuedCertificate> {
  // Few deployments order any, and its modules are many.
  const { Client, crypto } = await import("acme-client");
  const known = account.url === undefined ? {} : { accountUrl: account.url };
  const client = new Client({ directoryUrl: directory, accountKey: account.keyPem, ...known, ...PATIENCE });
  if (account.url === undefined) await client.createAccount({ termsOfServiceAgreed: true });
  const order = await client.createOrder({ identifiers: [{ type: "dns", value: host }] });
  for (const authorization of await client.getAuthorizations(order)) {
    if (authorization.status === "valid") continue;
    const challenge = authorization.challenges.find(({ type }) => type === "dns-01");
    if (challenge === undefined) throw new Error(`${directory} takes no proof by DNS for ${host}`);
    const value = await client.getChallengeKeyAuthorization(challenge);
    signal.throwIfAborted();
    await prove(value);
    await client.completeChallenge(challenge);
    await client.waitForValidStatus(challenge);
  }
  const [key, csr] = await crypto.createCsr({ altNames: [host] }, await crypto.createPrivateEcdsaKey());
  const chain = await client.getCertificate(await client.finalizeOrder(order, csr));
  return { chain, keyPem: key.toString(), accountUrl: client.getAccountUrl() };
}
