import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { Button } from "../../components/button.tsx";
import { ConfirmDialog } from "../../components/dialog.tsx";
import { TextField } from "../../components/field.tsx";
import { Section } from "../../components/page.tsx";
import { ProblemNote } from "../../components/problem.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useForm } from "../../form.ts";
import { request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { dnsApi, dnsPages } from "../paths.ts";
import type { Soa } from "../record.ts";
import type { ZoneTabProps } from "./zone-tab.ts";

/** The SOA, whether the zone is served, and its end. */
export function SettingsTab(props: ZoneTabProps) {
  return (
    <>
      <SoaForm key={props.soa.serial} {...props} />
      <Publication {...props} />
      <Deletion {...props} />
    </>
  );
}

const TIMES = ["refresh", "retry", "expire", "minimum", "ttl"] as const;

function SoaForm({ reseller, soa, changed }: ZoneTabProps) {
  const { dns, shell } = texts();
  const { mname, rname, serial, refresh, retry, expire, minimum, ttl } = soa;
  const form = useForm(
    {
      mname,
      rname,
      serial: String(serial),
      refresh: String(refresh),
      retry: String(retry),
      expire: String(expire),
      minimum: String(minimum),
      ttl: String(ttl),
    },
    (values) => {
      const inOrder = [values.mname, values.rname, values.serial, ...TIMES.map((name) => values[name])];
      const path = dnsApi(reseller, "update_soa", soa.crm_id, soa.domain, ...inOrder.map((value) => value.trim()));
      return request<Soa>("POST", path);
    },
    () => {
      showToast(shell.saved);
      changed();
    },
  );
  return (
    <Section title={dns.settings.soa} hint={dns.settings.soaHint}>
      <form class="stack wide" onSubmit={form.submit} noValidate>
        <div class="fields">
          <TextField {...form.field("mname")} label={dns.newZone.mname} mono />
          <TextField {...form.field("rname")} label={dns.newZone.rname} mono />
          <TextField {...form.field("serial")} label={dns.settings.ownSerial} inputmode="numeric" mono />
        </div>
        <div class="fields">
          {TIMES.map((name) => (
            <TextField key={name} {...form.field(name)} label={dns.newZone[name]} inputmode="numeric" />
          ))}
        </div>
        <ProblemNote problem={form.problem} />
        <Button submit kind="primary" busy={form.busy}>
          {shell.save}
        </Button>
      </form>
    </Section>
  );
}

function Publication({ reseller, soa, changed }: ZoneTabProps) {
  const { settings: words } = texts().dns;
  const [verb, title, label, hint, said] = soa.suspended
    ? (["resume_zone", words.resumeTitle, words.resume, words.resumeHint, words.resumed] as const)
    : (["suspend_zone", words.suspendTitle, words.suspend, words.suspendHint, words.suspended] as const);
  const [asking, setAsking] = useState(false);
  return (
    <Section
      title={words.state}
      hint={hint}
      actions={
        <Button icon={soa.suspended ? "play" : "pause"} onClick={() => setAsking(true)}>
          {label}
        </Button>
      }
    >
      {asking && (
        <ConfirmDialog
          title={title(soa.domain)}
          confirmLabel={label}
          danger={!soa.suspended}
          confirm={() => request("PUT", dnsApi(reseller, verb, soa.domain), { body: { crm_id: soa.crm_id } })}
          done={() => {
            showToast(said(soa.domain));
            changed();
          }}
          onClose={() => setAsking(false)}
        >
          <p>{hint}</p>
        </ConfirmDialog>
      )}
    </Section>
  );
}

function Deletion({ reseller, soa }: ZoneTabProps) {
  const { settings: words } = texts().dns;
  const { route } = useLocation();
  const [asking, setAsking] = useState(false);
  return (
    <Section
      title={words.remove}
      hint={words.removeHint}
      actions={
        <Button kind="danger" icon="trash" onClick={() => setAsking(true)}>
          {words.remove}
        </Button>
      }
    >
      {asking && (
        <ConfirmDialog
          title={words.remove}
          confirmLabel={words.remove}
          typed={soa.domain}
          confirm={() => request("DELETE", dnsApi(reseller, "master_zone", soa.domain))}
          done={() => {
            showToast(words.removed(soa.domain));
            route(dnsPages.zones(reseller));
          }}
          onClose={() => setAsking(false)}
        >
          <p>{words.removeHint}</p>
        </ConfirmDialog>
      )}
    </Section>
  );
}
