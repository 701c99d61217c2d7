import { ok, type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import { isHttpUrl, parseUrl } from "../../core/url.ts";
import { withTime } from "../deadline.ts";
import { type FetchSurroundings, openPinnedAgent } from "./pinned-agent.ts";

interface FetchOptions extends FetchSurroundings {
  /** Redirects that are followed, 5 unless said. */
  readonly mostRedirects?: number;
  /** For everything together, look-ups and redirects included; 10 s unless said. */
  readonly deadlineMs?: number;
}

/** What is fetched; both are text in UTF-8. */
export type FetchedKind = "html" | "text";

/** Of a subject a line counts; a policy has 64 KiB at most (RFC 8461 §3.2). */
const MOST_KIBIBYTES: Readonly<Record<FetchedKind, number>> = { html: 5 * 1024, text: 64 };
const DEADLINE_MS = 10_000;
const MOST_REDIRECTS = 5;
const TYPES: Readonly<Record<FetchedKind, RegExp>> = {
  html: /^(text\/(html|plain)|application\/xhtml\+xml)$/,
  text: /^text\/[a-z0-9.+-]+$/,
};

/**
 * Fetches a text that a client named by URL. 301 and 302 are followed to a 200. Each hop's host is resolved here and
 * the connection goes to the very address that was judged, so that no name, spelling, redirect or second answer of a
 * DNS server leads to a private, loopback, link-local or metadata address. An empty text is a failure: nobody means to send it.
 * @returns refused with the reason
 */
export async function fetchText(
  url: string,
  kind: FetchedKind,
  surroundings: FetchOptions,
): Promise<Result<string, Sentence>> {
  const { deadlineMs = DEADLINE_MS, mostRedirects = MOST_REDIRECTS } = surroundings;
  const endsAtMs = performance.now() + deadlineMs;
  return withTime({ limitMs: deadlineMs, stop: surroundings.signal }, async (signal) => {
    let target = new URL(url);
    try {
      for (let hop = 0; hop <= mostRedirects; hop++) {
        const answer = await fetchHop(target, { ...surroundings, kind, endsAtMs, signal });
        if (!answer.ok) return answer;
        if ("text" in answer.value) return ok(answer.value.text);
        target = answer.value.location;
      }
      return refuse(sentence("redirects"));
    } catch (error) {
      return refuse(signal.aborted || performance.now() >= endsAtMs ? sentence("timeout") : describeError(error));
    }
  });
}

interface Hop extends FetchSurroundings {
  readonly kind: FetchedKind;
  readonly endsAtMs: number;
  readonly signal: AbortSignal;
}

async function fetchHop(target: URL, hop: Hop): Promise<Result<{ text: string } | { location: URL }, Sentence>> {
  const agent = await openPinnedAgent(target, hop, Math.max(1, Math.ceil(hop.endsAtMs - performance.now())));
  if (!agent.ok) return agent;
  try {
    const { request } = await import("undici");
    const { statusCode, headers, body } = await request(target, {
      dispatcher: agent.value,
      signal: hop.signal,
      headers: {
        accept: "text/html, text/plain, */*;q=0.1",
        "accept-encoding": "identity",
        "user-agent": "Palomar",
        ...credentialsOf(target),
      },
    });
    if (statusCode === 301 || statusCode === 302) return readLocation(target, headers.location);
    if (statusCode !== 200) return refuse(sentence("http-status", { status: statusCode }));
    const unfit = judgeContent(String(headers["content-type"] ?? ""), hop.kind);
    if (unfit !== undefined) return refuse(unfit);
    if (headers["content-encoding"] !== undefined) return refuse(sentence("content-encoding"));
    return await readText(body, MOST_KIBIBYTES[hop.kind]);
  } finally {
    await agent.value.destroy();
  }
}

/** What a URL has of user name and password (RFC 7617): a redirect to a path of its server keeps them, one to a URL does not. */
function credentialsOf({ username, password }: URL): { readonly authorization?: string } {
  if (username === "" && password === "") return {};
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { authorization: `Basic ${Buffer.from(credentials).toString("base64")}` };
}

function readLocation(target: URL, location: string | string[] | undefined): Result<{ location: URL }, Sentence> {
  const next = typeof location === "string" ? parseUrl(location, target) : undefined;
  if (next === undefined) return refuse(sentence("redirect-nowhere"));
  return isHttpUrl(next.href) ? ok({ location: next }) : refuse(sentence("redirect-scheme"));
}

function judgeContent(contentType: string, kind: FetchedKind): Sentence | undefined {
  if (contentType === "") return undefined;
  const [type = "", ...parameters] = contentType.toLowerCase().split(";");
  if (!TYPES[kind].test(type.trim())) return sentence("content-type");
  const charset = /^\s*charset\s*=\s*"?([^"\s]*)/.exec(parameters.find((p) => /^\s*charset/.test(p)) ?? "")?.[1];
  return charset === undefined || /^(utf-?8|us-ascii)$/.test(charset) ? undefined : sentence("no-utf8");
}

async function readText(
  body: AsyncIterable<Buffer>,
  mostKibibytes: number,
): Promise<Result<{ text: string }, Sentence>> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > mostKibibytes * 1024) {
      const most = mostKibibytes < 1024 ? `${mostKibibytes} KiB` : `${mostKibibytes / 1024} MiB`;
      return refuse(sentence("larger-than", { most }));
    }
    chunks.push(chunk);
  }
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
    if (text.trim() === "") return refuse(sentence("empty-text"));
    return text.includes("\0") ? refuse(sentence("no-text")) : ok({ text });
  } catch {
    return refuse(sentence("no-utf8"));
  }
}

/** Node's codes of what goes wrong with connections. */
const CONNECTION_ERRORS = {
  ECONNREFUSED: "connection-refused",
  ECONNRESET: "connection-lost",
  EPIPE: "connection-lost",
  EHOSTUNREACH: "host-unreachable",
  ENETUNREACH: "host-unreachable",
} as const;

/** What an error of a request says. */
export function describeError(error: unknown): Sentence {
  const { code: stated, message } = error as NodeJS.ErrnoException;
  // The client's own word for it.
  const code = stated === "UND_ERR_SOCKET" ? "ECONNRESET" : stated;
  if (code === undefined) return sentence("as-stated", { text: message });
  if (/^(?:\w*CERT\w*|UNABLE_TO_\w+)$/.test(code)) return sentence("certificate", { error: code });
  const known = CONNECTION_ERRORS[code as keyof typeof CONNECTION_ERRORS];
  return known === undefined ? sentence("as-stated", { text: code }) : sentence(known, { error: code });
}
