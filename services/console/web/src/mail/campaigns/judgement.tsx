import { useState } from "preact/hooks";
import { useAction } from "../../action.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { Section } from "../../components/page.tsx";
import { formatNumber } from "../../format.ts";
import { request } from "../../http.ts";
import { texts } from "../../texts.ts";

interface Verdict {
  readonly judge: string;
  readonly kind: "judged" | "absent" | "failed";
  readonly score?: number;
  readonly authenticated?: Readonly<Record<string, boolean>>;
  readonly objections?: readonly { readonly rule: string; readonly points: number; readonly words: string }[];
}

/** What the spam filters that are installed would say of a message; asked on demand, as they take their time. */
export function Judgement({ path }: { readonly path: string }) {
  const words = texts().mail.judge;
  const [verdicts, setVerdicts] = useState<readonly Verdict[]>();
  const judge = useAction(
    () => request<{ verdicts: readonly Verdict[] }>("POST", path, { body: {} }),
    (answer) => setVerdicts(answer.verdicts),
  );
  return (
    <Section
      title={words.title}
      hint={words.hint}
      actions={
        <Button small icon="check" busy={judge.busy} onClick={() => void judge.run()}>
          {words.run}
        </Button>
      }
    >
      {verdicts?.every(({ kind }) => kind === "absent") && <p class="hint">{words.none}</p>}
      {verdicts && (
        <ul class="check-list">
          {verdicts.map((verdict) => (
            <VerdictItem key={verdict.judge} verdict={verdict} />
          ))}
        </ul>
      )}
    </Section>
  );
}

function VerdictItem({
  verdict: { judge, kind, score, authenticated = {}, objections = [] },
}: {
  readonly verdict: Verdict;
}) {
  const words = texts().mail.judge;
  if (kind !== "judged") {
    return (
      <li>
        <strong>{judge}</strong> <Badge tone={kind === "failed" ? "warn" : "quiet"}>{words[kind]}</Badge>
      </li>
    );
  }
  return (
    <li>
      <span>
        <strong>{judge}</strong>{" "}
        {score !== undefined && <Badge tone={score < 1 ? "good" : "bad"}>{words.points(formatNumber(score, 1))}</Badge>}{" "}
        {Object.entries(authenticated).map(([method, passes]) => (
          <Badge key={method} tone={passes ? "good" : "bad"}>
            {method.toUpperCase()} {passes ? words.passes : words.fails}
          </Badge>
        ))}
      </span>
      {objections.length === 0 && <p class="hint">{words.nothing}</p>}
      {objections.map(({ rule, points, words: said }) => (
        <p key={rule} class="hint">
          {formatNumber(points, 1)} <span class="mono">{rule}</span> {said}
        </p>
      ))}
    </li>
  );
}
