import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { ListPage } from "../../components/list-page.tsx";
import { usePages } from "../../fetched.ts";
import { formatNumber, formatTime } from "../../format.ts";
import { queryOf } from "../../http.ts";
import { useQuery } from "../../query.ts";
import { texts } from "../../texts.ts";
import { instancePath, mailPage } from "../addresses.ts";
import { BATCH_TONES, type Batch, isOver } from "./batch.ts";

const PAGE_SIZE = 50;
const REFRESH_MS = 3_000;

/** The batches of an instance, newest first: what was sent, and what is under way. */
export function SendsPage({ instance }: { readonly instance: string }) {
  const words = texts().mail.sends;
  const [{ campaign = "" }, setQuery] = useQuery();
  const pages = usePages<Batch, { batches: readonly Batch[] }>(JSON.stringify([instance, campaign]), {
    path: (before) => instancePath(instance, "batches") + queryOf({ campaign, before, limit: PAGE_SIZE }),
    rows: ({ batches }) => batches,
    next: ({ batches }) => (batches.length < PAGE_SIZE ? undefined : batches.at(-1)?.eeid),
    pauseMs: (rows) => (rows.length <= PAGE_SIZE && !rows.every(isOver) ? REFRESH_MS : undefined),
  });
  return (
    <ListPage<Batch>
      words={words}
      icon="send"
      list={pages}
      rowName={({ eeid }) => eeid}
      toolbar={
        campaign !== "" && (
          <>
            <span>{words.ofCampaign(campaign)}</span>
            <Button small icon="close" onClick={() => setQuery({ campaign: undefined })}>
              {words.allCampaigns}
            </Button>
          </>
        )
      }
      columns={[
        {
          id: "time",
          label: words.accepted,
          cell: ({ eeid, timestamp }) => <a href={mailPage(instance, "sends", eeid)}>{formatTime(timestamp)}</a>,
        },
        {
          id: "campaign",
          label: words.campaign,
          align: "end",
          cell: ({ campana_id }) => <a href={mailPage(instance, "campaigns", campana_id)}>{campana_id}</a>,
        },
        { id: "creator", label: words.creator, optional: true, grows: true, cell: ({ creador_id }) => creador_id },
        {
          id: "recipients",
          label: words.recipients,
          align: "end",
          cell: ({ destinatarios }) => formatNumber(destinatarios),
        },
        {
          id: "refused",
          label: words.refused,
          align: "end",
          optional: true,
          cell: ({ salidas_con_error }) => formatNumber(salidas_con_error),
        },
        { id: "state", label: words.state, cell: (batch) => <BatchState batch={batch} /> },
      ]}
    />
  );
}

export function BatchState({ batch: { estado, pausado } }: { readonly batch: Batch }) {
  const words = texts().mail.sends;
  if (pausado) return <Badge tone="warn">{words.paused}</Badge>;
  return <Badge tone={BATCH_TONES[estado]}>{words.states[estado]}</Badge>;
}
