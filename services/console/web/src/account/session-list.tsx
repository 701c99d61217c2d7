import { useAction } from "../action.ts";
import { Badge } from "../components/badge.tsx";
import { Button } from "../components/button.tsx";
import { Table } from "../components/table.tsx";
import { showToast } from "../components/toasts.tsx";
import { useFetched } from "../fetched.ts";
import { formatAge, formatTime } from "../format.ts";
import { pathOf, request } from "../http.ts";
import { texts } from "../texts.ts";

interface SessionRow {
  readonly id: number;
  readonly address: string;
  readonly agent: string;
  readonly created: string;
  readonly seen: string;
  readonly current: boolean;
}

/** Where the account is signed in. */
export function SessionList() {
  const { account: words } = texts().shell;
  const { value, problem, loading, reload } = useFetched<{ sessions: SessionRow[] }>("/sessions");
  const end = useAction(
    (id: number) => request("DELETE", `/sessions${pathOf(id)}`),
    () => {
      showToast(words.sessionEnded);
      reload();
    },
  );
  return (
    <Table<SessionRow>
      label={words.sessions}
      rows={value?.sessions ?? []}
      rowKey={({ id }) => id}
      loading={loading}
      problem={problem}
      reload={reload}
      empty={null}
      columns={[
        { id: "address", label: words.address, cell: ({ address }) => <span class="mono">{address}</span> },
        { id: "agent", label: words.agent, cell: ({ agent }) => agent, grows: true, optional: true },
        { id: "begun", label: words.begun, cell: ({ created }) => formatTime(created), optional: true },
        { id: "seen", label: words.seen, cell: ({ seen }) => formatAge(seen) },
        {
          id: "end",
          label: "",
          align: "end",
          cell: ({ id, current }) =>
            current ? (
              <Badge tone="accent">{words.thisSession}</Badge>
            ) : (
              <Button small busy={end.busy} onClick={() => void end.run(id)}>
                {words.endSession}
              </Button>
            ),
        },
      ]}
    />
  );
}
