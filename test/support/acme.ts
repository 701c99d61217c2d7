import { execFileSync } from "node:child_process";
import { createSocket, type Socket } from "node:dgram";
import { mkdtempSync, rmSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort, startPeer } from "./peers-processes.ts";

/** A certificate authority that issues for whoever puts the right TXT record into a zone. */
export interface AcmeAuthority {
  /** Of its directory. */
  readonly url: string;
  /** What its listener has, signed by itself. */
  readonly certificate: string;
  /** PEM of the root that its certificates lead to. */
  root(): Promise<string>;
  /** For files of its clients. */
  readonly folder: string;
  readonly log: () => string;
  stop(): Promise<void>;
}

/** A record is looked for so long after the client has said that it is there: name servers have it a moment after the database. */
const LOOK_AFTER_MS = 1_000;

/** Starts `pebble`, which asks this name server. */
export async function startAcme(nameServer: { readonly host: string; readonly port: number }): Promise<AcmeAuthority> {
  const folder = mkdtempSync(join(tmpdir(), "palomar-acme-"));
  const relay = await relayDns(nameServer);
  const [port, management] = [await freePort(), await freePort()];
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"];
  const files = ["-keyout", join(folder, "key.pem"), "-out", join(folder, "cert.pem")];
  execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", ...subject, ...files], {
    stdio: "ignore",
  });
  const pebble = await startPeer("pebble", port, (own) => ({
    files: {
      "pebble.json": JSON.stringify({
        pebble: {
          ...{ listenAddress: `127.0.0.1:${port}`, managementListenAddress: `127.0.0.1:${management}` },
          ...{ certificate: join(folder, "cert.pem"), privateKey: join(folder, "key.pem"), httpPort: 1, tlsPort: 1 },
        },
      }),
    },
    command: [
      ...["env", "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0"],
      ...["pebble", "-config", join(own, "pebble.json"), "-dnsserver", relay.address],
    ],
  }));
  return {
    url: `https://127.0.0.1:${port}/dir`,
    certificate: join(folder, "cert.pem"),
    folder,
    root: () => readText(`https://127.0.0.1:${management}/roots/0`),
    log: pebble.log,
    stop: async () => {
      await pebble.stop();
      relay.socket.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function readText(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { rejectUnauthorized: false }, async (response) => {
      let text = "";
      for await (const chunk of response) text += chunk;
      resolve(text);
    });
    sent.on("error", reject);
    sent.end();
  });
}

/** Whether it answers yet. */
export function isReady({ url }: AcmeAuthority): Promise<boolean> {
  return new Promise((resolve) => {
    const sent = request(url, { rejectUnauthorized: false }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    sent.on("error", () => resolve(false));
    sent.end();
  });
}

async function relayDns({ host, port }: { readonly host: string; readonly port: number }) {
  const socket: Socket = createSocket("udp4");
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  socket.on("message", (query, from) => {
    setTimeout(() => {
      const asking = createSocket("udp4");
      asking.on("message", (answer) => {
        socket.send(answer, from.port, from.address);
        asking.close();
      });
      asking.send(query, port, host);
    }, LOOK_AFTER_MS);
  });
  return { socket, address: `127.0.0.1:${socket.address().port}` };
}
