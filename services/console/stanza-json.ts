import type { Steps } from "../core/steps.ts";

const LINES_A_STEP = 500;

/**
 * The reply with a stanza, in JSON: an ACL for all zones can be one for 100,000, which is too much work for one go.
 * @param shown what the reply has besides `stanza`
 */
export function* stanzaJson(shown: object, lines: Iterable<string>): Steps<Buffer> {
  const pieces = [Buffer.from(`${JSON.stringify(shown).slice(0, -1)},"stanza":"`)];
  let separator = "";
  let portion: string[] = [];
  const endPortion = () => {
    pieces.push(Buffer.from(separator + JSON.stringify(portion.join("\n")).slice(1, -1)));
    separator = "\\n";
    portion = [];
  };
  for (const line of lines) {
    portion.push(line);
    if (portion.length < LINES_A_STEP) continue;
    endPortion();
    yield;
  }
  if (portion.length > 0) endPortion();
  pieces.push(Buffer.from('"}'));
  return Buffer.concat(pieces);
}
