import { connect } from "node:net";
import * as dnsPacket from "dns-packet";
import { exchangeDatagram } from "./datagrams.ts";

export type DnsAnswer = dnsPacket.DecodedPacket;

/** One question by UDP or TCP, encoded and decoded by a foreign implementation; by UDP it is put until it is answered. */
export async function askDns(
  server: string,
  name: string,
  type: string,
  transport: "udp" | "tcp" = "udp",
): Promise<DnsAnswer> {
  const [host, port] = server.split(":") as [string, string];
  const query = queryFor(name, type);
  if (transport === "tcp") return askTcp(host, Number(port), query);
  return dnsPacket.decode(await exchangeDatagram(dnsPacket.encode(query), { host, port: Number(port) }));
}

/** As {@link askDns} by UDP, for a client that gives up after a few tries of 5 s, where silence is an outage. */
export async function askDnsTimes(sendings: number, server: string, name: string, type: string): Promise<DnsAnswer> {
  const [host, port] = server.split(":") as [string, string];
  const query = dnsPacket.encode(queryFor(name, type));
  return dnsPacket.decode(await exchangeDatagram(query, { host, port: Number(port) }, { sendings, everyMs: 5_000 }));
}

function queryFor(name: string, type: string): dnsPacket.Packet {
  return {
    type: "query",
    id: Math.floor(Math.random() * 65_536),
    questions: [{ name, type: type as dnsPacket.RecordType }],
  };
}

export function rcodeOf(answer: DnsAnswer): string {
  return (answer as DnsAnswer & { rcode: string }).rcode;
}

/** Owner-independent text of the answer section's data. */
export function dataOf(answer: DnsAnswer): unknown[] {
  return (answer.answers ?? []).map((record) => ("data" in record ? record.data : undefined));
}

function askTcp(host: string, port: number, query: dnsPacket.Packet): Promise<DnsAnswer> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, host);
    let received = Buffer.alloc(0);
    const silence = () => new Error(`no answer from ${host}:${port} by TCP`);
    socket.setTimeout(30_000, () => socket.destroy(silence()));
    socket.on("error", reject);
    socket.on("close", () => reject(silence()));
    socket.on("data", (chunk) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) return;
      socket.end();
      resolve(dnsPacket.decode(received.subarray(2)));
    });
    socket.write(dnsPacket.streamEncode(query));
  });
}
