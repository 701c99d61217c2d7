import { freePort, isInstalled, type Peer, startPeer } from "./peers-processes.ts";
import { eventually } from "./stack.ts";

export const isClamavInstalled = isInstalled("clamd");
/** What the one signature of the test's database finds. */
export const TEST_VIRUS = "palomar-test-virus-6fe1f3a0";

/** The real clamd with a database of one signature: Debian's packages bring none. */
export async function startClamd(): Promise<Peer> {
  const port = await freePort();
  const peer = await startPeer("clamd", port, (folder) => ({
    files: {
      // Name, any kind of file, anywhere in it, its octets.
      "palomar.ndb": `Palomar.Test:0:*:${Buffer.from(TEST_VIRUS).toString("hex")}\n`,
      "clamd.conf": `DatabaseDirectory ${folder}\nTCPSocket ${port}\nTCPAddr 127.0.0.1\nForeground yes\nDisableCertCheck yes\n`,
    },
    command: ["clamd", "--config-file", `${folder}/clamd.conf`],
  }));
  await eventually(
    async () => peer.log(),
    (log) => log.includes("Self checking"),
    60_000,
  );
  return peer;
}
