import { useEffect, useRef, useState } from "preact/hooks";

interface MessageFrameProps {
  readonly title: string;
  readonly html: string;
}

/**
 * A message as its recipient sees it. An empty sandbox allows no script, no form and no way out; the console's policy
 * loads nothing from elsewhere.
 */
export function MessageFrame({ title, html }: MessageFrameProps) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [hasFocus, setHasFocus] = useState(false);
  // `:focus` does not hold for a frame that has the focus: its own document has it. The window is told instead.
  useEffect(() => {
    const judge = () => setHasFocus(document.activeElement === frame.current);
    const events = ["blur", "focus"] as const;
    for (const event of events) addEventListener(event, judge);
    return () => {
      for (const event of events) removeEventListener(event, judge);
    };
  }, []);
  return (
    <iframe
      ref={frame}
      class={hasFocus ? "message-frame focused" : "message-frame"}
      title={title}
      sandbox=""
      srcdoc={html}
    />
  );
}
