import { useState } from "preact/hooks";
import { Badge, NameAndState } from "../components/badge.tsx";
import { Button } from "../components/button.tsx";
import { ListPage } from "../components/list-page.tsx";
import { useRows } from "../fetched.ts";
import { pathOf } from "../http.ts";
import { texts } from "../texts.ts";
import type { Instance } from "./instance.ts";
import { InstanceSettingsDialog } from "./instance-settings-dialog.tsx";
import { NewInstanceDialog } from "./new-instance-dialog.tsx";
import { NewKeyDialog } from "./new-key-dialog.tsx";

/** The instances of the mail platform: their licences, settings and keys. */
export function InstancesPage() {
  const { instances: words, keys } = texts().operator;
  const list = useRows<Instance>("/instances", "instances");
  const [changing, setChanging] = useState<Instance>();
  const [rotating, setRotating] = useState<Instance>();
  return (
    <ListPage<Instance>
      words={words}
      icon="instance"
      list={list}
      rowName={({ name }) => name}
      add={{ label: words.add, dialog: (close) => <NewInstanceDialog onAdded={list.reload} onClose={close} /> }}
      rowActions={(instance) => (
        <>
          <Button small label={`${words.settings}: ${instance.name}`} onClick={() => setChanging(instance)}>
            {words.settings}
          </Button>
          <Button small label={`${keys.rotate}: ${instance.name}`} onClick={() => setRotating(instance)}>
            {keys.rotate}
          </Button>
        </>
      )}
      columns={[
        {
          id: "name",
          label: words.name,
          cell: ({ name, archive }) => (
            <NameAndState
              name={<a href={`/mail${pathOf(name)}/campaigns`}>{name}</a>}
              state={archive && <Badge tone="accent">{words.archives}</Badge>}
            />
          ),
        },
        { id: "host", label: words.host, cell: ({ host }) => <span class="mono">{host}</span> },
        {
          id: "domains",
          label: words.domains,
          cell: ({ domains }) => <span class="mono clamped">{domains.join(", ")}</span>,
          grows: true,
          optional: true,
        },
        { id: "zone", label: words.timeZone, cell: ({ time_zone }) => time_zone, optional: true },
      ]}
    >
      {changing && (
        <InstanceSettingsDialog instance={changing} onChanged={list.reload} onClose={() => setChanging(undefined)} />
      )}
      {rotating && (
        <NewKeyDialog
          name={rotating.name}
          label={words.keyOf(rotating.name)}
          path={pathOf("instances", rotating.name, "key")}
          onClose={() => setRotating(undefined)}
        />
      )}
    </ListPage>
  );
}
