import { Loaded } from "../components/loaded.tsx";
import { Page, Section } from "../components/page.tsx";
import { type Quota, QuotaList } from "../components/quota-list.tsx";
import { useFetched } from "../fetched.ts";
import { texts } from "../texts.ts";
import { dnsApi } from "./paths.ts";

/** What a reseller may have, or for a company's user that company, and what of it is used. */
export function QuotasPage({ reseller }: { readonly reseller: string }) {
  const { quotas: words } = texts().dns;
  return (
    <Page title={words.title}>
      <Section title={words.used}>
        <Quotas path={dnsApi(reseller, "quota")} />
      </Section>
    </Page>
  );
}

/** As a part of a company's page. */
export function CompanyQuotas({ reseller, crmId }: { readonly reseller: string; readonly crmId: string }) {
  return (
    <Section title={texts().dns.quotas.title}>
      <Quotas path={dnsApi(reseller, "company", crmId, "quota")} />
    </Section>
  );
}

function Quotas({ path }: { readonly path: string }) {
  const found = useFetched<{ readonly quotas: readonly Quota[] }>(path);
  return <Loaded of={found}>{({ quotas }) => <QuotaList quotas={quotas} />}</Loaded>;
}
