import { texts } from "../texts.ts";
import { Button } from "./button.tsx";
import { showToast } from "./toasts.tsx";

/** Puts a text on the clipboard. */
function CopyButton({ text, label }: { readonly text: string; readonly label?: string }) {
  const { copy, copied, copyFailed } = texts().shell;
  const write = async () => {
    try {
      // A page that came over plain HTTP from another machine is given no clipboard.
      await navigator.clipboard.writeText(text);
      showToast(copied);
    } catch {
      showToast(copyFailed, "bad");
    }
  };
  return (
    <Button small icon="copy" onClick={write}>
      {label ?? copy}
    </Button>
  );
}

/** A text to be pasted elsewhere. */
export function CopyBlock({ text, label }: { readonly text: string; readonly label: string }) {
  return (
    <figure class="copy-block">
      <figcaption>
        <span>{label}</span>
        <CopyButton text={text} />
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <pre tabIndex={0}>{text}</pre>
    </figure>
  );
}

/** A secret that is shown this once. */
export function SecretOnce({ secret, label }: { readonly secret: string; readonly label: string }) {
  return (
    <div class="secret">
      <p class="note warn">{texts().shell.secretOnce}</p>
      <CopyBlock text={secret} label={label} />
    </div>
  );
}
