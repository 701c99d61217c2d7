import { useCallback, useLayoutEffect, useRef, useState } from "preact/hooks";

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
  const judge = useCallback(() => setHasFocus(document.activeElement === frame.current), []);
  // `:focus` does not hold for a frame that has the focus: its own document has it. The window is told instead, from the
  // moment on at which the frame is there: the Tab key may be quicker than an effect.
  useLayoutEffect(() => {
    const events = ["blur", "focus"] as const;
    for (const event of events) addEventListener(event, judge);
    return () => {
      for (const event of events) removeEventListener(event, judge);
    };
  }, [judge]);
  return (
    <iframe
      ref={frame}
      class={hasFocus ? "message-frame focused" : "message-frame"}
      title={title}
      sandbox=""
      srcdoc={html}
      onLoad={judge}
    />
  );
}
