import { generateKeyPairSync } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { makeServerCertificate } from "../support/certificates.ts";
import { postfixMissing, startPostfixRelay } from "../support/mail-relays.ts";
import { freePort, isInstalled, type Peer, startPeer } from "../support/peers-processes.ts";
import { measureSubmission, type SubmissionResult, type SubmissionWay } from "./mail-load.ts";

export interface PostfixLoad {
  readonly messages: number;
  /** One after another. */
  readonly ways: readonly SubmissionWay[];
  readonly sinkPort: number;
  readonly domain: string;
}

/** Why Postfix cannot be measured here; undefined when it can. */
export function whyNoPostfix(): string | undefined {
  return isInstalled("opendkim") ? postfixMissing : "opendkim is not installed";
}

/**
 * A Postfix of our own that signs through OpenDKIM with RSA-2048 and relays to the sink is given what Palomar is given, once
 * before it counts. It takes mail from this machine without AUTH.
 */
export async function measurePostfix({ messages, ways, sinkPort, domain }: PostfixLoad): Promise<SubmissionResult[]> {
  const opendkim = await startOpendkim(domain);
  const postfix = await startPostfixRelay({
    port: sinkPort,
    offersDsn: false,
    milters: [opendkim.port],
    certificate: await makeServerCertificate("postfix.example.net"),
  });
  const untilDelivered = async () => {
    while (postfix.queued() > 0) await sleep(20);
  };
  const server = { host: "127.0.0.1", port: postfix.port };
  const measureWay = (way: SubmissionWay) => measureSubmission(server, { ...way, messages, domain }, untilDelivered);
  try {
    await measureWay(ways[0]!);
    const results: SubmissionResult[] = [];
    for (const way of ways) results.push(await measureWay(way));
    return results;
  } finally {
    await postfix.stop();
    await opendkim.stop();
  }
}

async function startOpendkim(domain: string): Promise<Peer> {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return startPeer("opendkim", await freePort(), (_folder, port) => ({
    files: {
      "dkim.pem": privateKey.export({ type: "pkcs1", format: "pem" }) as string,
      "opendkim.conf": `Mode s
Domain ${domain}
Selector bench
KeyFile dkim.pem
Socket inet:${port}@127.0.0.1
Canonicalization relaxed/relaxed
InternalHosts 127.0.0.1
Background no
RequireSafeKeys no
Syslog no
`,
    },
    command: ["opendkim", "-f", "-x", "opendkim.conf"],
  }));
}
