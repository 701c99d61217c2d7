import { FormDialog } from "../../components/dialog.tsx";
import { SelectField, TextArea, TextField } from "../../components/field.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useForm } from "../../form.ts";
import { request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { dnsApi } from "../paths.ts";
import type { Alias, Pool } from "./follower.ts";
import { fieldsOf, valuesOf } from "./pool-form.ts";

interface FollowerDialogProps<Kind> {
  readonly reseller: string;
  readonly domain: string;
  /** The one to change; without it a new one is made. */
  readonly current?: Kind | undefined;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

/** Makes a name have the addresses of another, or of another one than before. */
export function AliasDialog({ reseller, domain, current, onDone, onClose }: FollowerDialogProps<Alias>) {
  const { followers: words } = texts().dns;
  const form = useForm(
    { name: current?.name ?? "@", target: current?.target ?? "" },
    ({ name, target }) =>
      current
        ? request("PUT", dnsApi(reseller, "alias", domain, String(current.alias_id)), { body: { target } })
        : request("POST", dnsApi(reseller, "alias", domain), { body: { name, target } }),
    (_reply, { name }) => {
      showToast(current ? texts().shell.saved : words.made(name));
      onClose();
      onDone();
    },
  );
  const [title, submitLabel] = wordsOfDialog(current, words.addAlias);
  return (
    <FormDialog title={title} form={form} submitLabel={submitLabel} onClose={onClose}>
      {!current && (
        <TextField {...form.field("name")} label={words.name} hint={words.nameHint} mono required autofocus />
      )}
      <TextField {...form.field("target")} label={words.target} hint={words.targetHint} mono required />
    </FormDialog>
  );
}

function wordsOfDialog(current: { readonly name: string } | undefined, add: string): readonly [string, string] {
  return current ? [texts().dns.followers.change(current.name), texts().shell.save] : [add, add];
}

const RULES = ["all", "priority", "weighted"] as const;
const CHECKS = ["none", "tcp", "http", "https", "smtp", "dns"] as const;
/** What those types cannot do without; all else has a default. */
const USUAL_PORT = { tcp: "", http: "80", https: "443", smtp: "25", dns: "53" } as const;

/** Makes a name have the addresses of those members that are well, or changes who they are and how they are looked at. */
export function EditPoolDialog({ reseller, domain, current, onDone, onClose }: FollowerDialogProps<Pool>) {
  const { followers: words } = texts().dns;
  const form = useForm(
    valuesOf(current),
    (values) =>
      current
        ? request("PUT", dnsApi(reseller, "pool", domain, String(current.pool_id)), { body: fieldsOf(values, current) })
        : request("POST", dnsApi(reseller, "pool", domain), { body: { name: values.name, ...fieldsOf(values) } }),
    (_reply, { name }) => {
      showToast(current ? texts().shell.saved : words.made(name));
      onClose();
      onDone();
    },
  );
  const { type } = form.values;
  const [title, submitLabel] = wordsOfDialog(current, words.addPool);
  return (
    <FormDialog title={title} form={form} submitLabel={submitLabel} onClose={onClose}>
      {!current && (
        <TextField {...form.field("name")} label={words.name} hint={words.nameHint} mono required autofocus />
      )}
      <TextArea {...form.field("members")} label={words.members} hint={words.membersHint} rows={3} mono required />
      <div class="fields roomy">
        <SelectField
          {...form.field("rule")}
          label={words.rule}
          options={RULES.map((rule) => ({ value: rule, label: words.rules[rule] }))}
        />
        <SelectField
          {...form.field("type")}
          label={words.check}
          onValue={(value) => form.set({ type: value, port: USUAL_PORT[value as keyof typeof USUAL_PORT] ?? "" })}
          options={CHECKS.map((check) => ({
            value: check,
            label: check === "none" ? words.noCheck : check.toUpperCase(),
          }))}
        />
      </div>
      {type !== "none" && (
        <div class="fields roomy">
          <TextField {...form.field("port")} label={words.port} inputmode="numeric" required />
          <TextField {...form.field("interval")} label={words.interval} inputmode="numeric" required />
          {type.startsWith("http") && <TextField {...form.field("path")} label={words.path} mono />}
          {type === "dns" && <TextField {...form.field("question")} label={words.question} mono required />}
        </div>
      )}
    </FormDialog>
  );
}
