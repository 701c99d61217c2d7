/** What an order of a certificate needs (RFC 8555). */
export interface CertificateOrder {
  /** URL of the authority's directory. */
  readonly directory: string;
  /** Our account there: its key as PEM, and its URL once there is one. */
  readonly account: { readonly keyPem: string; readonly url: string | undefined };
  /** A-labels. */
  readonly host: string;
  /** Makes the authority see a TXT value at `_acme-challenge` of the host, before it resolves (RFC 8555 §8.4). */
  prove(value: string): Promise<void>;
  /** Ends the wait for the authority. */
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
 * @throws what the authority, or the proof, said, and as soon as the signal says so
 */
export async function orderCertificate(wanted: CertificateOrder): Promise<IssuedCertificate> {
  const { signal } = wanted;
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
    converse(wanted).then(resolve, reject);
  });
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
