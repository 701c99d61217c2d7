import { execFileSync } from "node:child_process";
import { createSocket } from "node:dgram";
import { mkdtempSync, rmSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { decode } from "dns-packet";
import { exchangeDatagram } from "./datagrams.ts";
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

/**
 * How long a record is looked for at most, once the client has said that it is there: name servers have it a moment after the
 * database, and `pebble` waits for two seconds.
 */
const LOOK_FOR_MS = 1_500;
const LOOK_EVERY_MS = 100;
/** Beside it there may be a second one, which comes as late: it is there once nothing has changed for so many looks. */
const LOOKS_ALIKE = 3;

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
      relay.close();
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

async function relayDns(nameServer: { readonly host: string; readonly port: number }) {
  const socket = createSocket("udp4");
  let isClosed = false;
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  socket.on("message", async (query, { port, address }) => {
    const answer = await lookFor(query, nameServer);
    if (answer !== undefined && !isClosed) socket.send(answer, port, address);
  });
  const close = () => {
    isClosed = true;
    socket.close();
  };
  return { close, address: `127.0.0.1:${socket.address().port}` };
}

/** The answer to a question for TXT records once they are there; to others the first one. */
async function lookFor(query: Buffer, nameServer: Parameters<typeof exchangeDatagram>[1]): Promise<Buffer | undefined> {
  const isAwaited = decode(query).questions?.[0]?.type === "TXT";
  const endsAtMs = performance.now() + LOOK_FOR_MS;
  let last: Buffer | undefined;
  for (let alike = 1; ; alike += 1) {
    const answer = await exchangeDatagram(query, nameServer, { everyMs: 300 }).catch(() => undefined);
    if (answer === undefined || last === undefined || !answer.equals(last)) alike = 1;
    last = answer;
    const isThere = answer !== undefined && answersIn(answer) > 0 && alike >= LOOKS_ALIKE;
    if (!isAwaited || isThere || performance.now() >= endsAtMs) return last;
    await sleep(LOOK_EVERY_MS);
  }
}

/** ANCOUNT (RFC 1035 §4.1.1). */
const answersIn = (message: Buffer): number => message.readUInt16BE(6);
