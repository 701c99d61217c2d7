/** Line drawings on a grid of 16: each a path. */
const DRAWINGS = {
  add: "M8 3v10M3 8h10",
  audit: "M4 2.5h8v11H4zM6 5.5h4M6 8h4M6 10.5h2.5",
  bell: "M4.5 7a3.5 3.5 0 0 1 7 0c0 3 1.5 4 1.5 4H3s1.5-1 1.5-4M6.5 13.5h3",
  block: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M4.2 4.2l7.6 7.6",
  building: "M3.5 13.5v-11h6v11M9.5 6h3v7.5M2 13.5h12M5.5 5h2M5.5 7.5h2M5.5 10h2",
  chart: "M2.5 2.5v11h11M5.5 10.5v-3M8.5 10.5v-6M11.5 10.5v-4",
  check: "M3 8.5l3.5 3.5L13 4.5",
  chevron: "M6 3.5L10.5 8L6 12.5",
  close: "M4 4l8 8M12 4l-8 8",
  contact: "M8 2.5a2.5 2.5 0 1 0 0 5a2.5 2.5 0 1 0 0-5M3 13.5c0-3 2-4.5 5-4.5s5 1.5 5 4.5",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  download: "M8 2.5v8M4.5 7.5L8 11l3.5-3.5M2.5 13.5h11",
  edit: "M3 13l.7-3L10.5 3.2l2.3 2.3L6 12.3zM9 4.7l2.3 2.3",
  feed: "M3 3a10 10 0 0 1 10 10M3 7a6 6 0 0 1 6 6M3.5 12.5h.01",
  filter: "M2.5 3h11L9.5 8v4.5l-3 1V8z",
  globe: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M2.5 8h11M8 2.5c2 2 2 9 0 11M8 2.5c-2 2-2 9 0 11",
  history: "M3 4v3h3M3.3 7A5 5 0 1 1 3 9M8 5.5V8l2 1.5",
  home: "M2.5 7.5L8 2.5l5.5 5M4 6.5v7h8v-7M6.5 13.5v-4h3v4",
  inbox: "M2.5 9l2-6h7l2 6v4.5h-11zM2.5 9h3.5l1 2h2l1-2h3.5",
  instance: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
  key: "M5 6.5a3 3 0 1 0 .01 0M7.3 8l6-5.5M11 4.5l1.5 1.7",
  lock: "M4 7h8v6.5H4zM5.5 7V5a2.5 2.5 0 0 1 5 0v2",
  mail: "M2.5 3.5h11v9h-11zM2.5 4.5L8 9l5.5-4.5",
  menu: "M2.5 4h11M2.5 8h11M2.5 12h11",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5",
  node: "M8 2.5l5 3v5l-5 3l-5-3v-5zM8 8v5M8 8L3 5.5M8 8l5-2.5",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3l8 5l-8 5z",
  queue: "M2.5 4h11M2.5 8h8M2.5 12h5M12 10v4M10 12h4",
  refresh: "M13 3v3.5H9.5M12.6 6.5A5 5 0 1 0 13 9",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9M10.3 10.3l3.2 3.2",
  send: "M2.5 8L13.5 2.5L9.5 13.5L7.5 9z",
  settings: "M2.5 5h6M12.5 5h1M10.5 3.5a1.5 1.5 0 1 0 .01 0M2.5 11h1M7.5 11h6M5.5 9.5a1.5 1.5 0 1 0 .01 0",
  shield: "M8 2l5 2v4c0 3-2 5-5 6c-3-1-5-3-5-6V4zM6 8l1.5 1.5L10.5 6.5",
  signOut: "M9.5 3h-6v10h6M7 8h6.5M11 5.5L13.5 8L11 10.5",
  sun: "M8 5.2a2.8 2.8 0 1 0 .01 0M8 1.5v1.5M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1",
  system: "M2.5 3h11v7.5h-11zM6 13.5h4M8 10.5v3",
  tag: "M2.5 2.5h5l6 6l-5 5l-6-6zM5.5 5.5h.01",
  transfer: "M3 5.5h9.5M10 3l2.5 2.5L10 8M13 10.5H3.5M6 8l-2.5 2.5L6 13",
  trash: "M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.5 9h6l.5-9M7 7v4M9 7v4",
  upload: "M8 11V3M4.5 6L8 2.5L11.5 6M2.5 13.5h11",
  user: "M8 3a2.5 2.5 0 1 0 0 5a2.5 2.5 0 1 0 0-5M3 13.5c.5-2.5 2.5-3.5 5-3.5s4.5 1 5 3.5",
  warning: "M8 2.5l6 11H2zM8 6.5v3.5M8 12h.01",
  webhook: "M6.5 5.5a2 2 0 1 1 3 0l2 4M11.5 9.5a2 2 0 1 1-2 3.5H6M4 9.5a2 2 0 1 0 2 3.5M4 9.5l2.5-4",
} as const;

export type IconName = keyof typeof DRAWINGS;

/** A drawing beside a word; screen readers skip it. */
export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={DRAWINGS[name]} />
    </svg>
  );
}
