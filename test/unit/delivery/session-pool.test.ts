import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, test } from "vitest";
import type { SourcePlace } from "../../../services/delivery/routing/source-pools.ts";
import { SessionPool, type SourceGate } from "../../../services/delivery/session-pool.ts";
import type { SmtpPeer } from "../../../services/platform/smtp/client.ts";

const TIMEOUTS = { connectMs: 60_000, greetingMs: 60_000, commandMs: 60_000 };
const anywhere: SourcePlace = {
  pool: "default",
  sources: ["system"],
  hasToken: () => true,
  takeToken: () => true,
  pick: () => undefined,
  leave() {},
};

const open: SourceGate = { mayUse: () => true, mayOpen: () => true, opened: () => () => {} };

test("of several servers the words of one that refused are told, not that another is away", async () => {
  const busy = createServer((socket) => socket.on("error", () => {}).end("421 4.3.2 busy\r\n"));
  await once(busy.listen(0, "127.0.0.1"), "listening");
  const { port } = busy.address() as AddressInfo;
  const peer = (at: number): SmtpPeer => ({ host: "127.0.0.1", port: at, name: "localhost", tls: "never" });
  const pool = new SessionPool({ client: { hostname: "localhost", timeouts: TIMEOUTS }, idleMs: 500 });
  const opened = await pool.acquire({ key: "a", peers: [peer(1), peer(port), peer(1)] }, anywhere, open);
  busy.close();
  expect(opened).toMatchObject({
    ok: false,
    error: { failure: { kind: "reply", reply: { code: 421, lines: ["busy"] } }, path: { source: "127.0.0.1" } },
  });
});
