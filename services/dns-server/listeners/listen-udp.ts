import type { RemoteInfo } from "node:dgram";
import { isIPv6 } from "node:net";
import { UDPServer } from "dns2";
import { UDP_PAYLOAD_OCTETS } from "../../core/dns/message.ts";
import type { HostPort } from "../../platform/config/config-values.ts";
import { Client } from "../message/client.ts";
import { DEFER, DROP, type Pipeline } from "../pipeline.ts";
import type { AuthorisedResponder } from "../transfer/authorised-responder.ts";
import { MAX_DEFERRED } from "./udp-worker-messages.ts";

export interface UdpListenerOptions {
  readonly pipeline: Pipeline;
  /** Answers what the pipeline defers. */
  readonly authorised: Pick<AuthorisedResponder, "answer">;
  readonly nowSeconds: () => number;
}

export interface UdpListener {
  stop(): Promise<void>;
}

/** What the kernel is asked to hold for us while we are busy. */
const RECEIVE_BUFFER_OCTETS = 4 * 1024 * 1024;

/** Opens the portable UDP listener: dns2's server on this thread. Rejects when the address cannot be had. */
export async function listenUdp(address: HostPort, options: UdpListenerOptions): Promise<UdpListener> {
  const server = new OctetServer(isIPv6(address.host) ? "udp6" : "udp4", options);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.bind({ address: address.host, port: address.port }, () => {
      server.off("error", reject);
      resolve();
    });
  });
  // Such as an unreachable client: nobody waits for that answer.
  server.on("error", () => {});
  enlargeReceiveBuffer(server);
  return { stop: () => new Promise((resolve) => server.close(() => resolve())) };
}

/** dns2's UDP server with its decoding left out: the octets go to the pipeline as they come. */
class OctetServer extends UDPServer {
  readonly #pipeline: Pipeline;
  readonly #authorised: UdpListenerOptions["authorised"];
  readonly #nowSeconds: () => number;
  readonly #client = new Client();
  readonly #response = Buffer.alloc(UDP_PAYLOAD_OCTETS);
  #deferred = 0;

  constructor(type: "udp4" | "udp6", options: UdpListenerOptions) {
    super({ type });
    this.#pipeline = options.pipeline;
    this.#authorised = options.authorised;
    this.#nowSeconds = options.nowSeconds;
  }

  override handle(packet: Buffer, remote: RemoteInfo): void {
    // Port 0 cannot be answered, and the kernel would say so by an exception.
    if (remote.port === 0) return;
    this.#client.setAddress(remote.address);
    const length = this.#pipeline.respond(packet, packet.length, this.#response, this.#client, this.#nowSeconds());
    if (length === DROP) return;
    if (length === DEFER) {
      void this.#answerDeferred(Uint8Array.from(packet), remote);
      return;
    }
    // Copied, as the next answer goes into the same octets before this one has left.
    this.send(Buffer.from(this.#response.subarray(0, length)), remote.port, remote.address, () => {});
  }

  async #answerDeferred(packet: Uint8Array, remote: RemoteInfo): Promise<void> {
    if (this.#deferred >= MAX_DEFERRED) return;
    this.#deferred += 1;
    const client = new Client();
    client.setAddress(remote.address);
    await this.#authorised.answer(packet, client, async (message) => {
      this.send(message, remote.port, remote.address, () => {});
      return true;
    });
    this.#deferred -= 1;
  }
}

function enlargeReceiveBuffer(server: UDPServer): void {
  try {
    server.setRecvBufferSize(RECEIVE_BUFFER_OCTETS);
  } catch {
    // The system allows less; its default serves as well, with less room for bursts.
  }
}
