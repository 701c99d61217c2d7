import { FormDialog } from "../components/dialog.tsx";
import { TextField } from "../components/field.tsx";
import { ListPage } from "../components/list-page.tsx";
import { showToast } from "../components/toasts.tsx";
import { useRows } from "../fetched.ts";
import { useForm } from "../form.ts";
import { formatNumber } from "../format.ts";
import { queryOf, request } from "../http.ts";
import { showWarnings, type Warned } from "../show-warnings.ts";
import { texts } from "../texts.ts";
import { resellerApi } from "./paths.ts";

interface Catalog {
  readonly zone: string;
  readonly serial: number;
  readonly members: number;
}

/** Catalog zones: what tells secondaries which zones there are. */
export function CatalogsPage({ reseller }: { readonly reseller: string }) {
  const { catalogs: words, serial } = texts().dns;
  const path = resellerApi(reseller, "catalogs");
  const list = useRows<Catalog>(path, "catalogs");
  return (
    <ListPage<Catalog>
      words={words}
      icon="feed"
      list={list}
      rowName={({ zone }) => zone}
      add={{
        label: words.add,
        dialog: (close) => <NewCatalogDialog path={path} onAdded={list.reload} onClose={close} />,
      }}
      removal={{ words, request: ({ zone }) => request("DELETE", path + queryOf({ zone })) }}
      columns={[
        { id: "zone", label: words.zone, cell: ({ zone }) => <span class="mono">{zone}</span>, grows: true },
        { id: "members", label: words.members, align: "end", cell: ({ members }) => formatNumber(members) },
        { id: "serial", label: serial, align: "end", cell: (catalog) => catalog.serial, optional: true },
      ]}
    />
  );
}

interface NewCatalogDialogProps {
  readonly path: string;
  readonly onAdded: () => void;
  readonly onClose: () => void;
}

function NewCatalogDialog({ path, onAdded, onClose }: NewCatalogDialogProps) {
  const { catalogs: words } = texts().dns;
  const form = useForm(
    { zone: "" },
    (body) => request<Warned>("POST", path, { body }),
    (added, { zone }) => {
      showToast(words.added(zone));
      showWarnings(added);
      onAdded();
      onClose();
    },
  );
  return (
    <FormDialog title={words.add} form={form} submitLabel={words.add} onClose={onClose}>
      <TextField {...form.field("zone")} label={words.zone} hint={words.zoneHint} mono required autofocus />
    </FormDialog>
  );
}
