import { FormDialog } from "../../components/dialog.tsx";
import { SelectField, TextArea, TextField } from "../../components/field.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useForm } from "../../form.ts";
import { request } from "../../http.ts";
import { linesOf } from "../../lines.ts";
import { texts } from "../../texts.ts";
import { dnsApi } from "../paths.ts";

interface NewFollowerProps {
  readonly reseller: string;
  readonly domain: string;
  readonly onMade: () => void;
  readonly onClose: () => void;
}

/** Makes a name have the addresses of another. */
export function NewAliasDialog({ reseller, domain, onMade, onClose }: NewFollowerProps) {
  const { followers: words } = texts().dns;
  const form = useForm(
    { name: "@", target: "" },
    (body) => request("POST", dnsApi(reseller, "alias", domain), { body }),
    (_reply, { name }) => {
      showToast(words.made(name));
      onClose();
      onMade();
    },
  );
  return (
    <FormDialog title={words.addAlias} form={form} submitLabel={words.addAlias} onClose={onClose}>
      <TextField {...form.field("name")} label={words.name} hint={words.nameHint} mono required autofocus />
      <TextField {...form.field("target")} label={words.target} hint={words.targetHint} mono required />
    </FormDialog>
  );
}

const RULES = ["all", "priority", "weighted"] as const;
const CHECKS = ["none", "tcp", "http", "https", "smtp", "dns"] as const;
/** What those types cannot do without; all else has a default. */
const USUAL_PORT = { tcp: "", http: "80", https: "443", smtp: "25", dns: "53" } as const;

/** Makes a name have the addresses of those members that are well. */
export function NewPoolDialog({ reseller, domain, onMade, onClose }: NewFollowerProps) {
  const { followers: words } = texts().dns;
  const form = useForm(
    {
      name: "",
      members: "",
      rule: RULES[0] as string,
      type: "tcp" as string,
      port: "80",
      interval: "10",
      path: "/",
      question: "",
    },
    (values) => request("POST", dnsApi(reseller, "pool", domain), { body: poolOf(values) }),
    (_reply, { name }) => {
      showToast(words.made(name));
      onClose();
      onMade();
    },
  );
  const { type } = form.values;
  return (
    <FormDialog title={words.addPool} form={form} submitLabel={words.addPool} onClose={onClose}>
      <TextField {...form.field("name")} label={words.name} hint={words.nameHint} mono required autofocus />
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

interface PoolValues {
  readonly name: string;
  readonly members: string;
  readonly rule: string;
  readonly type: string;
  readonly port: string;
  readonly interval: string;
  readonly path: string;
  readonly question: string;
}

function poolOf({ name, members, rule, type, port, interval, path, question }: PoolValues) {
  const check = {
    ...{ type, port: Number(port), interval: Number(interval) },
    ...(type.startsWith("http") && { path }),
    ...(type === "dns" && { question }),
  };
  return { name, rule, members: linesOf(members).map(memberOf), check: type === "none" ? null : check };
}

/** A line: the value, then a weight and a priority where they matter. */
function memberOf(line: string) {
  const [value = "", weight, priority] = line.trim().split(/\s+/);
  return {
    value,
    ...(weight !== undefined && { weight: Number(weight) }),
    ...(priority !== undefined && { priority: Number(priority) }),
  };
}
