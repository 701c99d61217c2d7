import { useState } from "preact/hooks";
import { Button } from "../../components/button.tsx";
import { Loaded } from "../../components/loaded.tsx";
import { Page, Section } from "../../components/page.tsx";
import { Progress } from "../../components/progress.tsx";
import { Table } from "../../components/table.tsx";
import { useFetched } from "../../fetched.ts";
import { formatTime, formatWallClock } from "../../format.ts";
import { texts } from "../../texts.ts";
import { mailApiPath, mailPage } from "../addresses.ts";
import { EventBadge } from "../contacts/contact-page.tsx";
import { useBatch } from "./batch.ts";
import { Figures } from "./batch-progress.tsx";
import { BatchState } from "./sends-page.tsx";

interface BatchInfo {
  readonly envio_efectivo: {
    readonly contactos: readonly Recipient[];
    readonly archive?: { readonly mensajes: number; readonly octetos: number };
  };
}

interface Recipient {
  readonly email: string;
  readonly eventos: readonly { readonly eventos: string; readonly timestamp: string }[];
}

/** One batch: its progress, and on demand what became of each recipient. */
export function SendPage({ instance, eeid }: { readonly instance: string; readonly eeid: string }) {
  const words = texts().mail.sends;
  const batch = useBatch(instance, eeid);
  const [shown, setShown] = useState(false);
  return (
    <Page
      title={eeid}
      crumbs={[{ label: words.title, href: mailPage(instance, "sends") }]}
      badges={batch.value && <BatchState batch={batch.value} />}
    >
      <Loaded of={batch}>
        {(value) => (
          <>
            <dl class="facts">
              <div>
                <dt>{words.campaign}</dt>
                <dd>
                  <a href={mailPage(instance, "campaigns", value.campana_id)}>{value.campana_id}</a>
                </dd>
              </div>
              <div>
                <dt>{words.accepted}</dt>
                <dd>{formatTime(value.timestamp)}</dd>
              </div>
              <div>
                <dt>{words.changed}</dt>
                <dd>{formatTime(value.modificado)}</dd>
              </div>
              <div>
                <dt>{words.creator}</dt>
                <dd>{value.creador_id}</dd>
              </div>
              <div>
                <dt>{words.partitions}</dt>
                <dd>
                  {value.particiones_finalizadas} / {value.cant_particiones}
                </dd>
              </div>
            </dl>
            <Progress label={words.done} done={value.destinatarios - value.en_cola} total={value.destinatarios} />
            <Figures batch={value} />
          </>
        )}
      </Loaded>
      <Section title={words.recipients} hint={words.recipientsHint}>
        {shown ? (
          <Recipients instance={instance} eeid={eeid} />
        ) : (
          <Button icon="contact" onClick={() => setShown(true)}>
            {words.showRecipients}
          </Button>
        )}
      </Section>
    </Page>
  );
}

function Recipients({ instance, eeid }: { readonly instance: string; readonly eeid: string }) {
  const words = texts().mail.sends;
  const info = useFetched<BatchInfo>(mailApiPath(instance, "eeid_info", eeid));
  return (
    <Loaded of={info}>
      {({ envio_efectivo: { contactos, archive } }) => (
        <Table<Recipient>
          label={words.recipients}
          rows={contactos}
          rowKey={({ email }) => email}
          columns={[
            {
              id: "email",
              label: words.recipient,
              grows: true,
              cell: ({ email }) => <a href={mailPage(instance, "contacts", email, "profile")}>{email}</a>,
            },
            {
              id: "events",
              label: words.events,
              cell: ({ eventos }) =>
                eventos.map(({ eventos: event, timestamp }) => (
                  <span key={event + timestamp} title={formatWallClock(timestamp)}>
                    <EventBadge event={event} />{" "}
                  </span>
                )),
            },
            {
              id: "message",
              label: "",
              align: "end",
              cell: ({ email }) =>
                archive && <a href={mailPage(instance, "sends", eeid, email, "message")}>{words.message}</a>,
            },
          ]}
          empty={<p>{words.noRecipients}</p>}
        />
      )}
    </Loaded>
  );
}
