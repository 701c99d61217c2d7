import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A way to PostgreSQL on which a statement can be met. */
export interface StatementGate {
  /** The database by this way. */
  readonly url: string;
  /** Stops the next prepared statement of this name before the server has it, and with it its connection. */
  stopNext(name: string): MetStatement & { letGo(): void };
  /** Breaks the connection over which the next prepared statement of this name comes. */
  breakAt(name: string): MetStatement;
  /** The server does the next statement of this name, or text where it has no name; its connection breaks before the answer. */
  loseAnswer(name: string): MetStatement;
  close(): void;
}

export interface MetStatement {
  hasCome(): boolean;
}

interface Watch {
  /** As it stands in the messages that prepare and run a statement: with the octet that ends it. */
  readonly name: Buffer;
  meet(client: Socket, upstream: Socket): void;
}

const LONGEST_NAME = 100;

/** Whether a name ends in these octets; it may have begun in those before them. */
function endsIn(octets: Buffer, name: Buffer, before: Buffer): boolean {
  return Buffer.concat([before.subarray(1 - name.length), octets]).includes(name);
}

/** Opens a way to the database of a URL. */
export async function openStatementGate(url: string): Promise<StatementGate> {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  let watch: Watch | undefined;

  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    for (const [socket, other] of [[client, upstream] as const, [upstream, client] as const]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
    upstream.pipe(client);
    let before = Buffer.alloc(0);
    client.on("data", (octets: Buffer) => {
      const met = watch && endsIn(octets, watch.name, before) ? watch : undefined;
      before = Buffer.concat([before, octets]).subarray(-LONGEST_NAME);
      if (!met) return void upstream.write(octets);
      watch = undefined;
      client.pause().unshift(octets);
      met.meet(client, upstream);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const way = new URL(url);
  way.hostname = "127.0.0.1";
  way.port = String((server.address() as AddressInfo).port);

  /** @returns what tells whether the statement has come */
  function meet(name: string, act: Watch["meet"]): () => boolean {
    let hasCome = false;
    watch = {
      name: Buffer.from(`${name}\0`),
      meet: (client, upstream) => {
        hasCome = true;
        act(client, upstream);
      },
    };
    return () => hasCome;
  }

  return {
    url: way.href,
    stopNext: (name) => {
      let stopped: Socket | undefined;
      const hasCome = meet(name, (client) => (stopped = client));
      return { hasCome, letGo: () => stopped?.resume() };
    },
    breakAt: (name) => ({ hasCome: meet(name, (client) => client.destroy()) }),
    loseAnswer: (name) => ({
      hasCome: meet(name, (client, upstream) => {
        upstream
          .unpipe(client)
          .resume()
          .once("data", () => client.destroy());
        client.resume();
      }),
    }),
    close: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
