import { useLocation } from "preact-iso";
import { FormDialog } from "../components/dialog.tsx";
import { TextField } from "../components/field.tsx";
import { ListPage } from "../components/list-page.tsx";
import { showToast } from "../components/toasts.tsx";
import { useRows } from "../fetched.ts";
import { useForm } from "../form.ts";
import { formatNumber } from "../format.ts";
import { pathOf, request } from "../http.ts";
import { showWarnings, type Warned } from "../show-warnings.ts";
import { texts } from "../texts.ts";

interface Feed {
  readonly zone: string;
  readonly serial: number;
  readonly rules: number;
}

/** A feed is never the last segment of an address: with its dots it would look like a file. */
const rulesPage = (zone: string) => `/operator/feeds${pathOf(zone)}/rules`;

/** The policy feeds of the deployment. */
export function FeedsPage() {
  const { operator, dns } = texts();
  const words = operator.feeds;
  const { route } = useLocation();
  return (
    <ListPage<Feed>
      words={words}
      icon="shield"
      list={useRows<Feed>("/rpz", "rpz")}
      rowName={({ zone }) => zone}
      add={{
        label: words.add,
        dialog: (close) => <NewFeedDialog onAdded={(zone) => route(rulesPage(zone))} onClose={close} />,
      }}
      removal={{ words, request: ({ zone }) => request("DELETE", pathOf("rpz", zone)), typed: true }}
      columns={[
        {
          id: "zone",
          label: words.zone,
          cell: ({ zone }) => (
            <a class="mono" href={rulesPage(zone)}>
              {zone}
            </a>
          ),
          grows: true,
        },
        { id: "rules", label: words.rules, align: "end", cell: ({ rules }) => formatNumber(rules) },
        { id: "serial", label: dns.serial, align: "end", cell: ({ serial }) => serial, optional: true },
      ]}
    />
  );
}

interface NewFeedDialogProps {
  readonly onAdded: (zone: string) => void;
  readonly onClose: () => void;
}

function NewFeedDialog({ onAdded, onClose }: NewFeedDialogProps) {
  const { feeds: words } = texts().operator;
  const form = useForm(
    { zone: "" },
    (body) => request<Feed & Warned>("POST", "/rpz", { body }),
    ({ zone, ...answer }) => {
      showToast(words.added(zone));
      showWarnings(answer);
      onAdded(zone);
    },
  );
  return (
    <FormDialog title={words.add} form={form} submitLabel={words.add} onClose={onClose}>
      <TextField {...form.field("zone")} label={words.zone} hint={words.zoneHint} mono required autofocus />
    </FormDialog>
  );
}
