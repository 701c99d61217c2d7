import { Button } from "../../components/button.tsx";
import { TextField } from "../../components/field.tsx";
import { ProblemNote } from "../../components/problem.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useForm } from "../../form.ts";
import { request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { instancePath } from "../addresses.ts";

interface TestSendProps {
  readonly instance: string;
  readonly numid: number;
  /** Whether the page shows what is not saved: a test would send something else. */
  readonly unsaved: boolean;
}

/** Sends the message to one address, before everybody gets it. */
export function TestSend({ instance, numid, unsaved }: TestSendProps) {
  const words = texts().mail.campaigns;
  const form = useForm(
    { email: "" },
    (body) => request<{ sent: number }>("POST", instancePath(instance, "campaigns", numid, "test"), { body }),
    ({ sent }, { email }) =>
      showToast(sent > 0 ? words.tested(email) : words.notTested(email), sent > 0 ? "good" : "bad"),
  );
  return (
    <form class="form" onSubmit={form.submit} noValidate>
      <TextField {...form.field("email")} label={words.testAddress} type="email" required />
      <ProblemNote problem={form.problem} />
      {unsaved && <p class="hint">{words.saveFirst}</p>}
      <Button submit icon="send" busy={form.busy} disabled={unsaved || form.values.email === ""}>
        {words.sendTest}
      </Button>
    </form>
  );
}
