import { useState } from "preact/hooks";
import { useAction } from "../../action.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { ConfirmDialog } from "../../components/dialog.tsx";
import { type Column, Table } from "../../components/table.tsx";
import { showToast } from "../../components/toasts.tsx";
import { formatTime } from "../../format.ts";
import { request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { type ExportedKey, ExportedKeyDialog } from "./exported-key-dialog.tsx";
import { ALGORITHMS, type KeyRole, type SignedZoneProps, type SigningDetails, type SigningKey } from "./signing.ts";

interface SigningKeysProps extends SignedZoneProps {
  readonly details: SigningDetails | undefined;
}

/** The keys that sign the zone, where each is in its life, and what can be done about it. */
export function SigningKeys({ path, signing, details, reload }: SigningKeysProps) {
  const { dnssec: words } = texts().dns;
  const [replacing, setReplacing] = useState<KeyRole>();
  const [exported, setExported] = useState<ExportedKey>();
  const [vouching, setVouching] = useState<number>();
  const exportKey = useAction(
    (keyTag: number) => request<ExportedKey>("POST", `${path}/keys/${keyTag}/export`),
    setExported,
  );
  return (
    <>
      <Table<SigningKey>
        label={words.keys}
        rows={signing.keys}
        rowKey={({ key_tag, role }) => `${key_tag} ${role}`}
        empty={null}
        columns={[
          ...columnsOf(details),
          {
            id: "actions",
            label: "",
            align: "end",
            cell: ({ key_tag, role, state }) => (
              <KeyButtons
                keyTag={key_tag}
                state={state}
                confirmDs={() => setVouching(key_tag)}
                exportKey={exportKey}
                rollOver={() => setReplacing(role)}
              />
            ),
          },
        ]}
      />
      {vouching !== undefined && (
        <ConfirmDialog
          title={`${words.confirmDs}: ${vouching}`}
          confirmLabel={words.confirmDs}
          confirm={() => request("POST", `${path}/ds_seen`, { body: { key_tag: vouching } })}
          done={() => {
            showToast(words.dsConfirmed);
            reload();
          }}
          onClose={() => setVouching(undefined)}
        >
          <p>{words.confirmDsHint}</p>
          <p>{words.confirmDsRisk}</p>
        </ConfirmDialog>
      )}
      {exported && <ExportedKeyDialog files={exported} onClose={() => setExported(undefined)} />}
      {replacing !== undefined && (
        <RollOverDialog path={path} role={replacing} reload={reload} onClose={() => setReplacing(undefined)} />
      )}
    </>
  );
}

function columnsOf(details: SigningDetails | undefined): Column<SigningKey>[] {
  const { dnssec: words } = texts().dns;
  const timesOf = ({ key_tag }: SigningKey) => details?.keys.find((key) => key.key_tag === key_tag);
  return [
    { id: "tag", label: words.keyTag, cell: ({ key_tag }) => <span class="mono">{key_tag}</span> },
    { id: "role", label: words.role, cell: ({ role }) => role.toUpperCase() },
    { id: "algorithm", label: words.algorithm, cell: ({ algorithm }) => ALGORITHMS.get(algorithm) ?? algorithm },
    {
      id: "state",
      label: words.state,
      cell: ({ state }) => <Badge tone={state === "active" ? "good" : "accent"}>{words.states[state]}</Badge>,
    },
    { id: "since", label: words.since, cell: (key) => formatTime(timesOf(key)?.since), optional: true },
    { id: "until", label: words.until, cell: (key) => formatTime(timesOf(key)?.until), optional: true },
  ];
}

interface KeyButtonsProps {
  readonly keyTag: number;
  readonly state: SigningKey["state"];
  readonly confirmDs: () => void;
  readonly exportKey: KeyAction;
  readonly rollOver: () => void;
}

interface KeyAction {
  readonly busy: boolean;
  readonly run: (keyTag: number) => Promise<unknown>;
}

function KeyButtons({ keyTag, state, confirmDs, exportKey, rollOver }: KeyButtonsProps) {
  const { dnssec: words } = texts().dns;
  return (
    <span class="row-actions">
      {state === "ready" && (
        <Button small label={`${words.confirmDs}: ${keyTag}`} onClick={confirmDs}>
          {words.confirmDs}
        </Button>
      )}
      {state === "active" && (
        <Button small label={`${words.rollOver}: ${keyTag}`} onClick={rollOver}>
          {words.rollOver}
        </Button>
      )}
      <Button
        small
        busy={exportKey.busy}
        label={`${words.exportKey}: ${keyTag}`}
        onClick={() => void exportKey.run(keyTag)}
      >
        {words.exportKey}
      </Button>
    </span>
  );
}

interface RollOverDialogProps extends Pick<SigningKeysProps, "path" | "reload"> {
  readonly role: KeyRole;
  readonly onClose: () => void;
}

function RollOverDialog({ path, role, reload, onClose }: RollOverDialogProps) {
  const { dnssec: words } = texts().dns;
  return (
    <ConfirmDialog
      title={words.rollOverTitle(role.toUpperCase())}
      confirmLabel={words.rollOver}
      danger={false}
      confirm={() => request("POST", `${path}/rollover`, { body: { role } })}
      done={() => {
        showToast(words.rolledOver);
        reload();
      }}
      onClose={onClose}
    >
      <p>{words.rollOverHint}</p>
    </ConfirmDialog>
  );
}
