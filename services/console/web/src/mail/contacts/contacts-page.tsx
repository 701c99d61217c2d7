import { useRef, useState } from "preact/hooks";
import { Badge } from "../../components/badge.tsx";
import { Button, LinkButton } from "../../components/button.tsx";
import { EmptyState, NothingFound } from "../../components/empty-state.tsx";
import { Page } from "../../components/page.tsx";
import { SearchField } from "../../components/search-field.tsx";
import { type Column, Table } from "../../components/table.tsx";
import { useFetched, usePages } from "../../fetched.ts";
import { formatNumber, formatWallClock } from "../../format.ts";
import { API, queryOf } from "../../http.ts";
import { useQuery } from "../../query.ts";
import { texts } from "../../texts.ts";
import { instancePath, mailPage } from "../addresses.ts";
import type { Filter } from "../filters/condition.ts";
import { AudienceTabs } from "./audience-tabs.tsx";
import { type ContactSummary, fullName, type Group } from "./contact.ts";
import { ContactDialog } from "./contact-dialog.tsx";

const PAGE_SIZE = 100;

interface ContactsBody {
  readonly total: number;
  readonly contactos: readonly ContactSummary[];
}

/** The contacts of an instance: searched, chosen by group or filter, brought in and taken out. */
export function ContactsPage({ instance }: { readonly instance: string }) {
  const words = texts().mail.contacts;
  const [query, setQuery] = useQuery();
  const [adding, setAdding] = useState(false);
  const page = useRef(1);
  const { search = "", group = "", filter = "" } = query;
  const pages = usePages<ContactSummary, ContactsBody>(JSON.stringify([instance, search, group, filter]), {
    path: (after) => {
      page.current = Number(after ?? 1);
      return (
        instancePath(instance, "contacts") + queryOf({ search, group, filter, page: page.current, limit: PAGE_SIZE })
      );
    },
    rows: ({ contactos }) => contactos,
    next: (body) => (page.current * PAGE_SIZE < body.total ? String(page.current + 1) : undefined),
  });
  const total = pages.newest?.total;
  const isNarrowed = search !== "" || group !== "" || filter !== "";
  return (
    <Page
      title={words.title}
      actions={
        <>
          <LinkButton
            icon="download"
            href={`${API}${instancePath(instance, "contacts", "export")}`}
            download="contacts.csv"
          >
            {words.export}
          </LinkButton>
          <LinkButton icon="upload" href={mailPage(instance, "contacts", "import")}>
            {words.import}
          </LinkButton>
          <Button kind="primary" icon="add" onClick={() => setAdding(true)}>
            {words.add}
          </Button>
        </>
      }
    >
      <AudienceTabs instance={instance} current="contacts" />
      <div class="toolbar">
        <SearchField label={words.search} value={search} onSearch={(text) => setQuery({ search: text || undefined })} />
        <Choices instance={instance} group={group} filter={filter} choose={setQuery} />
        {total !== undefined && <span class="hint">{words.total(formatNumber(total))}</span>}
      </div>
      <Table<ContactSummary>
        label={words.title}
        {...pages}
        rowKey={({ numid }) => numid}
        columns={columnsOf(instance)}
        empty={isNarrowed ? <NothingFound /> : <NoContacts instance={instance} />}
      />
      {adding && <ContactDialog instance={instance} close={() => setAdding(false)} saved={pages.reload} />}
    </Page>
  );
}

function columnsOf(instance: string): readonly Column<ContactSummary>[] {
  const words = texts().mail.contacts;
  return [
    {
      id: "email",
      label: words.email,
      grows: true,
      cell: ({ email }) => <a href={mailPage(instance, "contacts", email, "profile")}>{email}</a>,
    },
    { id: "name", label: words.name, optional: true, cell: (contact) => fullName(contact) },
    { id: "groups", label: words.groups, optional: true, cell: ({ grupos }) => grupos.join(", ") },
    { id: "validity", label: words.validity, cell: ({ invalido }) => <Validity invalid={invalido} /> },
    { id: "updated", label: words.updated, optional: true, cell: ({ actualizado }) => formatWallClock(actualizado) },
  ];
}

export function Validity({ invalid }: { readonly invalid: boolean }) {
  const words = texts().mail.contacts;
  return <Badge tone={invalid ? "bad" : "good"}>{invalid ? words.invalid : words.valid}</Badge>;
}

interface ChoicesProps {
  readonly instance: string;
  readonly group: string;
  readonly filter: string;
  readonly choose: (changes: Readonly<Record<string, string | undefined>>) => void;
}

/** Narrows the list to a group, to a filter, or to both. */
function Choices({ instance, group, filter, choose }: ChoicesProps) {
  const words = texts().mail.contacts;
  const groups = useFetched<{ grupos: readonly Group[] }>(instancePath(instance, "groups")).value?.grupos ?? [];
  const filters = useFetched<{ filtros: readonly Filter[] }>(instancePath(instance, "filters")).value?.filtros ?? [];
  return (
    <>
      <select
        aria-label={words.ofGroup}
        value={group}
        onChange={({ currentTarget }) => choose({ group: currentTarget.value || undefined })}
      >
        <option value="">{words.allGroups}</option>
        {groups.map(({ nombre }) => (
          <option key={nombre} value={nombre}>
            {nombre}
          </option>
        ))}
      </select>
      <select
        aria-label={words.ofFilter}
        value={filter}
        onChange={({ currentTarget }) => choose({ filter: currentTarget.value || undefined })}
      >
        <option value="">{words.allFilters}</option>
        {filters.map(({ id, nombre }) => (
          <option key={id} value={String(id)}>
            {nombre}
          </option>
        ))}
      </select>
    </>
  );
}

function NoContacts({ instance }: { readonly instance: string }) {
  const words = texts().mail.contacts;
  return (
    <EmptyState icon="contact" title={words.empty}>
      <p>{words.emptyHint}</p>
      <LinkButton icon="upload" kind="primary" href={mailPage(instance, "contacts", "import")}>
        {words.import}
      </LinkButton>
    </EmptyState>
  );
}
