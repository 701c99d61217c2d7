import type { ComponentChildren } from "preact";
import { texts } from "../texts.ts";
import { Icon, type IconName } from "./icon.tsx";

interface EmptyStateProps {
  readonly icon: IconName;
  readonly title: string;
  /** What to do next. */
  readonly children: ComponentChildren;
}

/** Stands where there is nothing yet, and says what to do about it. */
export function EmptyState({ icon, title, children }: EmptyStateProps) {
  return (
    <div class="empty-state">
      <Icon name={icon} />
      <p class="empty-title">{title}</p>
      <div class="empty-next">{children}</div>
    </div>
  );
}

/** Stands where a search or a filter leaves nothing of a list. */
export function NothingFound() {
  const { nothingFound, nothingFoundHint } = texts().shell;
  return (
    <EmptyState icon="search" title={nothingFound}>
      <p>{nothingFoundHint}</p>
    </EmptyState>
  );
}
