import type { Problem } from "../http.ts";
import { describeProblem } from "../problem-words.ts";
import { texts } from "../texts.ts";
import { Icon } from "./icon.tsx";

interface ProblemNoteProps {
  readonly problem: Problem | undefined;
  /** Offered where asking again may help. */
  readonly retry?: () => void;
}

/** A refusal in its place on the page; nothing when there is none. */
export function ProblemNote({ problem, retry }: ProblemNoteProps) {
  if (!problem) return null;
  return (
    <div class="note bad" role="alert">
      <Icon name="warning" />
      <span>{describeProblem(problem)}</span>
      {retry && (
        <button type="button" class="button small" onClick={retry}>
          {texts().shell.retry}
        </button>
      )}
    </div>
  );
}
