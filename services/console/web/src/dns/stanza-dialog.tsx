import { useState } from "preact/hooks";
import { CopyBlock } from "../components/copy.tsx";
import { Dialog } from "../components/dialog.tsx";
import { SelectField, TextField } from "../components/field.tsx";
import { Loaded } from "../components/loaded.tsx";
import { useFetched } from "../fetched.ts";
import { queryOf } from "../http.ts";
import { useSettled } from "../settled.ts";
import { texts } from "../texts.ts";
import { NAME_SERVERS, RESOLVERS } from "./acl.ts";
import type { ResellerFeeds } from "./feed.ts";
import { resellerApi } from "./paths.ts";

interface StanzaDialogProps {
  readonly reseller: string;
  readonly acl: string;
  readonly onClose: () => void;
}

/** What to paste into the configuration of the name server at the other end. */
export function StanzaDialog({ reseller, acl, onClose }: StanzaDialogProps) {
  const { acls: words } = texts().dns;
  const [server, setServer] = useState("bind");
  const [rpz, setRpz] = useState("");
  const [primary, setPrimary] = useState("");
  // Of a reseller with many zones a stanza is megabytes.
  const askedPrimary = useSettled(primary.trim());
  const feeds = useFetched<ResellerFeeds>(resellerApi(reseller, "rpz"));
  const activeFeeds = (feeds.value?.rpz ?? []).filter(({ active }) => active);
  const servers: readonly { value: string; label: string }[] = rpz === "" ? NAME_SERVERS : RESOLVERS;
  const shownServer = servers.some(({ value }) => value === server) ? server : "bind";
  const stanza = useFetched<{ stanza: string }>(
    resellerApi(reseller, "acls", acl, "stanza") + queryOf({ for: shownServer, rpz, primary: askedPrimary }),
  );
  return (
    <Dialog title={`${words.stanza}: ${acl}`} onClose={onClose} wide>
      <div class="dialog-body">
        <div class="fields roomy">
          <SelectField
            name="server"
            label={words.stanzaFor}
            value={shownServer}
            error={undefined}
            onValue={setServer}
            options={servers}
          />
          <TextField
            name="primary"
            label={words.primary}
            hint={words.primaryHint}
            value={primary}
            error={undefined}
            onValue={setPrimary}
            placeholder="192.0.2.53:53"
            mono
          />
          {activeFeeds.length > 0 && (
            <SelectField
              name="rpz"
              label={words.rpz}
              value={rpz}
              error={undefined}
              onValue={setRpz}
              options={[
                { value: "", label: words.noRpz },
                ...activeFeeds.map(({ zone }) => ({ value: zone, label: zone })),
              ]}
            />
          )}
        </div>
        <p class="hint">{words.stanzaHint}</p>
        <Loaded of={stanza}>
          {({ stanza: text }) => (
            <CopyBlock label={servers.find(({ value }) => value === shownServer)?.label ?? shownServer} text={text} />
          )}
        </Loaded>
      </div>
    </Dialog>
  );
}
