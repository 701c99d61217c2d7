import { useState } from "preact/hooks";
import { useAction } from "../action.ts";
import { Badge, NameAndState } from "../components/badge.tsx";
import { Button } from "../components/button.tsx";
import { FormDialog } from "../components/dialog.tsx";
import { TextField } from "../components/field.tsx";
import { ListPage } from "../components/list-page.tsx";
import { showToast } from "../components/toasts.tsx";
import { useRows } from "../fetched.ts";
import { useForm } from "../form.ts";
import { formatAge, formatNumber } from "../format.ts";
import { pathOf, request } from "../http.ts";
import { texts } from "../texts.ts";
import type { Queue } from "./queue.ts";

const REFRESH_MS = 5_000;

type Verb = "hold" | "release" | "retry";

/** What waits, by destination, and the operator's hand on it. */
export function QueuesPage() {
  const { queues: words } = texts().operator;
  const list = useRows<Queue>("/queues", "queues", REFRESH_MS);
  const [holding, setHolding] = useState(false);
  const said = { hold: words.held, release: words.released, retry: words.retried };
  const act = useAction(turn, (_reply, destination: string, verb: Verb) => {
    showToast(said[verb](destination));
    list.reload();
  });
  const rowAction = (verb: Verb, { destination }: Queue, disabled = false) => (
    <Button
      small
      busy={act.busy}
      disabled={disabled}
      label={`${words[verb]}: ${destination}`}
      onClick={() => void act.run(destination, verb)}
    >
      {words[verb]}
    </Button>
  );
  return (
    <ListPage<Queue>
      words={words}
      icon="queue"
      list={list}
      rowName={({ destination }) => destination}
      actions={
        <Button icon="pause" onClick={() => setHolding(true)}>
          {words.holdOther}
        </Button>
      }
      rowActions={(queue) => [rowAction(queue.held ? "release" : "hold", queue), rowAction("retry", queue, queue.held)]}
      columns={[
        {
          id: "destination",
          label: words.destination,
          cell: ({ destination, held }) => (
            <NameAndState
              name={<span class="mono">{destination}</span>}
              state={held && <Badge tone="warn">{words.isHeld}</Badge>}
            />
          ),
        },
        { id: "waiting", label: words.waiting, align: "end", cell: ({ waiting }) => formatNumber(waiting) },
        { id: "due", label: words.due, align: "end", cell: ({ due }) => formatNumber(due), optional: true },
        { id: "oldest", label: words.oldest, cell: ({ oldest }) => formatAge(oldest), optional: true },
        {
          id: "error",
          label: words.lastError,
          cell: ({ last_error }) => last_error ?? "",
          grows: true,
          optional: true,
        },
      ]}
    >
      {holding && <HoldDialog onHeld={list.reload} onClose={() => setHolding(false)} />}
    </ListPage>
  );
}

function turn(destination: string, verb: Verb) {
  return request("POST", pathOf("queues", destination, verb));
}

function HoldDialog({ onHeld, onClose }: { readonly onHeld: () => void; readonly onClose: () => void }) {
  const { queues: words } = texts().operator;
  const form = useForm(
    { destination: "" },
    ({ destination }) => turn(destination.trim(), "hold"),
    (_reply, { destination }) => {
      showToast(words.held(destination));
      onHeld();
      onClose();
    },
  );
  return (
    <FormDialog
      title={words.holdOther}
      form={form}
      submitLabel={words.hold}
      disabled={form.values.destination.trim() === ""}
      onClose={onClose}
    >
      <TextField
        {...form.field("destination")}
        label={words.destination}
        hint={words.holdOtherHint}
        mono
        required
        autofocus
      />
    </FormDialog>
  );
}
