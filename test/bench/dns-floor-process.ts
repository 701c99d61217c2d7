import { DatagramBatch } from "../../services/dns-server/listeners/datagram-batch.ts";
import { openUdpSocket } from "../../services/dns-server/listeners/linux-sockets.ts";

/** The socket loop of a UDP worker (dns-server/listeners/udp-worker.ts) that sends each query back as its own response. */
const RECEIVE_TIMEOUT_MS = 200;
const RESPONSE_BIT = 0x80;

const address = { octets: Uint8Array.of(127, 0, 0, 1), port: Number(process.argv[2]) };
const batch = new DatagramBatch(openUdpSocket(address, RECEIVE_TIMEOUT_MS), address);
for (;;) {
  const count = batch.receive(true);
  for (let slot = 0; slot < count; slot += 1) {
    const query = batch.received[slot]!.octets;
    const response = batch.nextResponse.octets;
    const length = batch.lengthOf(slot);
    for (let index = 0; index < length; index += 1) response[index] = query[index]!;
    response[2]! |= RESPONSE_BIT;
    batch.queue(slot, length);
  }
  if (count > 0) batch.send();
}
