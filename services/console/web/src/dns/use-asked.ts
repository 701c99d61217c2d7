import { useEffect, useState } from "preact/hooks";
import type { Answer } from "../http.ts";

/**
 * Asks again whenever what is asked changes, and keeps the newest answer.
 * @param asked undefined: nothing; it has to say all that the question depends on
 */
export function useAsked<T>(
  asked: string | undefined,
  ask: (asked: string) => Promise<Answer<T>>,
): Answer<T> | undefined {
  const [answer, setAnswer] = useState<Answer<T>>();
  // The question is written anew at each drawing; what is asked says when it differs.
  useEffect(() => {
    if (asked === undefined) return setAnswer(undefined);
    let isNewest = true;
    void ask(asked).then((answered) => {
      if (isNewest) setAnswer(answered);
    });
    return () => {
      isNewest = false;
    };
  }, [asked]);
  return answer;
}
