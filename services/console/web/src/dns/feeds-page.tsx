import { useAction } from "../action.ts";
import { Badge } from "../components/badge.tsx";
import { Button } from "../components/button.tsx";
import { ListPage } from "../components/list-page.tsx";
import { showToast } from "../components/toasts.tsx";
import { useFetched } from "../fetched.ts";
import { formatNumber } from "../format.ts";
import { request } from "../http.ts";
import { texts } from "../texts.ts";
import type { Feed, ResellerFeeds } from "./feed.ts";
import { resellerApi } from "./paths.ts";

/** The policy feeds that a reseller's resolvers may have. */
export function FeedsPage({ reseller }: { readonly reseller: string }) {
  const { feeds: words } = texts().dns;
  const { value, ...state } = useFetched<ResellerFeeds>(resellerApi(reseller, "rpz"));
  const isLicensed = value?.licence !== false;
  const toggle = useAction(
    ({ zone, active }: Feed) => request(active ? "DELETE" : "PUT", resellerApi(reseller, "rpz", zone)),
    (_reply, { zone, active }) => {
      showToast(active ? words.deactivated(zone) : words.activated(zone));
      state.reload();
    },
  );
  return (
    <ListPage<Feed>
      words={isLicensed ? words : { ...words, emptyHint: words.unlicensed }}
      icon={isLicensed ? "shield" : "lock"}
      list={{ rows: isLicensed ? (value?.rpz ?? []) : [], ...state }}
      rowName={({ zone }) => zone}
      rowActions={(feed) => {
        const verb = feed.active ? words.deactivate : words.activate;
        return (
          <Button small busy={toggle.busy} label={`${verb}: ${feed.zone}`} onClick={() => void toggle.run(feed)}>
            {verb}
          </Button>
        );
      }}
      columns={[
        { id: "zone", label: words.feed, cell: ({ zone }) => <span class="mono">{zone}</span>, grows: true },
        { id: "rules", label: words.rules, align: "end", cell: ({ rules }) => formatNumber(rules) },
        {
          id: "active",
          label: words.state,
          cell: ({ active }) => (
            <Badge tone={active ? "good" : "quiet"}>{active ? words.active : words.inactive}</Badge>
          ),
        },
      ]}
    />
  );
}
