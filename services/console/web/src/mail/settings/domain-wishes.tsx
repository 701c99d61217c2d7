import { useState } from "preact/hooks";
import { Button } from "../../components/button.tsx";
import { FormDialog } from "../../components/dialog.tsx";
import { Facts } from "../../components/facts.tsx";
import { CheckField, SelectField, TextField } from "../../components/field.tsx";
import { useForm } from "../../form.ts";
import { formatNumber, formatTime } from "../../format.ts";
import { request } from "../../http.ts";
import { texts } from "../../texts.ts";

const STS_MODES = ["off", "testing", "enforce"] as const;

/** What is wanted of a sender domain beside aligned and signed mail. */
export interface Wishes {
  readonly mta_sts: (typeof STS_MODES)[number];
  /** Of a policy that is withdrawn: until then it is served with mode none. */
  readonly mta_sts_ends: string | null;
  readonly tls_reports: boolean;
  readonly tracking_host: string | null;
  /** Null: keys change when somebody says so. */
  readonly rotate_days: number | null;
}

interface DomainWishesProps {
  readonly wishes: Wishes;
  /** Of the domain in the console's API. */
  readonly path: string;
  readonly changed: () => void;
}

export function DomainWishes({ wishes, path, changed }: DomainWishesProps) {
  const words = texts().mail.domains.wishes;
  const [isOpen, setOpen] = useState(false);
  const { mta_sts, mta_sts_ends, tls_reports, tracking_host, rotate_days } = wishes;
  const policy =
    mta_sts_ends === null ? words.stsModes[mta_sts] : words.stsEnds(words.stsModes.off, formatTime(mta_sts_ends));
  return (
    <>
      <h3>{words.title}</h3>
      <Facts
        facts={[
          { label: words.sts, value: policy },
          { label: words.tlsReports, value: tls_reports ? words.wanted : words.unwanted },
          { label: words.trackingHost, value: tracking_host ?? words.none },
          {
            label: words.rotateDays,
            value: rotate_days === null ? words.never : words.days(formatNumber(rotate_days)),
          },
        ]}
      />
      <Button small icon="edit" onClick={() => setOpen(true)}>
        {words.change}
      </Button>
      {isOpen && <WishesDialog wishes={wishes} path={path} changed={changed} close={() => setOpen(false)} />}
    </>
  );
}

function WishesDialog({ wishes, path, changed, close }: DomainWishesProps & { readonly close: () => void }) {
  const words = texts().mail.domains.wishes;
  const form = useForm(
    {
      mta_sts: wishes.mta_sts as string,
      tls_reports: wishes.tls_reports,
      tracking_host: wishes.tracking_host ?? "",
      rotate_days: wishes.rotate_days === null ? "" : String(wishes.rotate_days),
    },
    ({ mta_sts, tls_reports, tracking_host, rotate_days }) =>
      request("PATCH", `${path}/setup`, {
        body: {
          ...{ mta_sts, tls_reports, tracking_host: tracking_host.trim() || null },
          rotate_days: rotate_days === "" ? null : Number(rotate_days),
        },
      }),
    () => {
      close();
      changed();
    },
  );
  return (
    <FormDialog title={words.title} form={form} submitLabel={texts().shell.save} onClose={close}>
      <SelectField
        {...form.field("mta_sts")}
        label={words.sts}
        hint={words.stsHint}
        options={STS_MODES.map((value) => ({ value, label: words.stsModes[value] }))}
      />
      <CheckField {...form.check("tls_reports")} label={words.tlsReports} hint={words.tlsReportsHint} />
      <TextField {...form.field("tracking_host")} label={words.trackingHost} hint={words.trackingHostHint} mono />
      <TextField {...form.field("rotate_days")} label={words.rotateDays} hint={words.rotateDaysHint} type="number" />
    </FormDialog>
  );
}
