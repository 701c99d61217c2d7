import type { LookupFunction } from "node:net";
import type { ImapFlow, ImapFlowOptions } from "imapflow";
import type { LeasedMailbox } from "../store/mail/inbound/mailboxes.ts";

/** A message as the mailbox has it. */
export interface MailboxMessage {
  readonly uid: number;
  /** Names it for as long as the mailbox lives (RFC 9051 §2.3.1.1). */
  readonly source: string;
  /** The first of it. */
  readonly octets: Buffer;
  /** Octets of the whole, as the server says before it sends any. */
  readonly size: number;
}

/** How a session with a mailbox's server begins and ends. */
interface MailboxSession {
  readonly lookup: LookupFunction;
  readonly signal: AbortSignal;
}

const CONNECT_MS = 15_000;
const SILENCE_MS = 30_000;
/** While it idles a connection is kept alive this often; servers and gateways drop what is silent for longer. */
const KEEP_ALIVE_MS = 240_000;
const IDLE_AFTER_MS = 100;
/** Of one poll, those included for which there was no room. */
const LOOKED_AT = 2_000;

/**
 * Takes the waiting messages of a mailbox by IMAP, one after the other, oldest first: each is put aside (moved, or
 * flagged as seen) only when `store` has returned, so that a crash between the two at worst takes it twice.
 * @param options.octets what lies beyond is not fetched: a report says what it has to say at its beginning
 * @param store false: there is no room for this one, it stays where it is; others may have it
 * @returns how many were taken
 * @throws when the server refuses, or does not answer
 */
export async function takeMessages(
  mailbox: LeasedMailbox,
  options: MailboxSession & { readonly messages: number; readonly octets: number },
  store: (message: MailboxMessage) => Promise<boolean>,
): Promise<number> {
  const { lookup, signal } = options;
  const client = await openClient(mailbox, { lookup, signal });
  // Without a listener an error of the connection would end the process; it reaches the command that waits as well.
  client.on("error", () => {});
  const giveUp = () => client.close();
  signal.addEventListener("abort", giveUp);
  try {
    await client.connect();
    const opened = await client.mailboxOpen(mailbox.folder);
    const found =
      (await client.search(mailbox.processed === null ? { seen: false } : { all: true }, { uid: true })) || [];
    let taken = 0;
    for (const uid of found.slice(0, LOOKED_AT)) {
      if (taken === options.messages) break;
      signal.throwIfAborted();
      const query = { source: { maxLength: options.octets }, size: true };
      const message = await client.fetchOne(String(uid), query, { uid: true });
      // Somebody else may have removed it meanwhile.
      if (!message || message.source === undefined) continue;
      const { source: octets, size = octets.length } = message;
      const source = `${mailbox.name}/${opened.uidValidity}/${uid}`;
      if (!(await store({ uid, source, octets, size }))) continue;
      await putAside(client, mailbox, uid);
      taken += 1;
    }
    await client.logout();
    return taken;
  } finally {
    signal.removeEventListener("abort", giveUp);
    client.close();
  }
}

/**
 * Keeps a connection open and tells of each message that arrives, and once when it begins, since something may have
 * come before it listened.
 * @returns when the server ends the connection, or at once with false where it does not offer IDLE (RFC 2177)
 * @throws when the server refuses, or does not answer
 */
export async function watchMailbox(
  mailbox: LeasedMailbox,
  { lookup, signal }: MailboxSession,
  onNews: () => void,
): Promise<boolean> {
  const client = await openClient(
    mailbox,
    { lookup, signal },
    {
      socketTimeout: KEEP_ALIVE_MS,
      disableAutoIdle: false,
      autoIdleDelay: IDLE_AFTER_MS,
    },
  );
  client.on("error", () => {});
  client.on("exists", ({ count, prevCount }) => {
    if (count > prevCount) onNews();
  });
  const ended = new Promise<void>((resolve) => client.once("close", resolve));
  const giveUp = () => client.close();
  signal.addEventListener("abort", giveUp);
  try {
    await client.connect();
    if (!client.capabilities.has("IDLE")) return false;
    await client.mailboxOpen(mailbox.folder, { readOnly: true });
    onNews();
    await ended;
    return true;
  } finally {
    signal.removeEventListener("abort", giveUp);
    client.close();
  }
}

/** The library is loaded by who has a mailbox. */
async function openClient(
  { host, port, security, username, password }: LeasedMailbox,
  { lookup, signal }: MailboxSession,
  options: Partial<ImapFlowOptions> = {},
): Promise<ImapFlow> {
  const { ImapFlow } = await import("imapflow");
  signal.throwIfAborted();
  return new ImapFlow({
    host,
    port,
    secure: security === "tls",
    ...(security === "tls" ? {} : { doSTARTTLS: security === "starttls" }),
    auth: { user: username, pass: password },
    // Goes to the socket as it is, encrypted or not.
    tls: { lookup },
    connectionTimeout: CONNECT_MS,
    greetingTimeout: CONNECT_MS,
    socketTimeout: SILENCE_MS,
    disableAutoIdle: true,
    logger: false,
    ...options,
  });
}

async function putAside(client: ImapFlow, { processed }: LeasedMailbox, uid: number): Promise<void> {
  if (processed === null) {
    await client.messageFlagsAdd(String(uid), ["\\Seen"], { uid: true });
    return;
  }
  if (await client.messageMove(String(uid), processed, { uid: true })) return;
  await client.mailboxCreate(processed);
  if (!(await client.messageMove(String(uid), processed, { uid: true }))) {
    throw new Error(`message ${uid} cannot be moved to ${processed}`);
  }
}
