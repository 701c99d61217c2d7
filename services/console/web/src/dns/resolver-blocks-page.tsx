import { FormDialog } from "../components/dialog.tsx";
import { TextField } from "../components/field.tsx";
import { ListPage } from "../components/list-page.tsx";
import { showToast } from "../components/toasts.tsx";
import { useRows } from "../fetched.ts";
import { useForm } from "../form.ts";
import { queryOf, request } from "../http.ts";
import { texts } from "../texts.ts";
import { resellerApi } from "./paths.ts";

interface ResolverBlock {
  readonly block: string;
  readonly description: string;
}

/** From where the resolvers may be used. */
export function ResolverBlocksPage({ reseller }: { readonly reseller: string }) {
  const { blocks: words } = texts().dns;
  const path = resellerApi(reseller, "resolver_blocks");
  const list = useRows<ResolverBlock>(path, "resolver_blocks");
  return (
    <ListPage<ResolverBlock>
      words={words}
      icon="block"
      list={list}
      rowName={({ block }) => block}
      add={{
        label: words.add,
        dialog: (close) => <NewBlockDialog path={path} onAdded={list.reload} onClose={close} />,
      }}
      removal={{ words, request: ({ block }) => request("DELETE", path + queryOf({ block })) }}
      columns={[
        { id: "block", label: words.block, cell: ({ block }) => <span class="mono">{block}</span> },
        { id: "description", label: words.description, cell: ({ description }) => description, grows: true },
      ]}
    />
  );
}

interface NewBlockDialogProps {
  readonly path: string;
  readonly onAdded: () => void;
  readonly onClose: () => void;
}

function NewBlockDialog({ path, onAdded, onClose }: NewBlockDialogProps) {
  const { blocks: words } = texts().dns;
  const form = useForm(
    { block: "", description: "" },
    // Of a block that is there, the description stays unless another is given.
    ({ block, description }) =>
      request<ResolverBlock>("POST", path, { body: description === "" ? { block } : { block, description } }),
    (_added, { block }) => {
      showToast(words.added(block));
      onAdded();
      onClose();
    },
  );
  return (
    <FormDialog title={words.add} form={form} submitLabel={words.add} onClose={onClose}>
      <TextField {...form.field("block")} label={words.block} hint={words.blockHint} mono required autofocus />
      <TextField {...form.field("description")} label={words.description} />
    </FormDialog>
  );
}
