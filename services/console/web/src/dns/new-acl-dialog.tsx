import { FormDialog } from "../components/dialog.tsx";
import { CheckField, SelectField, TextArea, TextField } from "../components/field.tsx";
import { showToast } from "../components/toasts.tsx";
import { useForm } from "../form.ts";
import { request } from "../http.ts";
import { linesOf } from "../lines.ts";
import { texts } from "../texts.ts";
import { TSIG_ALGORITHMS } from "./acl.ts";
import { resellerApi } from "./paths.ts";

interface NewAclDialogProps {
  readonly reseller: string;
  readonly onAdded: (name: string) => void;
  readonly onClose: () => void;
}

/** Lets a secondary transfer zones. */
export function NewAclDialog({ reseller, onAdded, onClose }: NewAclDialogProps) {
  const { acls: words } = texts().dns;
  const form = useForm(
    {
      name: "",
      blocks: "",
      signed: true,
      tsigName: "",
      algorithm: TSIG_ALGORITHMS[0],
      secret: "",
      zones: "",
      notify: "",
    },
    ({ name, blocks, signed, tsigName, algorithm, secret, zones, notify }) => {
      const key = { name: tsigName || name, algorithm, ...(secret === "" ? {} : { secret }) };
      const body = {
        name,
        blocks: linesOf(blocks),
        notify: linesOf(notify),
        ...(signed ? { tsig: key } : {}),
        ...(linesOf(zones).length > 0 ? { zones: linesOf(zones) } : {}),
      };
      return request("POST", resellerApi(reseller, "acls"), { body });
    },
    (_reply, { name }) => {
      showToast(words.added(name));
      onAdded(name);
    },
  );
  return (
    <FormDialog title={words.add} form={form} submitLabel={words.add} onClose={onClose}>
      <TextField {...form.field("name")} label={words.name} mono required autofocus />
      <TextArea {...form.field("blocks")} label={words.blocks} hint={words.blocksHint} rows={2} mono />
      <CheckField {...form.check("signed")} label={words.tsig} />
      {form.values.signed && (
        <div class="fields roomy">
          <TextField
            {...form.field("tsigName")}
            label={words.tsigName}
            hint={words.tsigNameHint}
            placeholder={form.values.name}
            mono
          />
          <SelectField
            {...form.field("algorithm")}
            label={words.algorithm}
            options={TSIG_ALGORITHMS.map((algorithm) => ({ value: algorithm, label: algorithm }))}
          />
          <TextField {...form.field("secret")} label={words.secret} hint={words.secretHint} mono />
        </div>
      )}
      <TextArea {...form.field("zones")} label={words.zones} hint={words.zonesHint} rows={2} mono />
      <TextArea {...form.field("notify")} label={words.notify} hint={words.notifyHint} rows={2} mono />
    </FormDialog>
  );
}
