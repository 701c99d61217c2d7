import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { useAction } from "../../action.ts";
import { Badge, type Tone } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { ConfirmDialog } from "../../components/dialog.tsx";
import { EmptyState } from "../../components/empty-state.tsx";
import { type Fact, Facts } from "../../components/facts.tsx";
import { Loaded } from "../../components/loaded.tsx";
import { Page, Section } from "../../components/page.tsx";
import { Table } from "../../components/table.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useFetched } from "../../fetched.ts";
import { formatWallClock } from "../../format.ts";
import { request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { instancePath, mailApiPath, mailPage } from "../addresses.ts";
import { type Contact, type ContactEvent, fullName } from "./contact.ts";
import { ContactDialog } from "./contact-dialog.tsx";
import { Validity } from "./contacts-page.tsx";

interface ContactBody {
  readonly contacto: Contact;
  readonly whitelist: boolean;
}

/** Everything known of one contact, and what can be done about it. */
export function ContactPage({ instance, email }: { readonly instance: string; readonly email: string }) {
  const words = texts().mail.contacts;
  const found = useFetched<ContactBody>(instancePath(instance, "contacts", email));
  const [editing, setEditing] = useState(false);
  const { value } = found;
  return (
    <Page
      title={email}
      crumbs={[{ label: words.title, href: mailPage(instance, "contacts") }]}
      badges={
        value && (
          <>
            <Validity invalid={value.contacto.invalido} />{" "}
            {value.whitelist && <Badge tone="accent">{words.whitelisted}</Badge>}
          </>
        )
      }
      actions={
        value && (
          <ContactActions instance={instance} body={value} changed={found.reload} edit={() => setEditing(true)} />
        )
      }
    >
      <Loaded of={found}>
        {({ contacto }) => (
          <>
            <Profile contact={contacto} />
            <Section title={words.history} hint={words.historyHint}>
              <History events={contacto.eventos} />
            </Section>
          </>
        )}
      </Loaded>
      {editing && value && (
        <ContactDialog
          instance={instance}
          contact={value.contacto}
          close={() => setEditing(false)}
          saved={found.reload}
        />
      )}
    </Page>
  );
}

interface ContactActionsProps {
  readonly instance: string;
  readonly body: ContactBody;
  readonly changed: () => void;
  readonly edit: () => void;
}

function ContactActions({ instance, body: { contacto, whitelist }, changed, edit }: ContactActionsProps) {
  const words = texts().mail.contacts;
  const { route } = useLocation();
  const [erasing, setErasing] = useState(false);
  const { email, invalido } = contacto;
  const validity = useAction(
    () => request<{ msg: string }>("GET", mailApiPath(instance, invalido ? "revalidar" : "invalidar", email)),
    ({ msg }) => {
      showToast(msg === "whitelisted" ? words.validityKept : invalido ? words.revalidated : words.invalidated);
      changed();
    },
  );
  const protection = useAction(
    () => request(whitelist ? "DELETE" : "PUT", mailApiPath(instance, "whitelist", email)),
    () => {
      showToast(whitelist ? words.unprotected : words.protected);
      changed();
    },
  );
  return (
    <>
      <Button icon="edit" onClick={edit}>
        {texts().shell.edit}
      </Button>
      <Button busy={validity.busy} onClick={() => void validity.run()}>
        {invalido ? words.revalidate : words.invalidate}
      </Button>
      <Button icon="shield" busy={protection.busy} onClick={() => void protection.run()}>
        {whitelist ? words.unprotect : words.protect}
      </Button>
      <Button kind="danger" onClick={() => setErasing(true)}>
        {words.erase}
      </Button>
      {erasing && (
        <ConfirmDialog
          title={words.erase}
          confirmLabel={words.erase}
          typed={email}
          confirm={() => request("DELETE", instancePath(instance, "contacts", email))}
          done={() => {
            showToast(words.erased);
            route(mailPage(instance, "contacts"));
          }}
          onClose={() => setErasing(false)}
        >
          <p>{words.eraseHint}</p>
        </ConfirmDialog>
      )}
    </>
  );
}

function Profile({ contact }: { readonly contact: Contact }) {
  const words = texts().mail.contacts;
  const facts: readonly Fact[] = [
    { label: words.name, value: fullName(contact) },
    { label: words.age, value: contact.edad?.toString() ?? "" },
    { label: words.sex, value: contact.sexo },
    { label: words.profession, value: contact.profesion },
    { label: words.locality, value: contact.localidad },
    {
      label: words.place,
      value: [contact.ciudad, contact.codigo_region, contact.codigo_pais].filter(Boolean).join(", "),
    },
    { label: words.device, value: contact.dispositivo },
    { label: words.groups, value: contact.grupos.join(", ") },
    { label: words.campaigns, value: contact.campanias.map(({ nombre }) => nombre).join(", ") },
    { label: words.unsubscribedFrom, value: contact.campanias_desusc.map(({ nombre }) => nombre).join(", ") },
    { label: words.updated, value: formatWallClock(contact.actualizado) },
    ...contact.campos.map(({ nombre, valor }) => ({ label: nombre, value: valor })),
  ];
  return <Facts facts={facts} />;
}

const EVENT_TONES: Readonly<Record<string, Tone>> = {
  vista: "good",
  click: "good",
  conversion: "good",
  revalidacion: "good",
  rebote_hard: "bad",
  queja: "bad",
  invalidacion: "bad",
  unknown: "warn",
  "rebote-soft": "warn",
  desuscripcion: "warn",
};

/** An event's name in the reader's language. */
export function EventBadge({ event }: { readonly event: string }) {
  const names: Readonly<Record<string, string>> = texts().mail.events;
  return <Badge tone={EVENT_TONES[event] ?? "quiet"}>{names[event] ?? event}</Badge>;
}

function History({ events }: { readonly events: readonly ContactEvent[] }) {
  const words = texts().mail.contacts;
  return (
    <Table
      label={words.history}
      rows={[...events].reverse().map((event, index) => ({ index, ...event }))}
      rowKey={({ index }) => index}
      columns={[
        { id: "at", label: words.when, cell: ({ timestamp }) => formatWallClock(timestamp) },
        {
          id: "event",
          label: words.event,
          cell: ({ evento, maquina }) => (
            <>
              <EventBadge event={evento} /> {maquina && <span class="hint">{words.byMachine}</span>}
            </>
          ),
        },
        { id: "campaign", label: words.campaign, grows: true, cell: ({ campania }) => campania },
      ]}
      empty={
        <EmptyState icon="history" title={words.noHistory}>
          <p>{words.noHistoryHint}</p>
        </EmptyState>
      }
    />
  );
}
