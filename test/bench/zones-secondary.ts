import { createSocket, type Socket } from "node:dgram";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import * as dnsPacket from "dns-packet";

const DEADLINE_MS = 300_000;

/** A secondary server of the benchmark: it acknowledges each NOTIFY (RFC 1996 §3.7) and remembers of which zones it was told. */
export class BenchSecondary {
  readonly #socket: Socket = createSocket("udp4");
  readonly #told = new Set<string>();
  #messages = 0;

  /** @returns `host:port` as ACLs have it */
  async listen(): Promise<string> {
    this.#socket.on("message", (message, { port, address }) => {
      this.#messages += 1;
      this.#told.add(message.toString("latin1", 12, message.indexOf(0, 12)).toLowerCase());
      message[2]! |= 0x80;
      this.#socket.send(message, port, address);
    });
    await new Promise<void>((resolve) => this.#socket.bind(0, "127.0.0.1", resolve));
    this.#socket.setRecvBufferSize(2 ** 20);
    return `127.0.0.1:${this.#socket.address().port}`;
  }

  /** Forgets of what it was told. */
  reset(): void {
    this.#told.clear();
    this.#messages = 0;
  }

  get messages(): number {
    return this.#messages;
  }

  /** Waits until it has been told of so many zones. @returns milliseconds */
  async untilTold(zones: number): Promise<number> {
    const startedAt = performance.now();
    while (this.#told.size < zones) {
      if (performance.now() - startedAt > DEADLINE_MS) throw new Error(`told of ${this.#told.size} of ${zones} zones`);
      await sleep(1);
    }
    return performance.now() - startedAt;
  }

  close(): void {
    this.#socket.close();
  }
}

export interface Transferred {
  readonly ms: number;
  readonly octets: number;
  readonly records: number;
  /** Of the SOA that it begins with. */
  readonly serial: number;
}

/**
 * Transfers a zone: all of it, or what is new since a serial.
 * @param records how many are to come, those of the SOA that it begins and ends with included
 */
export function transferZone(
  address: string,
  name: string,
  { records, serial }: { readonly records: number; readonly serial?: number },
): Promise<Transferred> {
  const [host = "", port] = address.split(":");
  const soa = { mname: ".", rname: ".", serial, refresh: 0, retry: 0, expire: 0, minimum: 0 };
  const question = dnsPacket.streamEncode({
    ...{ type: "query", id: 1, questions: [{ type: serial === undefined ? "AXFR" : "IXFR", name }] },
    ...(serial !== undefined && { authorities: [{ type: "SOA", name, ttl: 0, data: soa as dnsPacket.SoaData }] }),
  });
  return new Promise((resolve, reject) => {
    const startedAt = performance.now();
    const socket = connect(Number(port), host, () => socket.write(question));
    let [octets, answers, newest] = [0, 0, -1];
    let rest: Buffer = Buffer.alloc(0);
    socket.setTimeout(DEADLINE_MS, () => socket.destroy(new Error("the transfer stands still")));
    socket.on("error", reject);
    socket.on("close", () => reject(new Error(`the transfer of ${name} ended after ${answers} records`)));
    socket.on("data", (chunk: Buffer) => {
      octets += chunk.length;
      const data = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      let position = 0;
      while (position + 2 <= data.length && position + 2 + data.readUInt16BE(position) <= data.length) {
        const end = position + 2 + data.readUInt16BE(position);
        const rcode = data[position + 5]! & 0x0f;
        if (rcode !== 0) socket.destroy(new Error(`the transfer of ${name} is refused: ${rcode}`));
        if (newest < 0) newest = serialOf(data.subarray(position + 2, end));
        answers += data.readUInt16BE(position + 2 + 6);
        position = end;
      }
      rest = data.subarray(position);
      if (answers < records) return;
      resolve({ ms: performance.now() - startedAt, octets, records: answers, serial: newest });
      socket.destroy();
    });
  });
}

/** The serial of the SOA that a message begins with: a whole message of many records is not decoded for it. */
function serialOf(message: Buffer): number {
  const question = message.indexOf(0, 12) + 5;
  let place = question;
  while (message[place]! < 0xc0 && message[place] !== 0) place += 1 + message[place]!;
  const fields = place + (message[place] === 0 ? 1 : 2);
  const end = fields + 10 + message.readUInt16BE(fields + 8);
  return message.readUInt32BE(end - 20);
}
