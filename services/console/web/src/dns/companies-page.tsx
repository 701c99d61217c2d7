import { useCallback } from "preact/hooks";
import { useLocation } from "preact-iso";
import { Badge } from "../components/badge.tsx";
import { FormDialog } from "../components/dialog.tsx";
import { TextField } from "../components/field.tsx";
import { ListPage } from "../components/list-page.tsx";
import { showToast } from "../components/toasts.tsx";
import { useRows } from "../fetched.ts";
import { useForm } from "../form.ts";
import { formatNumber } from "../format.ts";
import { queryOf, request } from "../http.ts";
import { useQuery } from "../query.ts";
import { texts } from "../texts.ts";
import { type Company, type CompanySummary, makeApiKey } from "./company.ts";
import { dnsApi, dnsPages } from "./paths.ts";

/** The companies of a reseller. */
export function CompaniesPage({ reseller }: { readonly reseller: string }) {
  const { dns } = texts();
  const words = dns.companies;
  const { route } = useLocation();
  const [{ search = "" }, changeQuery] = useQuery();
  const list = useRows<CompanySummary>(dnsApi(reseller, "companies"), "companies");
  const onSearch = useCallback((wanted: string) => changeQuery({ search: wanted }), [changeQuery]);
  const isFound = ({ crm_id, name }: CompanySummary) =>
    `${crm_id} ${name}`.toLowerCase().includes(search.toLowerCase());
  return (
    <ListPage<CompanySummary>
      words={words}
      icon="building"
      list={{ ...list, rows: list.rows.filter(isFound) }}
      rowName={({ crm_id }) => crm_id}
      search={{ label: words.search, value: search, onSearch }}
      add={{
        label: words.create,
        dialog: (close) => (
          <NewCompanyDialog
            reseller={reseller}
            onClose={close}
            onCreated={(crmId) => route(dnsPages.company(reseller, crmId))}
          />
        ),
      }}
      columns={[
        {
          id: "crm_id",
          label: words.crmId,
          cell: ({ crm_id }) => <a href={dnsPages.company(reseller, crm_id)}>{crm_id}</a>,
        },
        { id: "name", label: words.name, cell: ({ name }) => name, grows: true },
        {
          id: "domains",
          label: words.domains,
          align: "end",
          cell: ({ crm_id, domains }) => (
            <a href={dnsPages.zones(reseller) + queryOf({ crm_id })}>{formatNumber(domains)}</a>
          ),
        },
        {
          id: "state",
          label: words.state,
          cell: ({ suspended }) => (
            <Badge tone={suspended ? "warn" : "good"}>{suspended ? dns.suspended : dns.active}</Badge>
          ),
        },
      ]}
    />
  );
}

interface NewCompanyDialogProps {
  readonly reseller: string;
  readonly onClose: () => void;
  readonly onCreated: (crmId: string) => void;
}

function NewCompanyDialog({ reseller, onClose, onCreated }: NewCompanyDialogProps) {
  const { companies: words } = texts().dns;
  const form = useForm(
    { crm_id: "", name: "", apikey: makeApiKey() },
    (body) => request<Company>("POST", dnsApi(reseller, "company"), { body }),
    ({ crm_id }) => {
      showToast(words.created(crm_id));
      onCreated(crm_id);
    },
  );
  return (
    <FormDialog title={words.create} form={form} submitLabel={words.create} onClose={onClose}>
      <TextField {...form.field("crm_id")} label={words.crmId} hint={words.crmIdHint} mono required autofocus />
      <TextField {...form.field("name")} label={words.name} required />
      <TextField {...form.field("apikey")} label={words.apikey} hint={words.apikeyHint} mono required />
    </FormDialog>
  );
}
