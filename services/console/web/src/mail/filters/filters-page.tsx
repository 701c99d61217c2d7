import { ListPage } from "../../components/list-page.tsx";
import { useRows } from "../../fetched.ts";
import { formatNumber } from "../../format.ts";
import { queryOf, request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { instancePath, mailPage } from "../addresses.ts";
import { AudienceTabs } from "../contacts/audience-tabs.tsx";
import type { Filter } from "./condition.ts";

/** The saved filters of an instance. */
export function FiltersPage({ instance }: { readonly instance: string }) {
  const words = texts().mail.filters;
  return (
    <ListPage<Filter>
      words={words}
      icon="filter"
      tabs={<AudienceTabs instance={instance} current="filters" />}
      list={useRows<Filter>(instancePath(instance, "filters"), "filtros")}
      rowName={({ nombre }) => nombre}
      add={{ label: words.add, href: mailPage(instance, "contacts", "filters", "new") }}
      removal={{ words, request: ({ id }) => request("DELETE", instancePath(instance, "filters", id)) }}
      columns={[
        {
          id: "name",
          label: words.name,
          grows: true,
          cell: ({ id, nombre }) => <a href={mailPage(instance, "contacts", "filters", id)}>{nombre}</a>,
        },
        {
          id: "contacts",
          label: words.selects,
          align: "end",
          cell: ({ id, contactos, grupo_ausente }) =>
            grupo_ausente === undefined ? (
              <a href={mailPage(instance, "contacts") + queryOf({ filter: id })}>{formatNumber(contactos)}</a>
            ) : (
              words.groupGone(grupo_ausente)
            ),
        },
      ]}
    />
  );
}
