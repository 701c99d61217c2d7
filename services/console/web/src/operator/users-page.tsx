import { useState } from "preact/hooks";
import { Badge } from "../components/badge.tsx";
import { Button } from "../components/button.tsx";
import { SecretOnce } from "../components/copy.tsx";
import { ConfirmDialog, Dialog } from "../components/dialog.tsx";
import { ListPage } from "../components/list-page.tsx";
import type { Column } from "../components/table.tsx";
import { useRows } from "../fetched.ts";
import { formatAge } from "../format.ts";
import { type Answer, pathOf, request } from "../http.ts";
import { type Role, session } from "../session.ts";
import { texts } from "../texts.ts";
import { type NewPassword, NewUserDialog } from "./new-user-dialog.tsx";

interface UserRow {
  readonly login: string;
  readonly role: Role;
  readonly scope: string | null;
  readonly totp: boolean;
  readonly seen: string | null;
}

/** The accounts of the console that the reader may manage. */
export function UsersPage() {
  const { users: words } = texts().operator;
  const list = useRows<UserRow>("/users", "users");
  const [resetting, setResetting] = useState<string>();
  const [made, setMade] = useState<NewPassword>();
  return (
    <ListPage<UserRow>
      words={words}
      icon="user"
      list={list}
      rowName={({ login }) => login}
      add={{
        label: words.add,
        dialog: (close) => (
          <NewUserDialog
            onAdded={(added) => {
              close();
              setMade(added);
              list.reload();
            }}
            onClose={close}
          />
        ),
      }}
      rowActions={({ login }) =>
        login !== session.value?.login && (
          <Button small label={`${words.reset}: ${login}`} onClick={() => setResetting(login)}>
            {words.reset}
          </Button>
        )
      }
      removal={{ words, request: ({ login }) => request("DELETE", pathOf("users", login)) }}
      columns={columnsOfUsers()}
    >
      {made && (
        <Dialog title={words.passwordOf(made.login)} onClose={() => setMade(undefined)}>
          <div class="dialog-body">
            <SecretOnce label={words.password} secret={made.password} />
          </div>
        </Dialog>
      )}
      {resetting !== undefined && (
        <ResetDialog login={resetting} onMade={setMade} reload={list.reload} onClose={() => setResetting(undefined)} />
      )}
    </ListPage>
  );
}

function columnsOfUsers(): Column<UserRow>[] {
  const { operator, shell } = texts();
  const words = operator.users;
  return [
    { id: "login", label: words.login, cell: ({ login }) => <strong>{login}</strong> },
    { id: "role", label: words.role, cell: ({ role }) => shell.roles[role] },
    {
      id: "scope",
      label: words.scope,
      cell: ({ scope }) => <span class="mono">{scope ?? ""}</span>,
      grows: true,
    },
    {
      id: "totp",
      label: words.totp,
      cell: ({ totp }) => <Badge tone={totp ? "good" : "quiet"}>{totp ? shell.yes : shell.no}</Badge>,
      optional: true,
    },
    {
      id: "seen",
      label: words.seen,
      cell: ({ seen }) => (seen === null ? shell.never : formatAge(seen)),
      optional: true,
    },
  ];
}

interface ResetDialogProps {
  readonly login: string;
  readonly onMade: (made: NewPassword) => void;
  readonly reload: () => void;
  readonly onClose: () => void;
}

function ResetDialog({ login, onMade, reload, onClose }: ResetDialogProps) {
  const { users: words } = texts().operator;
  return (
    <ConfirmDialog
      title={words.resetTitle(login)}
      confirmLabel={words.reset}
      confirm={async (): Promise<Answer<NewPassword>> => {
        const answer = await request<NewPassword>("POST", pathOf("users", login, "reset"));
        if (answer.ok) onMade(answer.value);
        return answer;
      }}
      done={reload}
      onClose={onClose}
    >
      <p>{words.resetHint}</p>
    </ConfirmDialog>
  );
}
