import { drawBars, THEME_NAMES } from "./bar-chart.ts";
import type { BenchmarkName, Runs } from "./results.ts";
import { SUBJECTS, type Subject } from "./subjects.ts";
import { formatTable } from "./table.ts";

/** The page of benchmarks, and the charts that it shows, by the names of their files. */
export interface Page {
  readonly markdown: string;
  readonly charts: ReadonlyMap<string, string>;
}

/** Makes the page of the newest run of each benchmark. */
export function makePage(runs: Runs): Page {
  const parts: string[] = [];
  const charts = new Map<string, string>();
  const names = (Object.keys(SUBJECTS) as BenchmarkName[]).filter((name) => runs[name] !== undefined);
  for (const name of names) {
    for (const { title, text, chart, table } of subjectsOf(name, runs)) {
      if (chart) {
        for (const theme of THEME_NAMES) charts.set(`${chart.file}-${theme}.svg`, drawBars(chart, theme));
      }
      const picture = chart ? [pictureOf(chart.file, chart.title)] : [];
      parts.push([`## ${title}`, text, ...picture, table].join("\n\n"));
    }
  }
  const lines = new Map<string, BenchmarkName[]>();
  for (const name of names) {
    const { date, version, node, machine, peers } = runs[name]!;
    const line = [date, version, node, machine, peers].join(" | ");
    lines.set(line, [...(lines.get(line) ?? []), name]);
  }
  const when = [...lines].map(([line, together]) => [together.join(", "), line]);
  const head = ["benchmarks", "date", "Palomar", "Node", "machine", "peers"];
  return { markdown: [INTRODUCTION, ...parts, "## Runs", formatTable(head, when), ""].join("\n\n"), charts };
}

function subjectsOf<Name extends BenchmarkName>(name: Name, runs: Runs): Subject[] {
  return SUBJECTS[name](runs[name]!.result as never);
}

/** The chart in the reader's theme. */
function pictureOf(file: string, title: string): string {
  return `<picture><source media="(prefers-color-scheme: dark)" srcset="charts/${file}-dark.svg"><img alt="${title}" src="charts/${file}-light.svg"></picture>`;
}

const INTRODUCTION = `# Benchmarks

Palomar beside the programs of its field: in one run, on one machine, with the same load. \`npm run bench\` measures and writes this
page. Absolute figures are that machine's; the **ratio** counts: Palomar's figure divided by that of the best peer (of NSD and Knot
where both were measured). Where less is better (↓) it should be below 1, where more is better (↑) above.`;
