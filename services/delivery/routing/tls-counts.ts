import { type AppliedSts, judgeTls, type TlsSession, tlsPolicyOf } from "../../core/mail/reports/tls-session.ts";
import type { SeenTls, SmtpPeer } from "../../platform/smtp/client.ts";
import { allowsExchanger } from "./mta-sts.ts";

/** A session with a destination's exchanger, as reports about TLS count it. */
export function tlsSessionOf(
  destination: string,
  sts: AppliedSts | undefined,
  peer: Pick<SmtpPeer, "name" | "dane">,
  { evidence, address, source }: SeenTls,
): TlsSession {
  const demand = { dane: peer.dane, sts, isListed: sts === undefined || allowsExchanger(sts, peer.name) };
  const came = judgeTls(demand, evidence);
  return { destination, ...tlsPolicyOf(demand), exchanger: peer.name, address, source, ...came };
}
