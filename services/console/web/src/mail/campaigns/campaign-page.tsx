import { useState } from "preact/hooks";
import { Button, LinkButton } from "../../components/button.tsx";
import { CopyBlock } from "../../components/copy.tsx";
import { type Fact, Facts } from "../../components/facts.tsx";
import { Loaded } from "../../components/loaded.tsx";
import { Page, Section } from "../../components/page.tsx";
import { useFetched } from "../../fetched.ts";
import { formatTime } from "../../format.ts";
import { queryOf } from "../../http.ts";
import { describeReason } from "../../problem-words.ts";
import { texts } from "../../texts.ts";
import { instancePath, mailApiPath, mailPage } from "../addresses.ts";
import { BatchProgress } from "../sends/batch-progress.tsx";
import "../mail.css";
import { type Campaign, type CampaignWithHtml, isDraft, isUnderWay, senderOf } from "./campaign.ts";
import { CampaignControls } from "./campaign-controls.tsx";
import { StateBadge } from "./campaigns-page.tsx";
import { MessageForm } from "./message-form.tsx";
import { Preview } from "./preview.tsx";
import { TestSend } from "./test-send.tsx";

const REFRESH_MS = 2_000;

/** One campaign: written, tried, started and watched here when it is of type `normal`; its key when it is `api`. */
export function CampaignPage({ instance, numid }: { readonly instance: string; readonly numid: string }) {
  const words = texts().mail.campaigns;
  const found = useFetched<CampaignWithHtml>(instancePath(instance, "campaigns", numid), (campaign) =>
    campaign && isUnderWay(campaign) ? REFRESH_MS : undefined,
  );
  const [unsaved, setUnsaved] = useState(false);
  const { value } = found;
  return (
    <Page
      title={value?.nombre ?? numid}
      crumbs={[{ label: words.title, href: mailPage(instance, "campaigns") }]}
      badges={value?.estado && <StateBadge state={value.estado} />}
      actions={
        value?.tipo === "normal" && (
          <CampaignControls instance={instance} campaign={value} unsaved={unsaved} done={found.reload} />
        )
      }
    >
      <Loaded of={found}>
        {(campaign) => (
          <div class="campaign">
            {campaign.pausa && (
              <p class="note warn">
                <span>
                  {words.pausedBecause(describeReason(campaign.pausa.motivo), formatTime(campaign.pausa.timestamp))}
                </span>
              </p>
            )}
            <CampaignFacts campaign={campaign} />
            {campaign.eeid && <BatchProgress instance={instance} eeid={campaign.eeid} />}
            {campaign.tipo === "normal" ? (
              <Normal
                instance={instance}
                campaign={campaign}
                unsaved={unsaved}
                tellUnsaved={setUnsaved}
                saved={found.reload}
              />
            ) : (
              <Keyed instance={instance} campaign={campaign} />
            )}
          </div>
        )}
      </Loaded>
    </Page>
  );
}

function CampaignFacts({ campaign }: { readonly campaign: Campaign }) {
  const { mail, shell } = texts();
  const words = mail.campaigns;
  const facts: readonly Fact[] = [
    { label: words.numid, value: String(campaign.numid) },
    { label: words.type, value: words.types[campaign.tipo] },
    { label: words.sender, value: senderOf(campaign) },
    { label: words.subject, value: campaign.asunto },
    { label: words.replyTo, value: campaign.replyto },
    { label: words.url, value: campaign.url },
    { label: words.unsubscribe, value: hasUnsubscribeLink(campaign) ? shell.yes : shell.no },
    { label: words.startsAt, value: campaign.inicio === null ? "" : formatTime(campaign.inicio) },
    { label: words.finished, value: campaign.fin === null ? "" : formatTime(campaign.fin) },
  ];
  return <Facts facts={facts} />;
}

/** One of type `normal` has it unless it says otherwise. */
function hasUnsubscribeLink({ tipo, desusc }: Pick<CampaignWithHtml, "tipo" | "desusc">): boolean {
  return desusc === "si" || (desusc === "" && tipo === "normal");
}

interface NormalProps {
  readonly instance: string;
  readonly campaign: CampaignWithHtml;
  readonly unsaved: boolean;
  readonly tellUnsaved: (unsaved: boolean) => void;
  readonly saved: () => void;
}

function Normal({ instance, campaign, unsaved, tellUnsaved, saved }: NormalProps) {
  const words = texts().mail.campaigns;
  const written = campaign.html !== null || campaign.url !== "";
  return (
    <>
      {isDraft(campaign) && (
        <Section title={words.message} hint={words.messageHint}>
          <MessageForm
            key={campaign.numid}
            instance={instance}
            campaign={campaign}
            tellUnsaved={tellUnsaved}
            saved={saved}
          />
        </Section>
      )}
      {written && (
        <Section title={words.preview} hint={words.previewHint}>
          <Preview instance={instance} campaign={campaign} />
        </Section>
      )}
      {written && isDraft(campaign) && (
        <Section title={words.test} hint={words.testHint}>
          <TestSend instance={instance} numid={campaign.numid} unsaved={unsaved} />
        </Section>
      )}
      <div class="row">
        <LinkButton icon="chart" href={mailPage(instance, "statistics") + queryOf({ campaign: campaign.numid })}>
          {words.statistics}
        </LinkButton>
      </div>
    </>
  );
}

/** How programs send under an `api` campaign. The key is fetched only when it is asked for. */
function Keyed({ instance, campaign }: { readonly instance: string; readonly campaign: Campaign }) {
  const words = texts().mail.campaigns;
  const [shown, setShown] = useState(false);
  const key = useFetched<{ camp_apikey: string }>(
    shown ? mailApiPath(instance, "campania_apikey") + queryOf({ numid: campaign.numid }) : undefined,
  );
  return (
    <>
      {campaign.tipo === "api" && (
        <Section title={words.access} hint={words.accessHint}>
          <div class="stack">
            <CopyBlock label={words.smtpUser} text={`${instance}-${campaign.numid}`} />
            {shown ? (
              <Loaded of={key}>{({ camp_apikey }) => <CopyBlock label={words.key} text={camp_apikey} />}</Loaded>
            ) : (
              <Button icon="key" onClick={() => setShown(true)}>
                {words.showKey}
              </Button>
            )}
          </div>
        </Section>
      )}
      <div class="row">
        <LinkButton icon="send" href={mailPage(instance, "sends") + queryOf({ campaign: campaign.numid })}>
          {words.sends}
        </LinkButton>
        <LinkButton icon="chart" href={mailPage(instance, "statistics") + queryOf({ campaign: campaign.numid })}>
          {words.statistics}
        </LinkButton>
      </div>
    </>
  );
}
