import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef } from "preact/hooks";
import { type Form, type FormValues, useForm } from "../form.ts";
import type { Answer } from "../http.ts";
import { texts } from "../texts.ts";
import { Button } from "./button.tsx";
import { TextField } from "./field.tsx";
import { Icon } from "./icon.tsx";
import { ProblemNote } from "./problem.tsx";

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  readonly wide?: boolean;
}

/**
 * A window over the page; it is open while it is drawn. Esc closes it, and the focus goes back to where it was; so do the
 * browser's back and forward, as another page is not what it is about.
 */
export function Dialog({ title, onClose, children, wide }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  // In the same breath as it is drawn: what is typed meanwhile would go to the page behind it.
  useLayoutEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    // Only a closed dialog gives the focus back: the page behind an open one takes none.
    return () => dialog?.close();
  }, []);
  useEffect(() => {
    addEventListener("popstate", onClose);
    return () => removeEventListener("popstate", onClose);
  }, [onClose]);
  // Before the dialog closes, not with its `close` event, which comes after the focus is back: a button that is pressed
  // in between would open what is closed the next moment. A file chooser's `cancel` comes by here too.
  const closeOnEsc = (event: Event) => event.target === element.current && onClose();
  return (
    <dialog ref={element} class={wide ? "dialog wide" : "dialog"} aria-labelledby={titleId} onCancel={closeOnEsc}>
      <header class="dialog-head">
        <h2 id={titleId}>{title}</h2>
        <button type="button" class="icon-button" aria-label={texts().shell.close} onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      {children}
    </dialog>
  );
}

interface FormDialogProps<V extends FormValues> {
  readonly title: string;
  readonly form: Form<V>;
  readonly submitLabel: string;
  readonly danger?: boolean;
  readonly wide?: boolean;
  /** Holds the submission back. */
  readonly disabled?: boolean;
  /** Of the button that closes it, where what it does is called a cancellation itself. */
  readonly leaveLabel?: string;
  readonly onClose: () => void;
  readonly children?: ComponentChildren;
}

/** A form in a dialog, with its refusal above the buttons. */
export function FormDialog<V extends FormValues>(props: FormDialogProps<V>) {
  const { title, form, submitLabel, danger, wide, disabled, leaveLabel, onClose, children } = props;
  return (
    <Dialog title={title} onClose={onClose} {...(wide ? { wide } : {})}>
      <form onSubmit={form.submit} noValidate>
        <div class="dialog-body">
          {children}
          <ProblemNote problem={form.problem} />
        </div>
        <footer class="dialog-foot">
          <Button onClick={onClose}>{leaveLabel ?? texts().shell.cancel}</Button>
          <Button submit kind={danger ? "danger" : "primary"} busy={form.busy} disabled={disabled ?? false}>
            {submitLabel}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

interface ConfirmDialogProps {
  readonly title: string;
  readonly confirmLabel: string;
  /** What the reader must type first, for what cannot be undone. */
  readonly typed?: string;
  readonly danger?: boolean;
  /** Holds the confirmation back. */
  readonly disabled?: boolean;
  readonly leaveLabel?: string;
  readonly confirm: () => Promise<Answer<unknown>>;
  /** Called when it was confirmed and done. */
  readonly done: () => void;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

/** Asks before it does. */
export function ConfirmDialog(props: ConfirmDialogProps) {
  const {
    title,
    confirmLabel,
    typed,
    danger = true,
    disabled = false,
    confirm,
    done,
    onClose,
    children,
    ...rest
  } = props;
  const form = useForm({ typed: "" }, confirm, () => {
    onClose();
    done();
  });
  return (
    <FormDialog
      title={title}
      form={form}
      submitLabel={confirmLabel}
      danger={danger}
      disabled={disabled || (typed !== undefined && form.values.typed !== typed)}
      onClose={onClose}
      {...rest}
    >
      <div>{children}</div>
      {typed !== undefined && (
        <TextField {...form.field("typed")} label={texts().shell.typeToConfirm(typed)} mono autofocus />
      )}
    </FormDialog>
  );
}
