import { ok, type Result, refuse } from "../../core/result.ts";
import { type Sentence, sentence } from "../../core/sentences.ts";
import { withTime } from "../deadline.ts";
import { describeError } from "./fetch-html.ts";
import { type FetchSurroundings, openPinnedAgent } from "./pinned-agent.ts";

const DEADLINE_MS = 10_000;

/**
 * Posts to somebody else's server, JSON unless the headers say otherwise. The host is resolved here, and the connection
 * goes to the very address that was judged: private ones are out of reach unless the operator allows them. Redirects
 * are not followed.
 * @returns the status, or why there is none
 */
export async function postTo(
  url: string,
  { body, headers }: { readonly body: string | Buffer; readonly headers: Readonly<Record<string, string>> },
  surroundings: FetchSurroundings,
): Promise<Result<number, Sentence>> {
  const target = new URL(url);
  const agent = await openPinnedAgent(target, surroundings, DEADLINE_MS);
  if (!agent.ok) return agent;
  return withTime({ limitMs: DEADLINE_MS, stop: surroundings.signal }, async (signal) => {
    try {
      const { request } = await import("undici");
      const answer = await request(target, {
        method: "POST",
        dispatcher: agent.value,
        signal,
        body,
        headers: { "content-type": "application/json", "user-agent": "Palomar", ...headers },
      });
      answer.body.on("error", () => {}).destroy();
      return ok(answer.statusCode);
    } catch (error) {
      return refuse(signal.aborted ? sentence("timeout") : describeError(error));
    } finally {
      await agent.value.destroy();
    }
  });
}
