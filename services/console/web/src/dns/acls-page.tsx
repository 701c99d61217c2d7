import { useState } from "preact/hooks";
import { Badge } from "../components/badge.tsx";
import { Button } from "../components/button.tsx";
import { ListPage } from "../components/list-page.tsx";
import { useRows } from "../fetched.ts";
import { request } from "../http.ts";
import { texts } from "../texts.ts";
import type { Acl } from "./acl.ts";
import { NewAclDialog } from "./new-acl-dialog.tsx";
import { resellerApi } from "./paths.ts";
import { StanzaDialog } from "./stanza-dialog.tsx";

/** Who may transfer the reseller's zones, and what to paste at the other end. */
export function AclsPage({ reseller }: { readonly reseller: string }) {
  const { acls: words } = texts().dns;
  const list = useRows<Acl>(resellerApi(reseller, "acls"), "acls");
  const [shown, setShown] = useState<string>();
  return (
    <ListPage<Acl>
      words={words}
      icon="transfer"
      list={list}
      rowName={({ name }) => name}
      add={{
        label: words.add,
        dialog: (close) => (
          <NewAclDialog
            reseller={reseller}
            onAdded={(name) => {
              close();
              setShown(name);
              list.reload();
            }}
            onClose={close}
          />
        ),
      }}
      rowActions={({ name }) => (
        <Button small label={`${words.stanza}: ${name}`} onClick={() => setShown(name)}>
          {words.stanza}
        </Button>
      )}
      removal={{ words, request: ({ name }) => request("DELETE", resellerApi(reseller, "acls", name)) }}
      columns={[
        { id: "name", label: words.name, cell: ({ name }) => <strong>{name}</strong> },
        {
          id: "blocks",
          label: words.blocks,
          cell: ({ blocks }) => <span class="mono clamped">{blocks.join(", ") || "–"}</span>,
          grows: true,
        },
        {
          id: "tsig",
          label: "TSIG",
          cell: ({ tsig }) => tsig && <Badge tone="accent">{`${tsig.name} (${tsig.algorithm})`}</Badge>,
          optional: true,
        },
        {
          id: "zones",
          label: words.zones,
          cell: ({ zones }) => <span class="clamped">{zones?.join(", ") ?? words.allZones}</span>,
          grows: true,
          optional: true,
        },
      ]}
    >
      {shown !== undefined && <StanzaDialog reseller={reseller} acl={shown} onClose={() => setShown(undefined)} />}
    </ListPage>
  );
}
