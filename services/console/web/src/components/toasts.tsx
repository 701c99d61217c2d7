import { signal } from "@preact/signals";
import { texts } from "../texts.ts";
import { Icon } from "./icon.tsx";

type Tone = "good" | "bad";

interface Toast {
  readonly id: number;
  readonly text: string;
  readonly tone: Tone;
}

/** How long a toast stays; one about a failure stays until it is closed. */
const GOOD_TOAST_MS = 5_000;

const toasts = signal<readonly Toast[]>([]);
let lastId = 0;

/** Says in passing what was done, or could not be. */
export function showToast(text: string, tone: Tone = "good"): void {
  const toast = { id: ++lastId, text, tone };
  toasts.value = [...toasts.value, toast];
  if (tone === "good") setTimeout(() => close(toast.id), GOOD_TOAST_MS);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, tone }) => (
        <div key={id} class={`toast ${tone}`}>
          <Icon name={tone === "good" ? "check" : "warning"} />
          <span>{text}</span>
          <button type="button" class="icon-button" aria-label={texts().shell.close} onClick={() => close(id)}>
            <Icon name="close" />
          </button>
        </div>
      ))}
    </div>
  );
}

function close(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}
