import { createSocket } from "node:dgram";
import { connect } from "node:net";
import * as dnsPacket from "dns-packet";

export type DnsAnswer = dnsPacket.DecodedPacket;

/** One question by UDP or TCP, encoded and decoded by a foreign implementation. */
export function askDns(
  server: string,
  name: string,
  type: string,
  transport: "udp" | "tcp" = "udp",
): Promise<DnsAnswer> {
  const [host, port] = server.split(":") as [string, string];
  const query: dnsPacket.Packet = {
    type: "query",
    id: Math.floor(Math.random() * 65_536),
    questions: [{ name, type: type as dnsPacket.RecordType }],
  };
  return transport === "udp" ? askUdp(host, Number(port), query) : askTcp(host, Number(port), query);
}

export function rcodeOf(answer: DnsAnswer): string {
  return (answer as DnsAnswer & { rcode: string }).rcode;
}

/** Owner-independent text of the answer section's data. */
export function dataOf(answer: DnsAnswer): unknown[] {
  return (answer.answers ?? []).map((record) => ("data" in record ? record.data : undefined));
}

function askUdp(host: string, port: number, query: dnsPacket.Packet): Promise<DnsAnswer> {
  return new Promise((resolve, reject) => {
    const socket = createSocket("udp4");
    const late = setTimeout(() => {
      socket.close();
      reject(new Error(`no answer from ${host}:${port} by UDP`));
    }, 5_000);
    socket.on("message", (octets) => {
      clearTimeout(late);
      socket.close();
      resolve(dnsPacket.decode(octets));
    });
    socket.send(dnsPacket.encode(query), port, host);
  });
}

function askTcp(host: string, port: number, query: dnsPacket.Packet): Promise<DnsAnswer> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, host);
    let received = Buffer.alloc(0);
    socket.setTimeout(5_000, () => socket.destroy(new Error(`no answer from ${host}:${port} by TCP`)));
    socket.on("error", reject);
    socket.on("data", (chunk) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) return;
      socket.end();
      resolve(dnsPacket.decode(received.subarray(2)));
    });
    socket.write(dnsPacket.streamEncode(query));
  });
}
