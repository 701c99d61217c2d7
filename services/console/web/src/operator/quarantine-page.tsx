import { useState } from "preact/hooks";
import { useAction } from "../action.ts";
import { Button } from "../components/button.tsx";
import { ListPage } from "../components/list-page.tsx";
import { showToast } from "../components/toasts.tsx";
import { usePages } from "../fetched.ts";
import { formatOctets, formatTime } from "../format.ts";
import { pathOf, queryOf, request } from "../http.ts";
import { SourceDialog } from "../mail/source-dialog.tsx";
import { texts } from "../texts.ts";

interface QuarantinedMessage {
  readonly id: number;
  /** The return path; empty for the null one. */
  readonly from: string;
  readonly octets: number;
  readonly attempts: number;
  readonly problem: string;
  readonly received: string;
}

const PAGE_SIZE = 100;

/** Messages that came back and that no bounce worker could cope with. */
export function QuarantinePage() {
  const { quarantine: words } = texts().operator;
  const [shown, setShown] = useState<QuarantinedMessage>();
  const pages = usePages<QuarantinedMessage, { quarantine: QuarantinedMessage[] }>("quarantine", {
    path: (before) => `/quarantine${queryOf({ limit: PAGE_SIZE, before })}`,
    rows: ({ quarantine }) => quarantine,
    next: ({ quarantine }) => (quarantine.length < PAGE_SIZE ? undefined : String(quarantine.at(-1)?.id)),
  });
  const retry = useAction(
    (id: number) => request("POST", pathOf("quarantine", id, "retry")),
    () => {
      showToast(words.retried);
      pages.reload();
    },
  );
  return (
    <ListPage<QuarantinedMessage>
      words={words}
      icon="check"
      list={pages}
      rowName={({ id }) => String(id)}
      rowActions={(message) => (
        <>
          <Button small label={`${words.show}: ${message.id}`} onClick={() => setShown(message)}>
            {words.show}
          </Button>
          <Button
            small
            busy={retry.busy}
            label={`${words.retry}: ${message.id}`}
            onClick={() => void retry.run(message.id)}
          >
            {words.retry}
          </Button>
        </>
      )}
      removal={{ words, request: ({ id }) => request("DELETE", pathOf("quarantine", id)) }}
      columns={[
        { id: "received", label: words.received, cell: ({ received }) => formatTime(received), optional: true },
        { id: "from", label: words.from, cell: ({ from }) => <span class="mono">{from || "<>"}</span> },
        { id: "problem", label: words.problem, cell: ({ problem }) => problem, grows: true },
        { id: "attempts", label: words.attempts, align: "end", cell: ({ attempts }) => attempts, optional: true },
        { id: "size", label: words.size, align: "end", cell: ({ octets }) => formatOctets(octets), optional: true },
      ]}
    >
      {shown && (
        <SourceDialog
          title={shown.problem}
          label={shown.from || "<>"}
          path={pathOf("quarantine", shown.id)}
          onClose={() => setShown(undefined)}
        />
      )}
    </ListPage>
  );
}
