import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { MailboxWatcher } from "../../services/bounce/mailbox-watcher.ts";
import { saveMailbox } from "../../services/store/mail/inbound/mailboxes.ts";
import { type MailStack, startMailStack } from "../support/mail-stack.ts";
import { eventually } from "../support/stack.ts";

const NOTICES = 200;

let stack: MailStack;
let server: Server;

beforeAll(async () => {
  stack = await startMailStack([]);
});
afterAll(async () => {
  server?.close();
  await stack?.stop();
});

test("a flood of notices, while the mailbox is polled, is one thing to do", async () => {
  const { db, keyRing } = stack.context;
  const imap = await serveNotices();
  // One that cannot be watched is nothing to the others.
  await saveMailbox(db, keyRing, { ...MAILBOX, name: "a", port: imap.port });
  await db("mailboxes").update({ password_sealed: "of another secret" });
  await saveMailbox(db, keyRing, { ...MAILBOX, port: imap.port });
  const longAgo = new Date(0);
  const polledNow = { polled_at: longAgo, lease_until: new Date(Date.now() + 3_600_000) };
  await db("mailboxes").update({ ...polledNow, next_poll_at: new Date(Date.now() + 3_600_000) });

  const asked = vi.spyOn(db.client, "acquireConnection");
  const watcher = new MailboxWatcher(stack.context, lookUpLoopback);
  try {
    await imap.allHeard;
    const before = asked.mock.calls.length;
    await eventually(
      async () => asked.mock.calls.length,
      (count) => count >= before + 5,
    );
    expect(asked.mock.calls.length).toBeLessThan(NOTICES / 2);

    await db("mailboxes").update({ lease_until: null });
    const due = await eventually(
      () => db("mailboxes").where("next_poll_at", "<=", db.fn.now()),
      (found) => found.length > 0,
    );
    expect(due).toHaveLength(1);
  } finally {
    await watcher.stop();
  }
});

const MAILBOX = {
  name: "flooded",
  host: "127.0.0.1",
  security: "none",
  username: "u",
  password: "p",
  folder: "INBOX",
  processed: null,
  feedback: "fbl@example.net",
} as const;

/** An IMAP server that says to whoever idles that one message after the other has come, and hangs up. */
async function serveNotices(): Promise<{ readonly port: number; readonly allHeard: Promise<unknown> }> {
  let heard: (value: unknown) => void;
  const allHeard = new Promise((resolve) => {
    heard = resolve;
  });
  server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("close", heard);
    socket.write("* OK [CAPABILITY IMAP4rev1 IDLE] ready\r\n");
    socket.on("data", (chunk) => {
      for (const line of chunk.toString("latin1").split("\r\n").filter(Boolean)) answer(socket, line);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { port: (server.address() as AddressInfo).port, allHeard };
}

function answer(socket: Socket, line: string): void {
  const [tag, verb = ""] = line.split(" ");
  if (verb === "IDLE") {
    const notices = Array.from({ length: NOTICES }, (_, index) => `* ${index + 1} EXISTS\r\n`);
    socket.end(`+ idling\r\n${notices.join("")}* BYE\r\n`);
    return;
  }
  if (verb === "LIST") socket.write(`* LIST () "/" INBOX\r\n`);
  if (verb === "EXAMINE") socket.write("* 0 EXISTS\r\n* OK [UIDVALIDITY 1] valid\r\n* OK [UIDNEXT 1] next\r\n");
  socket.write(`${tag} OK done\r\n`);
}

function lookUpLoopback(
  _host: string,
  _options: unknown,
  done: (error: null, address: string, family: number) => void,
): void {
  done(null, "127.0.0.1", 4);
}
