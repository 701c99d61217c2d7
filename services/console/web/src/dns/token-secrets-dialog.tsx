import { useState } from "preact/hooks";
import { programsFor, type TokenProgram, tokenSnippet } from "../../../../core/dns/token-snippets.ts";
import { Button } from "../components/button.tsx";
import { CopyBlock, SecretOnce } from "../components/copy.tsx";
import { Dialog } from "../components/dialog.tsx";
import { SelectField, TextField } from "../components/field.tsx";
import { texts } from "../texts.ts";
import type { MadeToken } from "./token.ts";

const DNS_PORT = 53;

/** The secrets of a token, which are shown once, and what to paste into programs. */
export function TokenSecretsDialog({ made, onClose }: { readonly made: MadeToken; readonly onClose: () => void }) {
  const { dns, shell } = texts();
  const { tokens: words } = dns;
  const { token, tsig } = made;
  const programs = programsFor({ token, tsig });
  const [chosen, setChosen] = useState<TokenProgram>(programs[0]!);
  const [server, setServer] = useState(location.hostname);
  const [apiUrl, setApiUrl] = useState(`${location.protocol}//${location.hostname}:8053`);
  const [zone, setZone] = useState(made.zones?.find((name) => !name.includes("*")) ?? "example.org");
  const field = (name: string, value: string, onValue: (value: string) => void) => ({
    ...{ name, value, onValue, error: undefined, mono: true },
  });
  return (
    <Dialog title={`${words.title}: ${made.name}`} onClose={onClose} wide>
      <div class="dialog-body">
        {token !== null && <SecretOnce secret={token} label={words.secret} />}
        {tsig && <SecretOnce secret={`${tsig.algorithm}:${tsig.name}:${tsig.secret}`} label={words.tsigKey} />}
        <div class="fields roomy">
          <SelectField
            name="program"
            label={words.program}
            value={chosen}
            error={undefined}
            onValue={(value) => setChosen(value as TokenProgram)}
            options={programs.map((program) => ({ value: program, label: words.programs[program] }))}
          />
          <TextField {...field("zone", zone, setZone)} label={dns.zone} />
          <TextField {...field("server", server, setServer)} label={words.server} />
          <TextField {...field("api", apiUrl, setApiUrl)} label={words.apiUrl} />
        </div>
        <CopyBlock
          label={words.programs[chosen]}
          text={tokenSnippet(chosen, { server, port: DNS_PORT, apiUrl, zone, token, tsig })}
        />
      </div>
      <footer class="dialog-foot">
        <Button kind="primary" onClick={onClose}>
          {shell.close}
        </Button>
      </footer>
    </Dialog>
  );
}
