import { Button } from "../components/button.tsx";
import { TextField } from "../components/field.tsx";
import { ProblemNote } from "../components/problem.tsx";
import { showToast } from "../components/toasts.tsx";
import { useForm } from "../form.ts";
import { request } from "../http.ts";
import { texts } from "../texts.ts";

const EMPTY = { current: "", new: "" };

export function PasswordForm() {
  const { account: words } = texts().shell;
  const form = useForm(
    EMPTY,
    (body) => request("PUT", "/password", { body }),
    () => {
      form.set(EMPTY);
      showToast(words.passwordChanged);
    },
  );
  return (
    <form class="form" onSubmit={form.submit} noValidate>
      <TextField
        {...form.field("current")}
        type="password"
        label={words.currentPassword}
        autocomplete="current-password"
      />
      <TextField {...form.field("new")} type="password" label={words.newPassword} autocomplete="new-password" />
      <ProblemNote problem={form.problem} />
      <Button submit kind="primary" busy={form.busy}>
        {words.changePassword}
      </Button>
    </form>
  );
}
