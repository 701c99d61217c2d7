import { useState } from "preact/hooks";
import { Badge } from "../components/badge.tsx";
import { Button } from "../components/button.tsx";
import { CopyBlock, SecretOnce } from "../components/copy.tsx";
import { FormDialog } from "../components/dialog.tsx";
import { TextField } from "../components/field.tsx";
import { ProblemNote } from "../components/problem.tsx";
import { QrCode } from "../components/qr-code.tsx";
import { showToast } from "../components/toasts.tsx";
import { useForm } from "../form.ts";
import { type Answer, request } from "../http.ts";
import { findSession } from "../session.ts";
import { texts } from "../texts.ts";

/** A new secret, for the authenticator. */
interface NewSecret {
  readonly secret: string;
  /** `otpauth://` */
  readonly uri: string;
}

/** The second step of the sign-in: set up, or turned off. */
export function SecondFactor({ enabled }: { readonly enabled: boolean }) {
  const { account: words } = texts().shell;
  const [newSecret, setNewSecret] = useState<NewSecret>();
  const [recoveryCodes, setRecoveryCodes] = useState<readonly string[]>();
  const [asking, setAsking] = useState<"set-up" | "remove">();
  const close = () => setAsking(undefined);

  const turnedOn = (codes: readonly string[] | undefined) => {
    setNewSecret(undefined);
    setRecoveryCodes(codes);
    showToast(words.totpEnabled);
    void findSession();
  };
  return (
    <div class="stack">
      <p>
        {enabled ? <Badge tone="good">{words.totpOn}</Badge> : <Badge tone="quiet">{words.totpOff}</Badge>}{" "}
        {enabled ? (
          <Button onClick={() => setAsking("remove")}>{words.totpRemove}</Button>
        ) : (
          !newSecret && <Button onClick={() => setAsking("set-up")}>{words.totpSetUp}</Button>
        )}
      </p>
      {newSecret && <ConfirmSecret {...newSecret} done={turnedOn} />}
      {recoveryCodes && (
        <div>
          <p class="hint">{words.recoveryHint}</p>
          <SecretOnce label={words.recovery} secret={recoveryCodes.join("\n")} />
        </div>
      )}
      {asking === "set-up" && (
        <PasswordDialog<NewSecret>
          title={words.totpSetUp}
          send={(body) => request("POST", "/totp", { body })}
          done={(made) => {
            close();
            setNewSecret(made);
          }}
          close={close}
        />
      )}
      {asking === "remove" && (
        <PasswordDialog
          title={words.totpRemove}
          send={(body) => request("DELETE", "/totp", { body })}
          done={() => {
            close();
            showToast(words.totpRemoved);
            void findSession();
          }}
          close={close}
          danger
        />
      )}
    </div>
  );
}

interface ConfirmSecretProps extends NewSecret {
  readonly done: (recoveryCodes: readonly string[] | undefined) => void;
}

/** The secret is in force once a code of it was given. */
function ConfirmSecret({ secret, uri, done }: ConfirmSecretProps) {
  const { account: words, signIn } = texts().shell;
  const form = useForm(
    { code: "" },
    ({ code }) => request<{ recovery_codes?: string[] }>("PUT", "/totp", { body: { code: code.replaceAll(" ", "") } }),
    ({ recovery_codes }) => done(recovery_codes),
  );
  return (
    <form class="form" onSubmit={form.submit} noValidate>
      <p>{words.totpScan}</p>
      <QrCode label={words.totpCode} text={uri} />
      <CopyBlock label={words.totpSecret} text={secret} />
      <CopyBlock label={words.totpUri} text={uri} />
      <TextField {...form.field("code")} label={signIn.code} inputmode="numeric" autocomplete="one-time-code" mono />
      <ProblemNote problem={form.problem} />
      <Button submit kind="primary" busy={form.busy}>
        {words.totpConfirm}
      </Button>
    </form>
  );
}

interface PasswordDialogProps<T> {
  readonly title: string;
  readonly send: (body: { readonly password: string }) => Promise<Answer<T>>;
  readonly done: (value: T) => void;
  readonly close: () => void;
  readonly danger?: boolean;
}

/** The password once more: whoever finds an open page must not change how its owner signs in. */
function PasswordDialog<T>({ title, send, done, close, danger = false }: PasswordDialogProps<T>) {
  const { currentPassword } = texts().shell.account;
  const form = useForm({ password: "" }, send, done);
  return (
    <FormDialog title={title} form={form} submitLabel={title} danger={danger} onClose={close}>
      <TextField
        {...form.field("password")}
        type="password"
        label={currentPassword}
        autocomplete="current-password"
        autofocus
      />
    </FormDialog>
  );
}
