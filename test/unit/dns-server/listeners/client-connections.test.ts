import { createServer, Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ClientConnections } from "../../../../services/dns-server/listeners/client-connections.ts";

const LIMITS = { connections: 100, connectionsPerClient: 100, limitLoopback: false };
let port = 1_024;

/** A listener without a network. */
function listenerOf(limits: Partial<typeof LIMITS>) {
  const server = createServer();
  const connections = new ClientConnections(server, { ...LIMITS, ...limits });
  const connect = (remoteAddress = "192.0.2.1") => {
    const socket = new Socket();
    for (const [name, value] of Object.entries({ remoteAddress, remotePort: port++, localAddress: "192.0.2.53" })) {
      Object.defineProperty(socket, name, { value });
    }
    server.emit("connection", socket);
    return socket;
  };
  const begin = (socket: Socket) => connections.placeOf(socket)!.begin();
  const end = (socket: Socket) => connections.placeOf(socket)!.end();
  const ask = (socket: Socket) => {
    begin(socket);
    end(socket);
  };
  return { connect, begin, end, ask };
}

it("an IPv6 /64 is one client, and so is an IPv4 address, mapped or not", () => {
  const { connect } = listenerOf({ connectionsPerClient: 2 });
  const isAdmitted = (remoteAddress: string) => !connect(remoteAddress).destroyed;
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

describe("where all the connections that there may be are open, a new one", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["performance"] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  const closedAmong = (sockets: readonly Socket[]) =>
    sockets.flatMap(({ destroyed }, index) => (destroyed ? index : []));

  it("takes the place of one that never asked anything, the oldest first", () => {
    const { connect, ask } = listenerOf({ connections: 4 });
    const sockets = Array.from({ length: 4 }, () => connect());
    ask(sockets[0]!);
    vi.advanceTimersByTime(5_000);
    sockets.push(connect());
    expect(closedAmong(sockets)).toEqual([1]);
    sockets.push(connect());
    expect(closedAmong(sockets)).toEqual([1, 2]);
  });

  it("of none that has had less than five seconds to ask, where others are idle", () => {
    const { connect, ask } = listenerOf({ connections: 4 });
    const sockets = Array.from({ length: 4 }, () => connect());
    for (const socket of sockets) ask(socket);
    for (let newcomers = 0; newcomers < 4; newcomers += 1) {
      sockets.push(connect());
      vi.advanceTimersByTime(1_200);
    }
    expect(closedAmong(sockets)).toEqual([0, 1, 2, 3]);
    sockets.push(connect());
    expect(closedAmong(sockets)).toEqual([0, 1, 2, 3, 4]);
  });

  it("else of the one that has been idle longest, while the silent ones have just come", () => {
    const { connect, ask } = listenerOf({ connections: 4 });
    const sockets = Array.from({ length: 3 }, () => connect());
    for (const index of [2, 0, 1, 2]) ask(sockets[index]!);
    vi.advanceTimersByTime(5_000);
    sockets.push(connect(), connect());
    expect(closedAmong(sockets)).toEqual([0]);
    sockets.push(connect(), connect());
    expect(closedAmong(sockets)).toEqual([0, 1, 2]);
    // All are new: the first of them had the most time.
    sockets.push(connect());
    expect(closedAmong(sockets)).toEqual([0, 1, 2, 3]);
  });

  it("is closed where answers are made or sent over all of them, unless it is so for long", () => {
    const { connect, begin, end, ask } = listenerOf({ connections: 3 });
    const sockets = [connect(), connect(), connect()];
    begin(sockets[0]!);
    begin(sockets[0]!);
    begin(sockets[1]!);
    begin(sockets[2]!);
    end(sockets[0]!);
    vi.advanceTimersByTime(4_000);
    sockets.push(connect());
    expect(closedAmong(sockets)).toEqual([3]);
    end(sockets[1]!);
    begin(sockets[1]!);
    vi.advanceTimersByTime(1_000);
    sockets.push(connect());
    ask(sockets[4]!);
    expect(closedAmong(sockets)).toEqual([0, 3]);
    // What is idle goes first, and what has had a rest stays.
    sockets.push(connect());
    expect(closedAmong(sockets)).toEqual([0, 3, 4]);
    sockets.push(connect());
    expect(closedAmong(sockets)).toEqual([0, 2, 3, 4]);
  });

  it("of a client beyond its own share takes nobody's", () => {
    const { connect } = listenerOf({ connections: 3, connectionsPerClient: 2 });
    const sockets = ["192.0.2.1", "192.0.2.1", "192.0.2.2"].map((address) => connect(address));
    vi.advanceTimersByTime(5_000);
    sockets.push(connect("192.0.2.1"));
    expect(closedAmong(sockets)).toEqual([3]);
    sockets.push(connect("192.0.2.3"));
    expect(closedAmong(sockets)).toEqual([0, 3]);
  });
});
