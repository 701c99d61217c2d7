import { useCallback } from "preact/hooks";
import { useLocation } from "preact-iso";
import { Badge } from "../../components/badge.tsx";
import { ListPage } from "../../components/list-page.tsx";
import { usePages } from "../../fetched.ts";
import { queryOf } from "../../http.ts";
import { useQuery } from "../../query.ts";
import { texts } from "../../texts.ts";
import { instancePath, mailPage } from "../addresses.ts";
import { type Campaign, type CampaignState, STATE_TONES } from "./campaign.ts";
import { CreateDialog } from "./create-dialog.tsx";

const PAGE_SIZE = 100;

/** The campaigns of an instance. */
export function CampaignsPage({ instance }: { readonly instance: string }) {
  const words = texts().mail.campaigns;
  const { route } = useLocation();
  const [{ search = "" }, setQuery] = useQuery();
  const pages = usePages<Campaign, { campaigns: readonly Campaign[] }>(JSON.stringify([instance, search]), {
    path: (before) => instancePath(instance, "campaigns") + queryOf({ search, before, limit: PAGE_SIZE }),
    rows: ({ campaigns }) => campaigns,
    next: ({ campaigns }) => (campaigns.length < PAGE_SIZE ? undefined : String(campaigns.at(-1)?.numid)),
  });
  const onSearch = useCallback((wanted: string) => setQuery({ search: wanted }), [setQuery]);
  return (
    <ListPage<Campaign>
      words={words}
      icon="send"
      list={pages}
      rowName={({ numid }) => String(numid)}
      search={{ label: words.search, value: search, onSearch }}
      add={{
        label: words.create,
        dialog: (close) => (
          <CreateDialog
            instance={instance}
            close={close}
            created={(numid) => route(mailPage(instance, "campaigns", numid))}
          />
        ),
      }}
      columns={[
        { id: "numid", label: words.numid, align: "end", optional: true, cell: ({ numid }) => numid },
        {
          id: "name",
          label: words.name,
          grows: true,
          cell: ({ numid, nombre }) => <a href={mailPage(instance, "campaigns", numid)}>{nombre}</a>,
        },
        { id: "type", label: words.type, cell: ({ tipo }) => words.types[tipo] },
        { id: "subject", label: words.subject, optional: true, cell: ({ asunto }) => asunto },
        { id: "state", label: words.state, cell: ({ estado }) => estado && <StateBadge state={estado} /> },
      ]}
    />
  );
}

export function StateBadge({ state }: { readonly state: CampaignState }) {
  return <Badge tone={STATE_TONES[state]}>{texts().mail.campaigns.states[state]}</Badge>;
}
