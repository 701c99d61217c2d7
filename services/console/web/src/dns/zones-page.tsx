import { useCallback } from "preact/hooks";
import { useLocation } from "preact-iso";
import { Badge } from "../components/badge.tsx";
import { Button } from "../components/button.tsx";
import { ListPage } from "../components/list-page.tsx";
import type { Column } from "../components/table.tsx";
import { usePages } from "../fetched.ts";
import { formatNumber } from "../format.ts";
import { queryOf } from "../http.ts";
import { useQuery } from "../query.ts";
import { texts } from "../texts.ts";
import { type LEFT_OUT_TONES, LeftOutBadge } from "./left-out-badge.tsx";
import { NewZoneDialog } from "./new-zone-dialog.tsx";
import { dnsPages, resellerApi } from "./paths.ts";

interface ZoneSummary {
  readonly domain: string;
  readonly crm_id: string;
  readonly serial: number;
  readonly suspended: boolean;
  readonly records: number;
  readonly dnssec: boolean;
  readonly left_out: keyof typeof LEFT_OUT_TONES | null;
}

interface ZonesBody {
  readonly zones: readonly ZoneSummary[];
  readonly next: string | null;
}

const PAGE_SIZE = 100;

/** The zones of a reseller, found by any part of the name. */
export function ZonesPage({ reseller }: { readonly reseller: string }) {
  const { dns } = texts();
  const { route } = useLocation();
  const [{ search = "", crm_id }, changeQuery] = useQuery();
  const pages = usePages<ZoneSummary, ZonesBody>(JSON.stringify([reseller, search, crm_id]), {
    path: (after) => resellerApi(reseller, "zones") + queryOf({ search, crm_id, after, limit: PAGE_SIZE }),
    rows: ({ zones }) => zones,
    next: ({ next }) => next ?? undefined,
  });
  const onSearch = useCallback((wanted: string) => changeQuery({ search: wanted }), [changeQuery]);
  return (
    <ListPage<ZoneSummary>
      words={{ title: dns.zones, ...dns.zoneList }}
      icon="globe"
      list={pages}
      rowName={({ domain }) => domain}
      columns={columnsOf(reseller)}
      search={{ label: dns.zoneList.search, value: search, onSearch }}
      narrowed={search !== "" || crm_id !== undefined}
      toolbar={
        crm_id !== undefined && (
          <Button small icon="close" onClick={() => changeQuery({ crm_id: undefined })}>
            {`${dns.company}: ${crm_id}`}
          </Button>
        )
      }
      add={{
        label: dns.newZone.action,
        dialog: (close) => (
          <NewZoneDialog
            reseller={reseller}
            onClose={close}
            onCreated={(domain) => route(dnsPages.zone(reseller, domain))}
          />
        ),
      }}
    />
  );
}

function columnsOf(reseller: string): Column<ZoneSummary>[] {
  const { dns } = texts();
  return [
    {
      id: "domain",
      label: dns.zone,
      grows: true,
      cell: ({ domain, suspended, dnssec, left_out }) => (
        <>
          <a href={dnsPages.zone(reseller, domain)}>{domain}</a> {left_out && <LeftOutBadge leftOut={left_out} />}{" "}
          {suspended && <Badge tone="warn">{dns.suspended}</Badge>} {dnssec && <Badge tone="good">{dns.signed}</Badge>}
        </>
      ),
    },
    { id: "company", label: dns.company, cell: ({ crm_id }) => crm_id, optional: true },
    { id: "records", label: dns.records, align: "end", cell: ({ records }) => formatNumber(records) },
    { id: "serial", label: dns.serial, align: "end", cell: ({ serial }) => serial, optional: true },
  ];
}
