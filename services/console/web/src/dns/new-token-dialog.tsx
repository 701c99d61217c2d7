import { useState } from "preact/hooks";
import { POLICY_VERBS, RECORD_VERBS } from "../../../../core/dns/policy-verbs.ts";
import { Badge } from "../components/badge.tsx";
import { FormDialog } from "../components/dialog.tsx";
import { CheckField, SelectField, TextArea, TextField } from "../components/field.tsx";
import { useForm, type ValuesLike } from "../form.ts";
import { momentOf } from "../format.ts";
import { type Answer, request } from "../http.ts";
import { linesOf } from "../lines.ts";
import { describeProblem } from "../problem-words.ts";
import { useSettled } from "../settled.ts";
import { texts } from "../texts.ts";
import { TSIG_ALGORITHMS } from "./acl.ts";
import { dnsApi } from "./paths.ts";
import type { MadeToken, Permissions } from "./token.ts";
import { useAsked } from "./use-asked.ts";

const EMPTY = {
  name: "",
  crm_id: "",
  access: "write",
  zones: "",
  names: "",
  types: "",
  networks: "",
  expires: "",
  api: true,
  tsig: "",
  create: true,
  modify: true,
  delete: true,
  zone_create: false,
  zone_delete: false,
  sign: false,
  transfer: false,
};
type Values = ValuesLike<typeof EMPTY>;

interface NewTokenDialogProps {
  readonly reseller: string;
  readonly onMade: (made: MadeToken) => void;
  readonly onClose: () => void;
}

/** Builds a policy, shows what it lets a token do for a name typed in, and makes the token. */
export function NewTokenDialog({ reseller, onMade, onClose }: NewTokenDialogProps) {
  const { tokens: words } = texts().dns;
  const form = useForm(EMPTY, (values) => makeToken(reseller, values), onMade);
  return (
    <FormDialog title={words.add} form={form} submitLabel={words.add} wide onClose={onClose}>
      <div class="fields roomy">
        <TextField {...form.field("name")} label={words.name} placeholder="certbot" mono required autofocus />
        <TextField {...form.field("crm_id")} label={words.company} hint={words.companyHint} mono />
        <SelectField
          {...form.field("access")}
          label={words.access}
          options={[
            { value: "write", label: words.write },
            { value: "read", label: words.readOnly },
          ]}
        />
      </div>
      <div class="fields roomy">
        <TextArea {...form.field("zones")} label={words.zones} hint={words.zonesHint} rows={2} mono />
        <TextArea {...form.field("names")} label={words.names} hint={words.namesHint} rows={2} mono />
        <TextField {...form.field("types")} label={words.types} hint={words.typesHint} placeholder="TXT" mono />
      </div>
      {form.values.access === "write" && (
        <fieldset class="checks">
          <legend>{words.verbs}</legend>
          {POLICY_VERBS.map((verb) => (
            <CheckField key={verb} {...form.check(verb)} label={words.verb[verb]} />
          ))}
        </fieldset>
      )}
      <Trial reseller={reseller} values={form.values} />
      <div class="fields roomy">
        <TextArea {...form.field("networks")} label={words.networks} hint={words.networksHint} rows={2} mono />
        <TextField {...form.field("expires")} label={words.expires} hint={words.expiresHint} type="datetime-local" />
        <SelectField
          {...form.field("tsig")}
          label={words.tsig}
          hint={words.tsigHint}
          options={[
            { value: "", label: words.noTsig },
            ...TSIG_ALGORITHMS.map((algorithm) => ({ value: algorithm, label: algorithm })),
          ]}
        />
      </div>
      <CheckField {...form.check("api")} label={words.api} />
    </FormDialog>
  );
}

/** What the policy, as it stands in the form, lets be done with the records of a name. */
function Trial({ reseller, values }: { readonly reseller: string; readonly values: Values }) {
  const { tokens: words } = texts().dns;
  const [name, setName] = useState("");
  const asked = useSettled(JSON.stringify({ ...policyOf(values), name: name.trim() }));
  const answer = useAsked(name.trim() === "" ? undefined : asked, (body) =>
    request<Permissions>("POST", dnsApi(reseller, "token_check"), { body: JSON.parse(body) }),
  );
  return (
    <div class="trial">
      <TextField
        name="trial"
        label={words.tryName}
        hint={words.tryHint}
        value={name}
        error={undefined}
        onValue={setName}
        placeholder="_acme-challenge.example.org"
        mono
      />
      <p role="status">{answer && <Verdict answer={answer} />}</p>
    </div>
  );
}

function Verdict({ answer }: { readonly answer: Answer<Permissions> }) {
  const { tokens: words } = texts().dns;
  if (!answer.ok) return <Badge tone="bad">{describeProblem(answer.error)}</Badge>;
  const { read, verbs, refused_by } = answer.value;
  if (!read) return <Badge tone="bad">{words.refusedBy(refused_by === null ? "" : words[refused_by])}</Badge>;
  return (
    <>
      <Badge tone="good">{words.mayRead}</Badge>{" "}
      {RECORD_VERBS.filter((verb) => verbs.includes(verb)).map((verb) => (
        <Badge key={verb} tone="accent">
          {words.verb[verb]}
        </Badge>
      ))}
    </>
  );
}

function policyOf(values: Values) {
  const { access, zones, names, types, networks } = values;
  const verbs = POLICY_VERBS.filter((verb) => values[verb]);
  const listed = (text: string) => (linesOf(text).length > 0 ? linesOf(text) : undefined);
  return {
    access,
    ...{ zones: listed(zones), names: listed(names), types: listed(types), networks: listed(networks) },
    ...(access === "write" ? { verbs } : {}),
  };
}

function makeToken(reseller: string, values: Values): Promise<Answer<MadeToken>> {
  const { name, crm_id, expires, api, tsig } = values;
  const body = {
    ...{ ...policyOf(values), name, api },
    ...(crm_id.trim() === "" ? {} : { crm_id: crm_id.trim() }),
    ...(tsig === "" ? {} : { tsig }),
    ...(expires === "" ? {} : { expires: momentOf(expires) }),
  };
  return request<MadeToken>("POST", dnsApi(reseller, "token"), { body });
}
