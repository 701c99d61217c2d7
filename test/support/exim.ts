import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { connect } from "node:net";
import { EXIM } from "./mail-relays.ts";
import { freePort, type Peer, startPeer } from "./peers-processes.ts";
import { eventually } from "./stack.ts";

export const eximMissing = EXIM === undefined ? "needs Debian's exim4-daemon-light in /opt/exim4" : undefined;

/** Debian's Exim, which takes mail and drops it, so much of each address as its `ratelimit` lets pass. */
export interface LimitedExim extends Peer {
  /** Lets so many recipients pass in a period, from now on. */
  limit(recipients: number): void;
}

/** @param periodSeconds over which Exim measures a rate */
export async function startLimitedExim(recipients: number, periodSeconds: number): Promise<LimitedExim> {
  let limitFile = "";
  const peer = await startPeer("exim", await freePort(), (folder, port) => {
    limitFile = `${folder}/limit`;
    return {
      files: { "exim.conf": configuration(folder, port, periodSeconds), limit: String(recipients) },
      command: [EXIM!, "-C", `${folder}/exim.conf`, "-bdf"],
    };
  });
  await eventually(
    () => isListening(peer.port),
    (listening) => listening,
    60_000,
  );
  return {
    ...peer,
    limit: (changed) => writeFileSync(limitFile, String(changed)),
  };
}

function configuration(folder: string, port: number, periodSeconds: number): string {
  return `exim_path = ${EXIM}
exim_user = root
exim_group = root
never_users =
keep_environment =
spool_directory = ${folder}
log_file_path = ${folder}/%slog
primary_hostname = mx.example.net
local_interfaces = 127.0.0.1
daemon_smtp_ports = ${port}
tls_advertise_hosts =
chunking_advertise_hosts =
host_lookup =
rfc1413_hosts =
smtp_accept_max = 200
smtp_accept_queue_per_connection = 0
acl_smtp_mail = accept
acl_smtp_rcpt = check_rcpt
acl_smtp_data = check_data
log_selector = -all
begin acl
check_rcpt:
  defer message = 4.7.28 too much mail from $sender_host_address, try again in 5 seconds
        ratelimit = \${readfile{${folder}/limit}{}} / ${periodSeconds}s / leaky / per_rcpt / $sender_host_address
  accept
check_data:
  discard
`;
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
