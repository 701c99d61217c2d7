import { Loaded } from "../../components/loaded.tsx";
import { useFetched } from "../../fetched.ts";
import { formatNumber } from "../../format.ts";
import { texts } from "../../texts.ts";
import { instancePath, mailPage } from "../addresses.ts";
import type { Group } from "../contacts/contact.ts";
import type { Filter } from "../filters/condition.ts";
import type { Campaign } from "./campaign.ts";

interface RecipientsProps {
  readonly instance: string;
  readonly groups: readonly string[];
  readonly filters: readonly number[];
  readonly chooseGroups: (groups: readonly string[]) => void;
  readonly chooseFilters: (filters: readonly number[]) => void;
}

/** Chooses groups and filters to send to; a contact that several of them hold gets one message. */
export function Recipients({ instance, groups, filters, chooseGroups, chooseFilters }: RecipientsProps) {
  const words = texts().mail;
  const offered = useOffered(instance);
  const offeredGroups = offered.groups.value?.grupos;
  const offeredFilters = offered.filters.value?.filtros;
  // What was chosen and is gone meanwhile has to be there still, for its choice to be taken back.
  const goneGroups = offeredGroups && groups.filter((name) => !offeredGroups.some(({ nombre }) => nombre === name));
  const isNothingThere = offeredGroups?.length === 0 && offeredFilters?.length === 0;
  return (
    <>
      <div class="recipients">
        <fieldset>
          <legend>{words.groups.title}</legend>
          {offeredGroups?.map(({ nombre, contactos }) => (
            <Choice
              key={nombre}
              label={nombre}
              contacts={contactos}
              chosen={groups.includes(nombre)}
              toggle={() => chooseGroups(toggled(groups, nombre))}
            />
          ))}
          {offeredGroups?.length === 0 && <p class="hint">{words.groups.empty}</p>}
          {goneGroups?.map((name) => (
            <Choice
              key={name}
              label={name}
              contacts={0}
              chosen={true}
              toggle={() => chooseGroups(toggled(groups, name))}
            />
          ))}
        </fieldset>
        <fieldset>
          <legend>{words.filters.title}</legend>
          {offeredFilters?.map(({ id, nombre, contactos }) => (
            <Choice
              key={id}
              label={nombre}
              contacts={contactos}
              chosen={filters.includes(id)}
              toggle={() => chooseFilters(toggled(filters, id))}
            />
          ))}
          {offeredFilters?.length === 0 && <p class="hint">{words.filters.empty}</p>}
        </fieldset>
      </div>
      {isNothingThere && (
        <p class="note warn">
          <span>
            {words.campaigns.noRecipients}{" "}
            <a href={mailPage(instance, "contacts", "groups")}>{words.campaigns.toGroups}</a>
          </span>
        </p>
      )}
    </>
  );
}

/** The groups and filters that a campaign is for as it is saved, with how many contacts they have. */
export function ChosenRecipients({ instance, campaign }: { readonly instance: string; readonly campaign: Campaign }) {
  const words = texts().mail;
  const offered = useOffered(instance);
  const line = (key: string | number, name: string, contacts: number) => (
    <li key={key}>
      {name} <span class="hint">{words.filters.count(formatNumber(contacts))}</span>
    </li>
  );
  return (
    <Loaded of={offered.groups}>
      {({ grupos }) => (
        <Loaded of={offered.filters}>
          {({ filtros }) => (
            <ul>
              {campaign.grupos.map((name) =>
                line(name, name, grupos.find(({ nombre }) => nombre === name)?.contactos ?? 0),
              )}
              {filtros
                .filter(({ id }) => campaign.filtros.includes(id))
                .map(({ id, nombre, contactos }) => line(id, nombre, contactos))}
            </ul>
          )}
        </Loaded>
      )}
    </Loaded>
  );
}

/** What there is to choose from. */
function useOffered(instance: string) {
  return {
    groups: useFetched<{ grupos: readonly Group[] }>(instancePath(instance, "groups")),
    filters: useFetched<{ filtros: readonly Filter[] }>(instancePath(instance, "filters")),
  };
}

interface ChoiceProps {
  readonly label: string;
  readonly contacts: number;
  readonly chosen: boolean;
  readonly toggle: () => void;
}

function Choice({ label, contacts, chosen, toggle }: ChoiceProps) {
  return (
    <label class="row">
      <input type="checkbox" checked={chosen} onChange={toggle} />
      {label} <span class="hint">{texts().mail.filters.count(formatNumber(contacts))}</span>
    </label>
  );
}

function toggled<T>(chosen: readonly T[], item: T): readonly T[] {
  return chosen.includes(item) ? chosen.filter((other) => other !== item) : [...chosen, item];
}
