import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { formatNumber } from "../format.ts";
import { locale, texts } from "../texts.ts";
import { theme } from "../theme.ts";
import { axisLabel, type ChartTimes, changesClocks, tableLabel } from "./chart-times.ts";
import { TableFrame } from "./table.tsx";
import { valueSteps } from "./value-steps.ts";

export interface Series {
  readonly label: string;
  /** A colour of the style sheet: `--accent`. */
  readonly colour: `--${string}`;
  /** One for each moment; null: not known. */
  readonly values: readonly (number | null)[];
}

interface ChartProps {
  readonly label: string;
  /** Seconds since 1970. */
  readonly times: readonly number[];
  readonly series: readonly Series[];
  readonly fractionDigits?: number;
  /** The times are days of UTC. */
  readonly areUtcDays?: boolean;
}

const HEIGHT_PX = 220;
/** From one time below the chart to the next, at least: `12:30 PM` and a gap. */
const TICK_PX = 80;
/** With a zone: `12:30 PM GMT+2`. */
const ZONED_TICK_PX = 130;

const DAY_SECONDS = 86_400;
/** What may lie between two times below the chart: nothing in it is finer than a minute. */
const TICKS_SECONDS = [
  ...[60, 300, 900, 1_800, 3_600, 7_200, 14_400, 43_200],
  ...[1, 2, 7, 14, 30, 90].map((days) => days * DAY_SECONDS),
];

/** Lines over time, broken where nothing is known; the same figures as a table for those who cannot see it. */
export function Chart({ label, times, series, fractionDigits = 0, areUtcDays = false }: ChartProps) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  // A chart is drawn anew when its look changes; new figures only move its lines.
  const look = [theme.value, locale.value, areUtcDays, ...series.map((line) => line.label + line.colour)].join();
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const drawn = new uPlot(optionsOf(series, element, fractionDigits, areUtcDays), [[]], element);
    plot.current = drawn;
    const observer = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      drawn.destroy();
    };
  }, [look]);
  useEffect(() => {
    plot.current?.setData([[...times], ...series.map(({ values }) => [...values])]);
  }, [times, series, look]);
  return (
    <figure class="chart-figure">
      <figcaption class="legend">
        {series.map((line) => (
          <span key={line.label}>
            <i style={{ background: `var(${line.colour})` }} />
            {line.label}
          </span>
        ))}
      </figcaption>
      <div ref={frame} class="chart" role="img" aria-label={label} />
      <FigureTable {...{ label, times, series, fractionDigits, areUtcDays }} />
    </figure>
  );
}

function FigureTable({ label, times, series, fractionDigits, areUtcDays }: Required<ChartProps>) {
  const words = texts().shell.chart;
  const nameOf = tableLabel(extentOf(times, areUtcDays));
  return (
    <details>
      <summary>{words.table}</summary>
      <TableFrame label={label}>
        <table class="table">
          <thead>
            <tr>
              <th scope="col">{words.time}</th>
              {series.map((line) => (
                <th key={line.label} scope="col" class="end">
                  {line.label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {times.map((time, index) => (
              <tr key={time}>
                <td>{nameOf(time)}</td>
                {series.map((line) => (
                  <td key={line.label} class="end">
                    {shown(line.values[index] ?? null, fractionDigits)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </TableFrame>
    </details>
  );
}

/** What the names of times go by. @param times in their order */
function extentOf(times: readonly number[], areUtcDays: boolean): ChartTimes {
  return { language: locale.value, from: times[0] ?? 0, to: times.at(-1) ?? 0, areUtcDays };
}

function optionsOf(
  series: readonly Series[],
  element: HTMLElement,
  fractionDigits: number,
  areUtcDays: boolean,
): uPlot.Options {
  const colour = (name: string) => getComputedStyle(probe(element, name)).color;
  const axis = { stroke: colour("--ink-soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  return {
    width: element.clientWidth,
    height: HEIGHT_PX,
    legend: { show: false },
    ...(areUtcDays ? { tzDate: (seconds: number) => uPlot.tzDate(new Date(seconds * 1_000), "Etc/UTC") } : {}),
    cursor: { y: false },
    // The last time stands below the line's end, half of it beyond.
    padding: [null, 28, null, null],
    axes: [
      {
        ...{ ...axis, incrs: TICKS_SECONDS },
        space: (_plot, _axis, from, to) => (changesClocks({ from, to, areUtcDays }) ? ZONED_TICK_PX : TICK_PX),
        values: (_plot, splits) => splits.map(axisLabel(extentOf(splits, areUtcDays))),
      },
      {
        ...axis,
        incrs: valueSteps(fractionDigits),
        size: 56,
        values: (_plot, splits) => splits.map((value) => formatNumber(value, fractionDigits)),
      },
    ],
    scales: { y: { range: (_plot, _least, most) => [0, Math.max(1, most * 1.1)] } },
    series: [
      {},
      ...series.map(({ label, colour: name }) => ({
        ...{ label, stroke: colour(name), width: 1.8 },
        points: { filter: lonelyPoints },
      })),
    ],
  };
}

/** A canvas knows no custom properties: an element that has the colour tells what it comes to. */
function probe(element: HTMLElement, name: string): HTMLElement {
  const found = element.querySelector<HTMLElement>(`[data-colour="${name}"]`);
  if (found) return found;
  const made = document.createElement("span");
  made.dataset.colour = name;
  made.style.color = `var(${name})`;
  element.append(made);
  return made;
}

function shown(value: number | null, fractionDigits: number): string {
  return value === null ? texts().shell.chart.none : formatNumber(value, fractionDigits);
}

/** A figure between two gaps has no line to be on: it is a point. */
const lonelyPoints: uPlot.Series.Points.Filter = (plot, line, isShowingAll) => {
  if (isShowingAll) return null;
  const values = plot.data[line]!;
  const isKnown = (index: number) => typeof values[index] === "number";
  return [...values.keys()].filter((index) => isKnown(index) && !isKnown(index - 1) && !isKnown(index + 1));
};
