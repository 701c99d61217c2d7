import { useState } from "preact/hooks";
import { useAction } from "../../action.ts";
import { Button } from "../../components/button.tsx";
import { TextField } from "../../components/field.tsx";
import { Page } from "../../components/page.tsx";
import { ProblemNote } from "../../components/problem.tsx";
import { useForm } from "../../form.ts";
import { request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { mailApiPath } from "../addresses.ts";
import { AudienceTabs } from "./audience-tabs.tsx";

interface Standing {
  readonly email: string;
  readonly isListed: boolean;
}

/** Addresses that no bounce can invalidate: asked for one by one, since each is a decision. */
export function WhitelistPage({ instance }: { readonly instance: string }) {
  const words = texts().mail.whitelist;
  const [standing, setStanding] = useState<Standing>();
  const form = useForm(
    { email: "" },
    ({ email }) => request<{ msg: string }>("GET", mailApiPath(instance, "whitelist", email)),
    ({ msg }, { email }) => setStanding({ email, isListed: !msg.endsWith(" not whitelisted") }),
  );
  return (
    <Page title={words.title}>
      <AudienceTabs instance={instance} current="whitelist" />
      <p class="intro">{words.intro}</p>
      <form class="form" onSubmit={form.submit} noValidate>
        <TextField {...form.field("email")} label={words.address} type="email" required />
        <ProblemNote problem={form.problem} />
        <Button submit icon="search" busy={form.busy} disabled={form.values.email === ""}>
          {words.look}
        </Button>
      </form>
      {standing && <Result instance={instance} standing={standing} told={setStanding} />}
    </Page>
  );
}

interface ResultProps {
  readonly instance: string;
  readonly standing: Standing;
  readonly told: (standing: Standing) => void;
}

function Result({ instance, standing: { email, isListed }, told }: ResultProps) {
  const words = texts().mail.whitelist;
  const change = useAction(
    () => request(isListed ? "DELETE" : "PUT", mailApiPath(instance, "whitelist", email)),
    () => told({ email, isListed: !isListed }),
  );
  return (
    <section class="section" aria-live="polite">
      <p>{isListed ? words.on(email) : words.off(email)}</p>
      <div class="row">
        <Button
          icon="shield"
          kind={isListed ? "danger" : "primary"}
          busy={change.busy}
          onClick={() => void change.run()}
        >
          {isListed ? words.remove : words.add}
        </Button>
      </div>
    </section>
  );
}
