import { useAction } from "../../action.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Loaded } from "../../components/loaded.tsx";
import { useFetched } from "../../fetched.ts";
import { formatTime } from "../../format.ts";
import { request } from "../../http.ts";
import { describeSentence } from "../../problem-words.ts";
import { texts } from "../../texts.ts";
import type { PoolMember, PoolState } from "./follower.ts";
import { PoolTimeline } from "./pool-timeline.tsx";

const READ_EVERY_MS = 5_000;

interface PoolDialogProps {
  readonly path: string;
  readonly name: string;
  readonly changed: () => void;
  readonly onClose: () => void;
}

/** A pool's members: what each node says of them, what became of them, and which are spared. */
export function PoolDialog({ path, name, changed, onClose }: PoolDialogProps) {
  const { followers: words } = texts().dns;
  const pool = useFetched<PoolState>(path, READ_EVERY_MS);
  return (
    <Dialog title={`${words.pool} ${name}`} onClose={onClose} wide>
      <div class="dialog-body">
        <Loaded of={pool}>
          {(state) => (
            <>
              <p class="hint">{words.nodes(state.nodes.join(", ") || "–")}</p>
              <ul class="pool-members">
                {state.members.map((member) => (
                  <Member
                    key={member.name}
                    {...{ path, member, state }}
                    changed={() => {
                      pool.reload();
                      changed();
                    }}
                  />
                ))}
              </ul>
              <PoolTimeline state={state} />
            </>
          )}
        </Loaded>
      </div>
    </Dialog>
  );
}

interface MemberProps {
  readonly path: string;
  readonly member: PoolMember;
  readonly state: PoolState;
  readonly changed: () => void;
}

function Member({ path, member, state, changed }: MemberProps) {
  const { followers: words } = texts().dns;
  const verb = member.drain ? "undrain" : "drain";
  const toggle = useAction(() => request("POST", `${path}/${verb}`, { body: { member: member.name } }), changed);
  const states = state.states.filter((one) => one.member === member.name);
  return (
    <li>
      <div class="row">
        <strong class="mono">{member.name}</strong>
        {member.drain && <Badge tone="quiet">{words.drained}</Badge>}
        {states.length === 0 && <Badge tone="quiet">{words.unchecked}</Badge>}
        <Button small busy={toggle.busy} label={`${words[verb]}: ${member.name}`} onClick={() => void toggle.run()}>
          {words[verb]}
        </Button>
      </div>
      {states.map(({ address, up, since, verdicts }) => (
        <p key={address} class="hint">
          <span class="mono">{address}</span> <Badge tone={up ? "good" : "bad"}>{up ? words.up : words.down}</Badge>{" "}
          {formatTime(since)}
          {verdicts.flatMap(({ node, reason }) => (reason ? [` · ${node}: ${describeSentence(reason)}`] : [])).join("")}
        </p>
      ))}
    </li>
  );
}
