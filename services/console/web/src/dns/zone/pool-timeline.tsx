import { formatNumber, formatTime } from "../../format.ts";
import { texts } from "../../texts.ts";
import type { PoolEvent, PoolState } from "./follower.ts";

const ROW_PX = 18;
const WIDTH = 600;
const LEAST_SPAN_MS = 3_600_000;

/** When each address was up and when it was not, from the first event that is known to now. */
export function PoolTimeline({ state }: { readonly state: PoolState }) {
  const { followers: words } = texts().dns;
  const { states, history } = state;
  if (history.length === 0) return <p class="hint">{words.noHistory}</p>;
  const now = Date.now();
  const from = Math.min(now - LEAST_SPAN_MS, ...history.map(({ at }) => Date.parse(at)));
  const placeOf = (at: number) => ((at - from) / (now - from)) * WIDTH;
  return (
    <figure class="pool-timeline">
      <figcaption class="hint">{words.history(formatTime(new Date(from).toISOString()))}</figcaption>
      {states.map(({ member, address, up, checked_since }) => {
        const own = history.filter((event) => event.member === member && event.address === address);
        const label = words.timeline(address, formatNumber(own.filter((event) => !event.up).length));
        return (
          <div key={`${member} ${address}`} class="pool-timeline-row">
            <span class="mono">{member === address ? address : `${member} ${address}`}</span>
            <svg viewBox={`0 0 ${WIDTH} ${ROW_PX}`} preserveAspectRatio="none" role="img" aria-label={label}>
              {spansOf(own, up, { from: Math.max(from, Date.parse(checked_since)), now }).map((span) => (
                <rect
                  key={span.from}
                  class={span.up ? "up" : "down"}
                  x={placeOf(span.from)}
                  y={0}
                  width={Math.max(1, placeOf(span.to) - placeOf(span.from))}
                  height={ROW_PX}
                />
              ))}
            </svg>
          </div>
        );
      })}
    </figure>
  );
}

interface Span {
  readonly from: number;
  readonly to: number;
  readonly up: boolean;
}

/** @param events newest first @param from since when the address is looked at, or the drawing begins */
function spansOf(
  events: readonly PoolEvent[],
  isUp: boolean,
  { from, now }: { readonly from: number; readonly now: number },
): Span[] {
  const spans: Span[] = [];
  let [to, up] = [now, isUp];
  for (const event of events) {
    const at = Date.parse(event.at);
    if (at <= from) break;
    spans.push({ from: at, to, up });
    to = at;
    up = !event.up;
  }
  return [...spans, { from, to, up }];
}
