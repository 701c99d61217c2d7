import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Rows } from "../fetched.ts";
import type { Answer } from "../http.ts";
import { texts } from "../texts.ts";
import { Button, LinkButton } from "./button.tsx";
import { ConfirmDialog } from "./dialog.tsx";
import { EmptyState, NothingFound } from "./empty-state.tsx";
import type { IconName } from "./icon.tsx";
import { type Crumb, Page } from "./page.tsx";
import { SearchField } from "./search-field.tsx";
import { type Column, Table } from "./table.tsx";
import { showToast } from "./toasts.tsx";

interface ListPageProps<Row> {
  readonly words: {
    readonly title: string;
    readonly intro?: string;
    readonly empty: string;
    /** What to do about it. */
    readonly emptyHint: string;
  };
  readonly crumbs?: readonly Crumb[];
  /** The lists that this is one of. */
  readonly tabs?: ComponentChildren;
  readonly list: Rows<Row>;
  /** What a row is called, by which the list also tells rows apart. */
  readonly rowName: (row: Row) => string;
  readonly columns: readonly Column<Row>[];
  /** Stands for the list where there is nothing yet. */
  readonly icon: IconName;
  readonly search?: ListSearch;
  /** Beside the search: what else narrows the list. */
  readonly toolbar?: ComponentChildren;
  /** Whether the list is narrowed, so that an empty one says nothing about what there is. */
  readonly narrowed?: boolean;
  /** Makes a new row: shown above the list, and again where it is empty. */
  readonly add?: AddAction;
  /** Buttons beside that one. */
  readonly actions?: ComponentChildren;
  /** Buttons of a row, before the one that deletes it. */
  readonly rowActions?: (row: Row) => ComponentChildren;
  readonly removal?: Removal<Row>;
  /** Below the list: what belongs to it, and its dialogs. */
  readonly children?: ComponentChildren;
}

interface ListSearch {
  readonly label: string;
  readonly value: string;
  readonly onSearch: (search: string) => void;
}

/** Opens a dialog, or leads to a page. */
type AddAction = { readonly label: string; readonly icon?: IconName } & (
  | { readonly dialog: (close: () => void) => ComponentChildren; readonly href?: undefined }
  | { readonly href: string; readonly dialog?: undefined }
);

interface Removal<Row> {
  readonly words: {
    readonly removeTitle: (name: string) => string;
    readonly removeHint: string;
    /** What is said afterwards, where the usual words do not fit. */
    readonly removed?: (name: string) => string;
  };
  readonly request: (row: Row) => Promise<Answer<unknown>>;
  /** The row's name must be typed first. */
  readonly typed?: boolean;
}

/** A page that is a list: what it is for, its rows, a way to add one and to delete one, and what to do while it is empty. */
export function ListPage<Row>(props: ListPageProps<Row>) {
  const { words, crumbs, tabs, list, rowName, columns, icon, search, toolbar, add, actions, rowActions, removal } =
    props;
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Row>();
  const narrowed = props.narrowed ?? (search !== undefined && search.value !== "");
  const addButton = add && <AddButton {...add} onClick={() => setAdding(true)} />;
  const buttons: Column<Row> = {
    id: "actions",
    label: "",
    align: "end",
    cell: (row) => (
      <span class="row-actions">
        {rowActions?.(row)}
        {removal && <RemoveButton name={rowName(row)} onClick={() => setRemoving(row)} />}
      </span>
    ),
  };
  return (
    <Page title={words.title} {...(crumbs ? { crumbs } : {})} actions={(actions || addButton) && [actions, addButton]}>
      {tabs}
      {words.intro !== undefined && <p class="intro">{words.intro}</p>}
      {(search || toolbar) && (
        <div class="toolbar">
          {search && <SearchField {...search} />}
          {toolbar}
        </div>
      )}
      <Table<Row>
        label={words.title}
        {...list}
        rowKey={rowName}
        columns={rowActions || removal ? [...columns, buttons] : columns}
        empty={narrowed ? <NothingFound /> : <NothingYet words={words} icon={icon} addButton={addButton} />}
      />
      {props.children}
      {adding && add?.dialog?.(() => setAdding(false))}
      {removal && removing !== undefined && (
        <RemoveDialog
          name={rowName(removing)}
          row={removing}
          removal={removal}
          reload={list.reload}
          onClose={() => setRemoving(undefined)}
        />
      )}
    </Page>
  );
}

interface NothingYetProps extends Pick<ListPageProps<never>, "words" | "icon"> {
  readonly addButton: ComponentChildren;
}

function NothingYet({ words, icon, addButton }: NothingYetProps) {
  return (
    <EmptyState icon={icon} title={words.empty}>
      <p>{words.emptyHint}</p>
      {addButton}
    </EmptyState>
  );
}

function AddButton({ label, icon = "add", href, onClick }: AddAction & { readonly onClick: () => void }) {
  if (href !== undefined) {
    return (
      <LinkButton kind="primary" icon={icon} href={href}>
        {label}
      </LinkButton>
    );
  }
  return (
    <Button kind="primary" icon={icon} onClick={onClick}>
      {label}
    </Button>
  );
}

function RemoveButton({ name, onClick }: { readonly name: string; readonly onClick: () => void }) {
  const { remove } = texts().shell;
  return (
    <Button small label={`${remove}: ${name}`} onClick={onClick}>
      {remove}
    </Button>
  );
}

interface RemoveDialogProps<Row> {
  readonly name: string;
  readonly row: Row;
  readonly removal: Removal<Row>;
  readonly reload: () => void;
  readonly onClose: () => void;
}

function RemoveDialog<Row>({ name, row, removal, reload, onClose }: RemoveDialogProps<Row>) {
  const { words, request, typed } = removal;
  return (
    <ConfirmDialog
      title={words.removeTitle(name)}
      confirmLabel={texts().shell.remove}
      {...(typed ? { typed: name } : {})}
      confirm={() => request(row)}
      done={() => {
        showToast((words.removed ?? texts().shell.removed)(name));
        reload();
      }}
      onClose={onClose}
    >
      <p>{words.removeHint}</p>
    </ConfirmDialog>
  );
}
