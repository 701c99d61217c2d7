import { useEffect, useRef, useState } from "preact/hooks";
import { TYPING_PAUSE_MS } from "../settled.ts";
import { Icon } from "./icon.tsx";

interface SearchFieldProps {
  readonly label: string;
  readonly value: string;
  readonly onSearch: (search: string) => void;
}

/** Searches while the reader types; `/` brings the focus here. */
export function SearchField({ label, value, onSearch }: SearchFieldProps) {
  const [typed, setTyped] = useState(value);
  const told = useRef(value);
  useEffect(() => {
    if (value !== told.current) {
      told.current = value;
      setTyped(value);
    }
  }, [value]);
  useEffect(() => {
    if (typed === told.current) return;
    const timer = setTimeout(() => {
      told.current = typed;
      onSearch(typed);
    }, TYPING_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed, onSearch]);
  return (
    <div class="search">
      <Icon name="search" />
      <input
        type="search"
        aria-label={label}
        placeholder={label}
        value={typed}
        spellcheck={false}
        autocomplete="off"
        onInput={({ currentTarget }) => setTyped(currentTarget.value)}
      />
      <kbd>/</kbd>
    </div>
  );
}
