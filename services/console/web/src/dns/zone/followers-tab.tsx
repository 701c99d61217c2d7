import { useState } from "preact/hooks";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { ConfirmDialog } from "../../components/dialog.tsx";
import { EmptyState } from "../../components/empty-state.tsx";
import { Section } from "../../components/page.tsx";
import { type Column, Table } from "../../components/table.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useRows } from "../../fetched.ts";
import { request } from "../../http.ts";
import { describeSentence } from "../../problem-words.ts";
import { texts } from "../../texts.ts";
import { dnsApi } from "../paths.ts";
import type { Alias, Pool } from "./follower.ts";
import { AliasDialog, EditPoolDialog } from "./follower-dialogs.tsx";
import { PoolDialog } from "./pool-dialog.tsx";
import type { ZoneTabProps } from "./zone-tab.ts";

/** What follows from a change is written a moment later. */
const DERIVED_MS = 2_000;

/** Names whose addresses follow another name, or the health of members. */
export function FollowersTab(props: ZoneTabProps) {
  return (
    <>
      <Aliases {...props} />
      <Pools {...props} />
    </>
  );
}

function Aliases({ reseller, soa, changed }: ZoneTabProps) {
  const { followers: words } = texts().dns;
  const list = useRows<Alias>(dnsApi(reseller, "alias", soa.domain), "alias");
  const [edited, setEdited] = useState<{ readonly current?: Alias }>();
  const [removing, setRemoving] = useState<Alias>();
  const done = afterChange(list.reload, changed);
  const add = (
    <Button icon="add" onClick={() => setEdited({})}>
      {words.addAlias}
    </Button>
  );
  return (
    <Section title={words.aliases} hint={words.aliasesHint} actions={add}>
      <Table<Alias>
        label={words.aliases}
        {...list}
        rowKey={({ alias_id }) => alias_id}
        columns={[
          nameColumn(words.name),
          {
            id: "target",
            label: words.target,
            cell: ({ target }) => <span class="mono">{target}</span>,
          },
          addressesColumn(words.addresses),
          changeColumn<Alias>((current) => setEdited({ current })),
          removalColumn<Alias>(setRemoving),
        ]}
        empty={
          <EmptyState icon="transfer" title={words.noAliases}>
            {null}
          </EmptyState>
        }
      />
      {edited && (
        <AliasDialog
          {...{ reseller, domain: soa.domain, current: edited.current }}
          onDone={done}
          onClose={() => setEdited(undefined)}
        />
      )}
      {removing && (
        <RemovalDialog
          name={removing.name}
          path={dnsApi(reseller, "alias", soa.domain, String(removing.alias_id))}
          done={done}
          onClose={() => setRemoving(undefined)}
        />
      )}
    </Section>
  );
}

function Pools({ reseller, soa, changed }: ZoneTabProps) {
  const { followers: words } = texts().dns;
  const list = useRows<Pool>(dnsApi(reseller, "pool", soa.domain), "pool");
  const [edited, setEdited] = useState<{ readonly current?: Pool }>();
  const [shown, setShown] = useState<Pool>();
  const [removing, setRemoving] = useState<Pool>();
  const done = afterChange(list.reload, changed);
  const path = (pool: Pool) => dnsApi(reseller, "pool", soa.domain, String(pool.pool_id));
  return (
    <Section
      title={words.pools}
      hint={words.poolsHint}
      actions={
        <Button icon="add" onClick={() => setEdited({})}>
          {words.addPool}
        </Button>
      }
    >
      <Table<Pool>
        label={words.pools}
        {...list}
        rowKey={({ pool_id }) => pool_id}
        columns={[
          nameColumn(words.name),
          { id: "rule", label: words.rule, cell: ({ rule }) => words.rules[rule], optional: true },
          addressesColumn(words.addresses),
          {
            id: "show",
            label: "",
            cell: (pool) => (
              <Button small label={`${words.members}: ${pool.name}`} onClick={() => setShown(pool)}>
                {words.members}
              </Button>
            ),
          },
          changeColumn<Pool>((current) => setEdited({ current })),
          removalColumn<Pool>(setRemoving),
        ]}
        empty={
          <EmptyState icon="node" title={words.noPools}>
            {null}
          </EmptyState>
        }
      />
      {edited && (
        <EditPoolDialog
          {...{ reseller, domain: soa.domain, current: edited.current }}
          onDone={done}
          onClose={() => setEdited(undefined)}
        />
      )}
      {shown && <PoolDialog path={path(shown)} name={shown.name} changed={done} onClose={() => setShown(undefined)} />}
      {removing && (
        <RemovalDialog name={removing.name} path={path(removing)} done={done} onClose={() => setRemoving(undefined)} />
      )}
    </Section>
  );
}

function afterChange(reload: () => void, changed: () => void): () => void {
  return () => {
    reload();
    changed();
    setTimeout(reload, DERIVED_MS);
  };
}

type Listed = Pick<Alias, "name" | "a" | "aaaa" | "problem">;

function nameColumn<Row extends Listed>(label: string): Column<Row> {
  return { id: "name", label, cell: ({ name }) => <span class="mono">{name}</span> };
}

function addressesColumn<Row extends Listed>(label: string): Column<Row> {
  return {
    id: "addresses",
    label,
    grows: true,
    cell: ({ a, aaaa, problem }) => (
      <>
        <span class="mono">{[...a, ...aaaa].join(" ") || "–"}</span>{" "}
        {problem !== null && <Badge tone="warn">{describeSentence(problem)}</Badge>}
      </>
    ),
  };
}

function changeColumn<Row extends Listed>(change: (row: Row) => void): Column<Row> {
  const { followers: words } = texts().dns;
  return {
    id: "change",
    label: "",
    align: "end",
    cell: (row) => (
      <Button small icon="edit" label={words.change(row.name)} onClick={() => change(row)}>
        {null}
      </Button>
    ),
  };
}

function removalColumn<Row extends Listed>(remove: (row: Row) => void): Column<Row> {
  const { shell } = texts();
  return {
    id: "remove",
    label: "",
    align: "end",
    cell: (row) => (
      <Button small kind="danger" icon="trash" label={`${shell.remove}: ${row.name}`} onClick={() => remove(row)}>
        {null}
      </Button>
    ),
  };
}

function RemovalDialog(props: {
  readonly name: string;
  readonly path: string;
  readonly done: () => void;
  readonly onClose: () => void;
}) {
  const { followers: words } = texts().dns;
  return (
    <ConfirmDialog
      title={words.remove(props.name)}
      confirmLabel={texts().shell.remove}
      confirm={() => request("DELETE", props.path)}
      done={() => {
        showToast(words.removed(props.name));
        props.done();
      }}
      onClose={props.onClose}
    >
      <p>{words.removeHint}</p>
    </ConfirmDialog>
  );
}
