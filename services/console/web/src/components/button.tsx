import type { ButtonHTMLAttributes, ComponentChildren } from "preact";
import { Icon, type IconName } from "./icon.tsx";

interface ButtonProps {
  readonly children: ComponentChildren;
  readonly kind?: "primary" | "danger" | "plain";
  readonly small?: boolean;
  readonly icon?: IconName;
  /** Something is under way: the button waits. */
  readonly busy?: boolean;
  readonly disabled?: boolean;
  /** Submits its form instead of acting itself. */
  readonly submit?: boolean;
  readonly onClick?: () => void;
  readonly label?: string;
}

/** Does something when pressed. */
export function Button({ children, kind, small, icon, busy, disabled, submit, onClick, label }: ButtonProps) {
  const attributes: ButtonHTMLAttributes = label === undefined ? {} : { "aria-label": label };
  return (
    <button
      type={submit ? "submit" : "button"}
      class={["button", kind, small && "small", busy && "busy"].filter(Boolean).join(" ")}
      disabled={disabled}
      // Not `disabled`: that would take the focus from the one who pressed it.
      aria-disabled={busy}
      aria-busy={busy}
      onClick={(event) => (busy ? event.preventDefault() : onClick?.())}
      {...attributes}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

interface LinkButtonProps {
  readonly href: string;
  readonly children: ComponentChildren;
  readonly kind?: "primary" | "plain";
  readonly icon?: IconName;
  /** The file's name, for a download. */
  readonly download?: string;
}

/** Leads somewhere, and looks like a button. */
export function LinkButton({ href, children, kind, icon, download }: LinkButtonProps) {
  return (
    <a class={["button", kind].filter(Boolean).join(" ")} href={href} {...(download ? { download } : {})}>
      {icon && <Icon name={icon} />}
      {children}
    </a>
  );
}
