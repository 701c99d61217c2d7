import { useState } from "preact/hooks";
import { useAction } from "../action.ts";
import { Badge } from "../components/badge.tsx";
import { Button } from "../components/button.tsx";
import { CopyBlock, SecretOnce } from "../components/copy.tsx";
import { FormDialog } from "../components/dialog.tsx";
import { TextField } from "../components/field.tsx";
import { ProblemNote } from "../components/problem.tsx";
import { showToast } from "../components/toasts.tsx";
import { useForm } from "../form.ts";
import { request } from "../http.ts";
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
  const [removing, setRemoving] = useState(false);
  const begin = useAction(() => request<NewSecret>("POST", "/totp"), setNewSecret);

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
          <Button onClick={() => setRemoving(true)}>{words.totpRemove}</Button>
        ) : (
          !newSecret && (
            <Button busy={begin.busy} onClick={() => void begin.run()}>
              {words.totpSetUp}
            </Button>
          )
        )}
      </p>
      {newSecret && <ConfirmSecret {...newSecret} done={turnedOn} />}
      {recoveryCodes && (
        <div>
          <p class="hint">{words.recoveryHint}</p>
          <SecretOnce label={words.recovery} secret={recoveryCodes.join("\n")} />
        </div>
      )}
      {removing && <RemoveDialog close={() => setRemoving(false)} />}
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

function RemoveDialog({ close }: { readonly close: () => void }) {
  const { account: words, signIn } = texts().shell;
  const form = useForm(
    { password: "" },
    (body) => request("DELETE", "/totp", { body }),
    () => {
      close();
      showToast(words.totpRemoved);
      void findSession();
    },
  );
  return (
    <FormDialog title={words.totpRemove} form={form} submitLabel={words.totpRemove} danger onClose={close}>
      <TextField {...form.field("password")} type="password" label={signIn.password} autocomplete="current-password" />
    </FormDialog>
  );
}
