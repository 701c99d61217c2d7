import { useEffect, useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { Button } from "../../components/button.tsx";
import { TextField } from "../../components/field.tsx";
import { Loaded } from "../../components/loaded.tsx";
import { Page } from "../../components/page.tsx";
import { ProblemNote } from "../../components/problem.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useFetched } from "../../fetched.ts";
import { useForm } from "../../form.ts";
import { formatNumber } from "../../format.ts";
import { request } from "../../http.ts";
import { describeProblem } from "../../problem-words.ts";
import { texts } from "../../texts.ts";
import { instancePath, mailPage } from "../addresses.ts";
import type { Group } from "../contacts/contact.ts";
import "../mail.css";
import { type AllOf, type AnyOf, type Condition, type Filter, isComplete, newCondition } from "./condition.ts";
import { ConditionList } from "./condition-editor.tsx";

/** Long enough that not every keystroke counts a million contacts. */
const COUNT_PAUSE_MS = 400;
const NEW = "new";

/** A filter, built by clicking, with the number of contacts that it selects as it stands. */
export function FilterPage({ instance, id }: { readonly instance: string; readonly id: string }) {
  const words = texts().mail.filters;
  const filters = useFetched<{ filtros: readonly Filter[] }>(
    id === NEW ? undefined : instancePath(instance, "filters"),
  );
  const filter = filters.value?.filtros.find((saved) => String(saved.id) === id);
  const crumbs = [{ label: words.title, href: mailPage(instance, "contacts", "filters") }];
  if (id === NEW) {
    return (
      <Page title={words.add} crumbs={crumbs}>
        <Builder instance={instance} filter={undefined} />
      </Page>
    );
  }
  return (
    <Page title={filter?.nombre ?? words.title} crumbs={crumbs}>
      <Loaded of={filters}>
        {() => (filter ? <Builder key={filter.id} instance={instance} filter={filter} /> : <p>{words.gone}</p>)}
      </Loaded>
    </Page>
  );
}

interface BuilderProps {
  readonly instance: string;
  /** The filter to change; a new one when absent. */
  readonly filter: Filter | undefined;
}

function Builder({ instance, filter }: BuilderProps) {
  const words = texts().mail.filters;
  const { route } = useLocation();
  const [condition, setCondition] = useState<AllOf | AnyOf>(() => asList(filter?.condiciones));
  const groups = useFetched<{ grupos: readonly Group[] }>(instancePath(instance, "groups"));
  const campaigns = useFetched<{ campaigns: readonly { numid: number; nombre: string }[] }>(
    `${instancePath(instance, "campaigns")}?limit=200`,
  );
  const path = filter ? instancePath(instance, "filters", filter.id) : instancePath(instance, "filters");
  const form = useForm(
    { nombre: filter?.nombre ?? "" },
    ({ nombre }) => request(filter ? "PUT" : "POST", path, { body: { nombre, condiciones: condition } }),
    () => {
      showToast(texts().shell.saved);
      route(mailPage(instance, "contacts", "filters"));
    },
  );
  const offer = {
    groups: groups.value?.grupos.map(({ nombre }) => nombre) ?? [],
    campaigns: campaigns.value?.campaigns ?? [],
  };
  return (
    <form class="filter" onSubmit={form.submit} noValidate>
      <TextField {...form.field("nombre")} label={words.name} required autofocus={filter === undefined} />
      <ConditionList condition={condition} offer={offer} onChange={(next) => setCondition(asList(next))} />
      <Count instance={instance} condition={condition} />
      <ProblemNote problem={form.problem} />
      <div class="row">
        <Button submit kind="primary" busy={form.busy} disabled={!isComplete(condition)}>
          {texts().shell.save}
        </Button>
      </div>
    </form>
  );
}

/** The outermost condition is a list, so that rows can be added to it. */
function asList(condition: Condition | undefined): AllOf | AnyOf {
  if (condition === undefined) return { todas: [newCondition("field")] };
  return "todas" in condition || "alguna" in condition ? condition : { todas: [condition] };
}

/** How many contacts the condition selects, counted anew when the reader pauses. */
function Count({ instance, condition }: { readonly instance: string; readonly condition: Condition }) {
  const words = texts().mail.filters;
  const [told, setTold] = useState<string>();
  const asked = JSON.stringify(condition);
  const complete = isComplete(condition);
  useEffect(() => {
    if (!complete) return setTold(undefined);
    const abort = new AbortController();
    const timer = setTimeout(() => {
      const body = { condiciones: condition };
      request<{ contactos: number }>("POST", instancePath(instance, "filters", "count"), {
        body,
        signal: abort.signal,
      }).then(
        (answer) =>
          setTold(answer.ok ? words.count(formatNumber(answer.value.contactos)) : describeProblem(answer.error)),
        () => {}, // aborted: a newer condition is asked about
      );
    }, COUNT_PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [instance, asked, complete]);
  return (
    <p class="count" role="status">
      {told ?? (complete ? words.counting : words.incomplete)}
    </p>
  );
}
