import { FormDialog } from "../components/dialog.tsx";
import { SelectField, TextField } from "../components/field.tsx";
import { showToast } from "../components/toasts.tsx";
import { useFetched } from "../fetched.ts";
import { useForm } from "../form.ts";
import { request } from "../http.ts";
import { ownCompany, session } from "../session.ts";
import { showWarnings, type Warned } from "../show-warnings.ts";
import { texts } from "../texts.ts";
import { wholeNumber } from "../typed-number.ts";
import type { CompanySummary } from "./company.ts";
import { dnsApi, dnsPages } from "./paths.ts";
import type { Soa } from "./record.ts";

interface NewZoneDialogProps {
  readonly reseller: string;
  readonly onClose: () => void;
  readonly onCreated: (domain: string) => void;
}

/** What most zones do with: secondaries ask every two hours, and keep on for two weeks without an answer. */
const USUAL_TIMES = { refresh: "7200", retry: "900", expire: "1209600", minimum: "300", ttl: "3600" };
const TIMES = ["refresh", "retry", "expire", "minimum", "ttl"] as const;

/** Creates a master zone with its SOA and first NS record. */
export function NewZoneDialog({ reseller, onClose, onCreated }: NewZoneDialogProps) {
  const { dns } = texts();
  const words = dns.newZone;
  const confinedTo = session.value ? ownCompany(session.value) : undefined;
  const companies = useFetched<{ companies: CompanySummary[] }>(
    confinedTo === undefined ? dnsApi(reseller, "companies") : undefined,
  );
  const choices = confinedTo === undefined ? companies.value?.companies.map(({ crm_id }) => crm_id) : [confinedTo];
  const form = useNewZone(reseller, choices, onCreated);
  const { fqdn } = form.values;
  if (choices?.length === 0) return <NoCompanies reseller={reseller} form={form} onClose={onClose} />;
  return (
    <FormDialog title={words.action} form={form} submitLabel={words.action} disabled={fqdn === ""} onClose={onClose}>
      <TextField {...form.field("fqdn")} label={words.fqdn} hint={words.fqdnHint} mono required autofocus />
      <SelectField
        {...form.field("crm_id")}
        label={dns.company}
        options={(choices ?? []).map((choice) => ({ value: choice, label: choice }))}
      />
      <TextField
        {...form.field("mname")}
        label={words.mname}
        hint={words.mnameHint}
        placeholder={fqdn && `ns1.${fqdn}`}
        mono
        required
      />
      <TextField
        {...form.field("rname")}
        label={words.rname}
        hint={words.rnameHint}
        placeholder={fqdn && `hostmaster.${fqdn}`}
        mono
        required
      />
      <SelectField
        {...form.field("serial_type")}
        label={words.serialType}
        options={[
          { value: "numeric", label: words.numeric },
          { value: "calendar", label: words.calendar },
        ]}
      />
      <details>
        <summary>{words.timers}</summary>
        <div class="fields">
          {TIMES.map((name) => (
            <TextField key={name} {...form.field(name)} label={words[name]} inputmode="numeric" />
          ))}
        </div>
      </details>
    </FormDialog>
  );
}

/** @param choices the companies that it may be for; the first one unless another is chosen */
function useNewZone(
  reseller: string,
  choices: readonly string[] | undefined,
  onCreated: NewZoneDialogProps["onCreated"],
) {
  const words = texts().dns.newZone;
  return useForm(
    { fqdn: "", crm_id: "", mname: "", rname: "", serial_type: "numeric", ...USUAL_TIMES },
    ({ fqdn, ...values }) => {
      const times = Object.fromEntries(TIMES.map((name) => [name, wholeNumber(values[name])]));
      const body = { ...values, ...times, crm_id: values.crm_id || choices?.[0] };
      return request<Soa & Warned>("POST", dnsApi(reseller, "master_zone", fqdn.trim()), { body });
    },
    ({ domain, ...answer }) => {
      showToast(words.created(domain));
      showWarnings(answer);
      onCreated(domain);
    },
  );
}

interface NoCompaniesProps extends Pick<NewZoneDialogProps, "reseller" | "onClose"> {
  readonly form: ReturnType<typeof useNewZone>;
}

function NoCompanies({ reseller, form, onClose }: NoCompaniesProps) {
  const { newZone: words, zoneList } = texts().dns;
  return (
    <FormDialog title={words.action} form={form} submitLabel={words.action} disabled onClose={onClose}>
      <p>{zoneList.noCompanies}</p>
      <a href={dnsPages.companies(reseller)}>{zoneList.toCompanies}</a>
    </FormDialog>
  );
}
