import { FormDialog } from "../components/dialog.tsx";
import { SelectField, TextField } from "../components/field.tsx";
import { showToast } from "../components/toasts.tsx";
import { useForm } from "../form.ts";
import { request } from "../http.ts";
import { choicesOf, currentScope } from "../scopes.ts";
import { type Role, session } from "../session.ts";
import { texts } from "../texts.ts";

/** A password that was just made, shown once. */
export interface NewPassword {
  readonly login: string;
  readonly password: string;
}

interface NewUserDialogProps {
  readonly onAdded: (added: NewPassword) => void;
  readonly onClose: () => void;
}

const ROLES: readonly Role[] = ["operator", "reseller", "company", "instance"];

/** Adds an account; its first password is random. A reseller adds those of its companies' people. */
export function NewUserDialog({ onAdded, onClose }: NewUserDialogProps) {
  const { operator, shell } = texts();
  const words = operator.users;
  const roles = session.value?.role === "operator" ? ROLES : (["company"] as const);
  const form = useForm(
    // Who presses Enter too soon makes nobody an operator.
    { login: "", role: "company" as Role, scope: "" },
    ({ login, role, scope }) => {
      const body = { login: login.trim(), role, ...(role === "operator" ? {} : { scope: scope.trim() }) };
      return request<NewPassword>("POST", "/users", { body });
    },
    (added) => {
      showToast(words.added(added.login));
      onAdded(added);
    },
  );
  const { role } = form.values;
  const scopeLabels = { reseller: words.scopeReseller, company: words.scopeCompany, instance: words.scopeInstance };
  return (
    <FormDialog title={words.add} form={form} submitLabel={words.add} onClose={onClose}>
      <TextField {...form.field("login")} label={words.login} mono required autofocus />
      <SelectField
        {...form.field("role")}
        label={words.role}
        options={roles.map((value) => ({ value, label: shell.roles[value] }))}
      />
      {role !== "operator" && (
        <TextField
          {...form.field("scope")}
          label={scopeLabels[role as keyof typeof scopeLabels]}
          placeholder={role === "company" ? `${currentScope("reseller")}/…` : ""}
          suggestions={role === "company" ? [] : choicesOf(role === "instance" ? "instance" : "reseller")}
          mono
          required
        />
      )}
    </FormDialog>
  );
}
