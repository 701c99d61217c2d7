import { createServer, Socket } from "node:net";
import { expect, it } from "vitest";
import { ClientConnections } from "../../../../services/dns-server/listeners/client-connections.ts";

it("an IPv6 /64 is one client, and so is an IPv4 address, mapped or not", () => {
  const server = createServer();
  new ClientConnections(server, { connections: 100, connectionsPerClient: 2, limitLoopback: false });
  const isAdmitted = (remoteAddress: string) => {
    const socket = Object.defineProperty(new Socket(), "remoteAddress", { value: remoteAddress });
    server.emit("connection", socket);
    return !socket.destroyed;
  };
  expect(["2001:db8:0:1::1", "2001:db8:0:1::2", "2001:db8:0:1:ffff::3", "2001:db8:0:2::1"].map(isAdmitted)).toEqual([
    true,
    true,
    false,
    true,
  ]);
  expect(["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1", "192.0.2.2"].map(isAdmitted)).toEqual([
    true,
    true,
    false,
    true,
  ]);
});
