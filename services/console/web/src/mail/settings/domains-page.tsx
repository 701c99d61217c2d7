import { useAction } from "../../action.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { CopyBlock } from "../../components/copy.tsx";
import { FormDialog } from "../../components/dialog.tsx";
import { TextField } from "../../components/field.tsx";
import { ListPage } from "../../components/list-page.tsx";
import { Loaded } from "../../components/loaded.tsx";
import { Section } from "../../components/page.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useFetched, useRows } from "../../fetched.ts";
import { useForm } from "../../form.ts";
import { request } from "../../http.ts";
import { useQuery } from "../../query.ts";
import { session } from "../../session.ts";
import { texts } from "../../texts.ts";
import { instancePath, mailPage } from "../addresses.ts";
import "../mail.css";
import { DomainSetup } from "./domain-setup.tsx";
import { SettingsTabs } from "./settings-tabs.tsx";

interface Domain {
  readonly domain: string;
}

/** The domains that an instance sends from, and whether the world can see that it may. */
export function DomainsPage({ instance }: { readonly instance: string }) {
  const words = texts().mail.domains;
  const [{ domain: checked }, setQuery] = useQuery();
  const list = useRows<Domain>(instancePath(instance, "domains"), "domains");
  // What an instance may send from is the operator's to say.
  const isOperator = session.value?.role === "operator";
  const operatorsParts = {
    add: {
      label: words.add,
      dialog: (close: () => void) => (
        <AddDialog
          instance={instance}
          close={close}
          added={(domain) => {
            list.reload();
            setQuery({ domain });
          }}
        />
      ),
    },
    removal: {
      words,
      request: ({ domain }: Domain) => request("DELETE", instancePath(instance, "domains", domain)),
      typed: true,
    },
  };
  return (
    <ListPage<Domain>
      words={isOperator ? words : { ...words, emptyHint: words.askOperator }}
      icon="globe"
      tabs={<SettingsTabs instance={instance} current="domains" />}
      list={list}
      rowName={({ domain }) => domain}
      {...(isOperator ? operatorsParts : {})}
      rowActions={({ domain }) => (
        <>
          <a class="button small" href={mailPage(instance, "settings", "domains", domain, "reports")}>
            {words.reports}
          </a>
          <Button small icon="check" label={`${words.check}: ${domain}`} onClick={() => setQuery({ domain })}>
            {words.check}
          </Button>
        </>
      )}
      columns={[
        { id: "domain", label: words.domain, grows: true, cell: ({ domain }) => <span class="mono">{domain}</span> },
      ]}
    >
      {list.rows.some(({ domain }) => domain === checked) && checked && (
        <>
          <CheckList key={`check ${checked}`} instance={instance} domain={checked} />
          <DomainSetup key={`setup ${checked}`} instance={instance} domain={checked} />
        </>
      )}
    </ListPage>
  );
}

interface AddDialogProps {
  readonly instance: string;
  readonly close: () => void;
  readonly added: (domain: string) => void;
}

function AddDialog({ instance, close, added }: AddDialogProps) {
  const words = texts().mail.domains;
  const form = useForm(
    { domain: "" },
    (body) => request("POST", instancePath(instance, "domains"), { body }),
    (_answer, { domain }) => {
      close();
      added(domain);
    },
  );
  return (
    <FormDialog title={words.add} form={form} submitLabel={texts().shell.create} onClose={close}>
      <TextField {...form.field("domain")} label={words.domain} mono required autofocus />
    </FormDialog>
  );
}

interface Checked {
  readonly hosted: boolean;
  /** Whether the reader may have the missing records created. */
  readonly may_create: boolean;
  readonly checks: readonly Check[];
}

interface ExpectedRecord {
  readonly name: string;
  readonly type: string;
  readonly value: string;
  readonly preference?: number;
}

interface Check {
  readonly name: "spf" | "dkim" | "dmarc" | "bounce";
  readonly expected: readonly ExpectedRecord[];
  readonly found: readonly string[];
  readonly ok: boolean;
}

/** What a look-up found beside what should be there, and the way to mend it. */
function CheckList({ instance, domain }: { readonly instance: string; readonly domain: string }) {
  const words = texts().mail.domains;
  const path = instancePath(instance, "domains", domain);
  const checked = useFetched<Checked>(`${path}/check`);
  const create = useAction(
    () => request<{ conflicts: readonly string[] }>("POST", `${path}/records`),
    ({ conflicts }) => {
      if (conflicts.length === 0) showToast(words.created);
      else showToast(words.conflicts(conflicts.join(", ")), "bad");
      checked.reload();
    },
  );
  return (
    <Section
      title={domain}
      actions={
        <Button small icon="refresh" busy={checked.loading} onClick={checked.reload}>
          {words.check}
        </Button>
      }
    >
      <Loaded of={checked}>
        {({ hosted, may_create, checks }) => (
          <>
            <ul class="check-list">
              {checks.map((check) => (
                <CheckItem key={check.name} check={check} />
              ))}
            </ul>
            {checks.some(({ ok }) => !ok) &&
              (may_create ? (
                <div class="stack">
                  <p class="hint">{words.createHint}</p>
                  <Button kind="primary" icon="add" busy={create.busy} onClick={() => void create.run()}>
                    {words.createRecords}
                  </Button>
                </div>
              ) : (
                <p class="hint">{hosted ? words.notAllowed : words.elsewhere}</p>
              ))}
          </>
        )}
      </Loaded>
    </Section>
  );
}

function CheckItem({ check: { name, expected, found, ok } }: { readonly check: Check }) {
  const words = texts().mail.domains;
  return (
    <li>
      <span>
        <strong>{words.checks[name]}</strong> <Badge tone={ok ? "good" : "bad"}>{ok ? words.ok : words.missing}</Badge>
      </span>
      <CopyBlock label={words.expected} text={expected.map(recordLine).join("\n")} />
      {!ok && (
        <p class="hint">
          {words.found}: <span class="mono">{found.length === 0 ? words.nothing : found.join("; ")}</span>
        </p>
      )}
    </li>
  );
}

const recordLine = ({ name, type, value, preference }: ExpectedRecord) =>
  [name, type, preference, value].filter((part) => part !== undefined).join(" ");
