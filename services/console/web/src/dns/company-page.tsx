import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { Badge } from "../components/badge.tsx";
import { Button, LinkButton } from "../components/button.tsx";
import { ConfirmDialog, FormDialog } from "../components/dialog.tsx";
import { TextField } from "../components/field.tsx";
import { Loaded } from "../components/loaded.tsx";
import { Page, Section } from "../components/page.tsx";
import { ProblemNote } from "../components/problem.tsx";
import { showToast } from "../components/toasts.tsx";
import { useFetched } from "../fetched.ts";
import { useForm } from "../form.ts";
import { formatNumber } from "../format.ts";
import { queryOf, request } from "../http.ts";
import { texts } from "../texts.ts";
import { type Company, makeApiKey } from "./company.ts";
import { dnsApi, dnsPages } from "./paths.ts";
import { CompanyQuotas } from "./quotas-page.tsx";

interface CompanyPartProps {
  readonly reseller: string;
  readonly company: Company;
  /** Reads the company again. */
  readonly changed: () => void;
}

/** A company: its name and key, whether its zones are served, its end. */
export function CompanyPage({ reseller, crmId }: { readonly reseller: string; readonly crmId: string }) {
  const { dns } = texts();
  const words = dns.companies;
  const found = useFetched<Company>(dnsApi(reseller, "company", crmId));
  return (
    <Page
      title={crmId}
      crumbs={[{ label: words.title, href: dnsPages.companies(reseller) }]}
      badges={
        found.value && (
          <Badge tone={found.value.suspended ? "warn" : "good"}>
            {found.value.suspended ? dns.suspended : dns.active}
          </Badge>
        )
      }
      actions={
        <LinkButton icon="globe" href={dnsPages.zones(reseller) + queryOf({ crm_id: crmId })}>
          {words.showZones}
        </LinkButton>
      }
    >
      <Loaded of={found}>
        {(company) => {
          const part = { reseller, company, changed: found.reload };
          return (
            <>
              <Details key={JSON.stringify(company)} {...part} />
              <CompanyQuotas reseller={reseller} crmId={company.crm_id} />
              <Suspension {...part} />
              <Deletion {...part} />
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}

function Details({ reseller, company, changed }: CompanyPartProps) {
  const { dns, shell } = texts();
  const words = dns.companies;
  const { route } = useLocation();
  const form = useForm(
    { crm_id: company.crm_id, name: company.name, apikey: company.apikey },
    (body) => request<Company>("PUT", dnsApi(reseller, "company", company.crm_id), { body }),
    ({ crm_id }) => {
      showToast(words.changed);
      if (crm_id === company.crm_id) changed();
      else route(dnsPages.company(reseller, crm_id), true);
    },
  );
  return (
    <Section title={words.details} hint={words.detailsHint}>
      <form class="form" onSubmit={form.submit} noValidate>
        <TextField {...form.field("crm_id")} label={words.crmId} hint={words.crmIdHint} mono />
        <TextField {...form.field("name")} label={words.name} />
        <TextField {...form.field("apikey")} label={words.apikey} hint={words.apikeyHint} mono />
        <ProblemNote problem={form.problem} />
        <div class="row">
          <Button submit kind="primary" busy={form.busy}>
            {shell.save}
          </Button>
          <Button icon="key" onClick={() => form.set({ apikey: makeApiKey() })}>
            {words.generate}
          </Button>
        </div>
      </form>
    </Section>
  );
}

/** Both ways are asked about: they concern every zone of the company. */
function Suspension({ reseller, company, changed }: CompanyPartProps) {
  const { dns, shell } = texts();
  const words = dns.companies;
  const [asking, setAsking] = useState(false);
  const { crm_id, suspended } = company;
  const label = suspended ? words.resume : words.suspend;
  const hint = suspended ? words.resumeHint : words.suspendHint;
  return (
    <Section
      title={label}
      hint={hint}
      actions={
        <Button icon={suspended ? "play" : "pause"} onClick={() => setAsking(true)}>
          {label}
        </Button>
      }
    >
      {asking && (
        <ConfirmDialog
          title={suspended ? words.resumeTitle(crm_id) : words.suspendTitle(crm_id)}
          confirmLabel={label}
          danger={!suspended}
          confirm={() => request("PUT", dnsApi(reseller, "company", crm_id), { body: { suspended: !suspended } })}
          done={() => {
            showToast(shell.saved);
            changed();
          }}
          onClose={() => setAsking(false)}
        >
          <p>{hint}</p>
        </ConfirmDialog>
      )}
    </Section>
  );
}

/** The company's own key confirms. */
function Deletion({ reseller, company }: CompanyPartProps) {
  const { companies: words } = texts().dns;
  const { route } = useLocation();
  const [asking, setAsking] = useState(false);
  const hint = words.removeHint(formatNumber(company.domains));
  const form = useForm(
    { apikey: "" },
    (body) => request("DELETE", dnsApi(reseller, "company", company.crm_id), { body }),
    () => {
      showToast(words.removed(company.crm_id));
      route(dnsPages.companies(reseller));
    },
  );
  return (
    <Section
      title={words.remove}
      hint={hint}
      actions={
        <Button kind="danger" icon="trash" onClick={() => setAsking(true)}>
          {words.remove}
        </Button>
      }
    >
      {asking && (
        <FormDialog title={words.remove} form={form} submitLabel={words.remove} danger onClose={() => setAsking(false)}>
          <p>{hint}</p>
          <TextField {...form.field("apikey")} label={words.removeKey} mono required autofocus />
        </FormDialog>
      )}
    </Section>
  );
}
