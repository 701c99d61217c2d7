import type { FunctionComponent } from "preact";
import { Badge } from "../../components/badge.tsx";
import { Loaded } from "../../components/loaded.tsx";
import { Page, Tabs } from "../../components/page.tsx";
import { useFetched } from "../../fetched.ts";
import { texts } from "../../texts.ts";
import { LeftOutBadge } from "../left-out-badge.tsx";
import { LookupBox } from "../lookup-box.tsx";
import { dnsApi, dnsPages, resellerApi } from "../paths.ts";
import type { Soa } from "../record.ts";
import { DnssecTab } from "./dnssec-tab.tsx";
import { FileTab } from "./file-tab.tsx";
import { FollowersTab } from "./followers-tab.tsx";
import { HistoryTab } from "./history-tab.tsx";
import { RecordsTab } from "./records-tab.tsx";
import { SettingsTab } from "./settings-tab.tsx";
import type { ZoneTabProps } from "./zone-tab.ts";
import "../dns.css";

const TABS = {
  records: RecordsTab,
  followers: FollowersTab,
  file: FileTab,
  history: HistoryTab,
  dnssec: DnssecTab,
  lookup: ({ soa }: ZoneTabProps) => <LookupBox first={{ name: soa.domain, type: "A", dnssec: false }} />,
  settings: SettingsTab,
} satisfies Readonly<Record<string, FunctionComponent<ZoneTabProps>>>;

type TabId = keyof typeof TABS;
const TAB_IDS = Object.keys(TABS) as TabId[];

/** On how many name servers the zone, or its latest version, does not fit. */
interface Publication {
  readonly withheld: number;
  readonly outdated: number;
}

/** Whether there is room for a zone may change without anybody touching it. */
const PUBLICATION_MS = 10_000;

interface ZonePageProps {
  readonly reseller: string;
  readonly domain: string;
  readonly tab: string;
}

/** A zone: its records, its file, its past, its signatures, its settings. */
export function ZonePage({ reseller, domain, tab }: ZonePageProps) {
  const { dns } = texts();
  const soa = useFetched<Soa>(dnsApi(reseller, "soa", domain));
  const publication = useFetched<Publication>(resellerApi(reseller, "zones", domain, "publication"), PUBLICATION_MS);
  const current = TAB_IDS.find((id) => id === tab) ?? "records";
  const Tab = TABS[current];
  return (
    <Page
      title={soa.value?.domain ?? domain}
      crumbs={[{ label: dns.zones, href: dnsPages.zones(reseller) }]}
      badges={
        soa.value && (
          <>
            <Badge tone={soa.value.suspended ? "warn" : "good"}>
              {soa.value.suspended ? dns.suspended : dns.active}
            </Badge>{" "}
            <Badge tone="quiet">{`${dns.serial} ${soa.value.serial}`}</Badge>{" "}
            {publication.value && <PublicationBadges {...publication.value} />}
          </>
        )
      }
    >
      <Tabs
        label={dns.tabs.label}
        current={current}
        tabs={TAB_IDS.map((id) => ({ id, label: dns.tabs[id], href: dnsPages.zone(reseller, domain, id) }))}
      />
      <Loaded of={soa}>
        {(value) => <Tab key={`${current} ${value.domain}`} reseller={reseller} soa={value} changed={soa.reload} />}
      </Loaded>
    </Page>
  );
}

function PublicationBadges({ withheld, outdated }: Publication) {
  return (
    <>
      {withheld > 0 && <LeftOutBadge leftOut="withheld" />} {outdated > 0 && <LeftOutBadge leftOut="outdated" />}
    </>
  );
}
