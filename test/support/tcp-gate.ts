import type { AddressInfo } from "node:net";
import { connect, createServer, type Socket } from "node:net";

/** A way to a server that can be shut: clients then meet what they meet when the server is down. */
export interface TcpGate {
  readonly port: number;
  /** That the server has sent so far. */
  readonly octets: number;
  /** How often clients have sent the text that is counted. */
  readonly times: number;
  shut(): Promise<void>;
  /** To be called when it is shut: clients then get their connections, and nothing over them, until it is shut again. */
  hang(): Promise<void>;
  open(): Promise<void>;
}

/** @param counted a text of clients, which comes in one piece */
export async function openTcpGate(
  target: { readonly host: string; readonly port: number },
  counted?: string,
): Promise<TcpGate> {
  const sockets = new Set<Socket>();
  let octets = 0;
  let times = 0;
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
    return socket;
  };
  let server = createServer(pass);
  function pass(client: Socket): void {
    const upstream = keep(connect(target.port, target.host));
    keep(client).pipe(upstream).pipe(client);
    upstream.on("data", (chunk: Buffer) => {
      octets += chunk.length;
    });
    client.on("data", (chunk: Buffer) => {
      if (counted !== undefined && chunk.includes(counted)) times += 1;
    });
    client.on("close", () => upstream.destroy());
    upstream.on("close", () => client.destroy());
  }
  const listen = (port: number) => new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  await listen(0);
  const { port } = server.address() as AddressInfo;
  return {
    port,
    get octets() {
      return octets;
    },
    get times() {
      return times;
    },
    shut: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
    hang: async () => {
      server = createServer(keep);
      await listen(port);
    },
    open: async () => {
      server = createServer(pass);
      await listen(port);
    },
  };
}
