import { useState } from "preact/hooks";
import { Badge } from "../components/badge.tsx";
import { Button } from "../components/button.tsx";
import { FormDialog } from "../components/dialog.tsx";
import { ListPage } from "../components/list-page.tsx";
import { useRows } from "../fetched.ts";
import { useForm } from "../form.ts";
import { formatTime } from "../format.ts";
import { queryOf, request } from "../http.ts";
import { texts } from "../texts.ts";
import { NewTokenDialog } from "./new-token-dialog.tsx";
import { dnsApi } from "./paths.ts";
import type { MadeToken, Token } from "./token.ts";
import { TokenSecretsDialog } from "./token-secrets-dialog.tsx";

/** What programs call with instead of a key, and what each of them may do. */
export function TokensPage({ reseller }: { readonly reseller: string }) {
  const { tokens: words } = texts().dns;
  const list = useRows<Token>(dnsApi(reseller, "tokens"), "tokens");
  const [made, setMade] = useState<MadeToken>();
  const [rotating, setRotating] = useState<Token>();
  const show = (token: MadeToken) => {
    setMade(token);
    list.reload();
  };
  return (
    <ListPage<Token>
      words={words}
      icon="key"
      list={list}
      rowName={({ name, crm_id }) => (crm_id === null ? name : `${crm_id}/${name}`)}
      add={{
        label: words.add,
        dialog: (close) => (
          <NewTokenDialog
            reseller={reseller}
            onMade={(token) => {
              close();
              show(token);
            }}
            onClose={close}
          />
        ),
      }}
      rowActions={(token) => (
        <Button small label={`${words.rotate}: ${token.name}`} onClick={() => setRotating(token)}>
          {words.rotate}
        </Button>
      )}
      removal={{ words, request: (token) => request("DELETE", pathOfToken(reseller, token)) }}
      columns={columnsOf(words)}
    >
      {rotating && (
        <RotateDialog
          reseller={reseller}
          token={rotating}
          onRotated={(token) => {
            setRotating(undefined);
            show(token);
          }}
          onClose={() => setRotating(undefined)}
        />
      )}
      {made && <TokenSecretsDialog made={made} onClose={() => setMade(undefined)} />}
    </ListPage>
  );
}

const columnsOf = (words: ReturnType<typeof texts>["dns"]["tokens"]) => [
  { id: "name", label: words.name, cell: ({ name }: Token) => <strong>{name}</strong> },
  { id: "company", label: words.company, cell: ({ crm_id }: Token) => crm_id ?? "–", optional: true },
  {
    id: "policy",
    label: words.policy,
    cell: ({ zones, names, types, verbs }: Token) => (
      <span class="mono clamped">
        {[zones, names, types]
          .map((part) => part?.join(", "))
          .filter(Boolean)
          .join(" · ") || words.everything}{" "}
        <Badge tone={verbs.length > 0 ? "accent" : "good"}>
          {verbs.map((verb) => words.verb[verb]).join(", ") || words.readOnly}
        </Badge>
      </span>
    ),
    grows: true,
  },
  {
    id: "expires",
    label: words.expires,
    cell: ({ expires }: Token) => (expires === null ? words.never : formatTime(expires)),
    optional: true,
  },
  {
    id: "used",
    label: words.lastUsed,
    cell: ({ last_used, last_used_from }: Token) =>
      last_used === null ? "–" : `${formatTime(last_used)} ${last_used_from ?? ""}`,
    optional: true,
  },
];

function RotateDialog(props: {
  readonly reseller: string;
  readonly token: Token;
  readonly onRotated: (token: MadeToken) => void;
  readonly onClose: () => void;
}) {
  const { tokens: words } = texts().dns;
  const { reseller, token, onRotated, onClose } = props;
  const form = useForm(
    {},
    () =>
      request<MadeToken>("POST", pathOfToken(reseller, token, "rotate"), {
        body: token.crm_id === null ? {} : { crm_id: token.crm_id },
      }),
    onRotated,
  );
  return (
    <FormDialog title={words.rotateTitle(token.name)} form={form} submitLabel={words.rotate} danger onClose={onClose}>
      <p>{words.rotateHint}</p>
    </FormDialog>
  );
}

function pathOfToken(reseller: string, { name, crm_id }: Token, ...rest: readonly string[]): string {
  const path = dnsApi(reseller, "token", name, ...rest);
  return rest.length === 0 && crm_id !== null ? path + queryOf({ crm_id }) : path;
}
