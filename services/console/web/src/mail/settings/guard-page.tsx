import { useState } from "preact/hooks";
import type { Sentence } from "../../../../../core/sentences.ts";
import { useAction } from "../../action.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { FormDialog } from "../../components/dialog.tsx";
import { EmptyState } from "../../components/empty-state.tsx";
import { SelectField, TextField } from "../../components/field.tsx";
import { Loaded } from "../../components/loaded.tsx";
import { Page, Section } from "../../components/page.tsx";
import { Table } from "../../components/table.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useFetched } from "../../fetched.ts";
import { useForm } from "../../form.ts";
import { formatNumber, formatTime } from "../../format.ts";
import { request } from "../../http.ts";
import { describeReason } from "../../problem-words.ts";
import { session } from "../../session.ts";
import { texts } from "../../texts.ts";
import { anyNumber } from "../../typed-number.ts";
import { instancePath } from "../addresses.ts";
import { HeldContentSection } from "./held-content.tsx";
import { SettingsTabs } from "./settings-tabs.tsx";

type Scope = "instance" | "campaign" | "sender";

interface Limit {
  readonly scope: Scope | "ramp";
  readonly subject: string;
  readonly per_hour: number | null;
  readonly per_day: number | null;
  readonly over: "refuse" | "wait";
  readonly used_hour: number | null;
  readonly used_day: number | null;
  readonly default: boolean;
}

interface Guard {
  readonly limits: readonly Limit[];
  readonly waiting: number;
  readonly goes_on_at: string | null;
  readonly held: { readonly since: string; readonly by: string; readonly reason: Sentence } | null;
}

const REFRESH_MS = 10_000;
const SCOPES: readonly Scope[] = ["instance", "campaign", "sender"];

/** How much an instance may send, and whether it is held: its users see it, the operator changes it. */
export function GuardPage({ instance }: { readonly instance: string }) {
  const words = texts().mail.guard;
  const guard = useFetched<Guard>(instancePath(instance, "guard"), REFRESH_MS);
  const [dialog, setDialog] = useState<"limit" | "hold" | "release">();
  const isOperator = session.value?.role === "operator";
  const isHeld = guard.value?.held ?? null;
  const close = () => setDialog(undefined);
  return (
    <Page
      title={words.title}
      badges={guard.value && <Badge tone={isHeld ? "bad" : "good"}>{isHeld ? words.isHeld : words.goes}</Badge>}
      actions={
        isOperator &&
        guard.value && (
          <Button icon="pause" kind="danger" onClick={() => setDialog(isHeld ? "release" : "hold")}>
            {isHeld ? words.release : words.hold}
          </Button>
        )
      }
    >
      <SettingsTabs instance={instance} current="guard" />
      <p class="hint">{words.intro}</p>
      <Loaded of={guard}>
        {(value) => (
          <>
            {value.held && <Held held={value.held} />}
            <Waiting instance={instance} guard={value} mayRelease={isOperator} released={guard.reload} />
            <Limits
              instance={instance}
              limits={value.limits}
              changed={guard.reload}
              {...(isOperator ? { add: () => setDialog("limit") } : {})}
            />
            <HeldContentSection instance={instance} mayDecide={isOperator} />
          </>
        )}
      </Loaded>
      {dialog === "limit" && <LimitDialog instance={instance} changed={guard.reload} close={close} />}
      {(dialog === "hold" || dialog === "release") && (
        <HoldDialog instance={instance} verb={dialog} changed={guard.reload} close={close} />
      )}
    </Page>
  );
}

function Held({ held: { since, by, reason } }: { readonly held: NonNullable<Guard["held"]> }) {
  const words = texts().mail.guard;
  return (
    <Section title={words.held} hint={words.heldSince(formatTime(since), describeHolder(by))}>
      <p>{describeReason(reason)}</p>
    </Section>
  );
}

/** Who holds it: a login, the guard, or somebody at the command line. */
function describeHolder(by: string): string {
  const words = texts().mail.guard;
  const user = /^command line \((.*)\)$/.exec(by)?.[1];
  return by === "guard" ? words.byItself : user === undefined ? by : words.byCommand(user);
}

interface WaitingProps {
  readonly instance: string;
  readonly guard: Guard;
  readonly mayRelease: boolean;
  readonly released: () => void;
}

function Waiting({ instance, guard: { waiting, goes_on_at }, mayRelease, released }: WaitingProps) {
  const words = texts().mail.guard;
  const letGo = useAction(
    () => request<{ recipients: number }>("POST", instancePath(instance, "waiting", "release")),
    ({ recipients }) => {
      showToast(words.letGone(formatNumber(recipients)));
      released();
    },
  );
  if (waiting === 0) return null;
  return (
    <p>
      {words.waiting(formatNumber(waiting), formatTime(goes_on_at))}{" "}
      {mayRelease && (
        <Button small busy={letGo.busy} onClick={() => void letGo.run()}>
          {words.letGo}
        </Button>
      )}
    </p>
  );
}

function nameOf({ scope, subject }: Limit): string {
  const words = texts().mail.guard;
  const isOfEach = subject === "" && (scope === "campaign" || scope === "sender");
  return `${words.scopes[scope]}${isOfEach ? ` (${words.each})` : subject === "" ? "" : ` ${subject}`}`;
}

function boundOf(allowed: number | null, used: number | null): string {
  if (allowed === null) return "";
  const most = formatNumber(allowed);
  return used === null ? most : texts().mail.guard.usedOf(formatNumber(used), most);
}

interface LimitsProps {
  readonly instance: string;
  readonly limits: readonly Limit[];
  readonly changed: () => void;
  /** Given to those who may change them. */
  readonly add?: () => void;
}

function Limits({ instance, limits, changed, add }: LimitsProps) {
  const words = texts().mail.guard;
  const remove = useAction(
    ({ scope, subject }: Limit) => request("DELETE", instancePath(instance, "limits"), { body: { scope, subject } }),
    () => changed(),
  );
  return (
    <Section
      title={words.limits}
      actions={
        add && (
          <Button small icon="add" onClick={add}>
            {words.addLimit}
          </Button>
        )
      }
    >
      <Table<Limit>
        label={words.limits}
        rows={limits}
        rowKey={(limit) => `${limit.scope} ${limit.subject}`}
        empty={
          <EmptyState icon="shield" title={words.none}>
            {words.noneHint}
          </EmptyState>
        }
        columns={[
          { id: "scope", label: words.scope, grows: true, cell: nameOf },
          { id: "hour", label: words.perHour, align: "end", cell: (one) => boundOf(one.per_hour, one.used_hour) },
          { id: "day", label: words.perDay, align: "end", cell: (one) => boundOf(one.per_day, one.used_day) },
          { id: "over", label: words.over, optional: true, cell: ({ over }) => words.overs[over] },
          ...(add
            ? [
                {
                  id: "remove",
                  label: "",
                  cell: (one: Limit) =>
                    !one.default &&
                    one.scope !== "ramp" && (
                      <Button
                        small
                        busy={remove.busy}
                        label={`${words.remove}: ${nameOf(one)}`}
                        onClick={() => void remove.run(one)}
                      >
                        {words.remove}
                      </Button>
                    ),
                },
              ]
            : []),
        ]}
      />
    </Section>
  );
}

interface DialogProps {
  readonly instance: string;
  readonly changed: () => void;
  readonly close: () => void;
}

function LimitDialog({ instance, changed, close }: DialogProps) {
  const words = texts().mail.guard;
  const bound = (text: string) => (text.trim() === "" ? null : anyNumber(text));
  const form = useForm(
    { scope: "instance", subject: "", per_hour: "", per_day: "", over: "refuse" },
    ({ per_hour, per_day, ...values }) =>
      request("PUT", instancePath(instance, "limits"), {
        body: { ...values, per_hour: bound(per_hour), per_day: bound(per_day) },
      }),
    () => {
      changed();
      close();
    },
  );
  return (
    <FormDialog title={words.addLimit} form={form} submitLabel={texts().shell.save} onClose={close}>
      <SelectField
        {...form.field("scope")}
        label={words.scope}
        options={SCOPES.map((value) => ({ value, label: words.scopes[value] }))}
      />
      {form.values.scope !== "instance" && (
        <TextField {...form.field("subject")} label={words.subject} hint={words.subjectHint} mono />
      )}
      <div class="fields roomy">
        <TextField {...form.field("per_hour")} label={words.perHour} inputmode="numeric" />
        <TextField {...form.field("per_day")} label={words.perDay} inputmode="numeric" />
      </div>
      <SelectField
        {...form.field("over")}
        label={words.over}
        options={(["refuse", "wait"] as const).map((value) => ({ value, label: words.overs[value] }))}
      />
    </FormDialog>
  );
}

function HoldDialog({ instance, verb, changed, close }: DialogProps & { readonly verb: "hold" | "release" }) {
  const words = texts().mail.guard;
  const form = useForm(
    { reason: "" },
    (body) => request("POST", instancePath(instance, verb), { body }),
    () => {
      showToast(words.done);
      changed();
      close();
    },
  );
  return (
    <FormDialog
      title={`${words[verb]}: ${instance}`}
      form={form}
      submitLabel={words[verb]}
      danger={verb === "hold"}
      disabled={form.values.reason.trim() === ""}
      onClose={close}
    >
      <TextField {...form.field("reason")} label={words.reason} hint={words.reasonHint} required autofocus />
    </FormDialog>
  );
}
