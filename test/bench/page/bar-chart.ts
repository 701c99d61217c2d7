import { formatFigure } from "./table.ts";

/** A chart of horizontal bars, one a program. */
export interface BarChart {
  /** What is measured, with its unit. */
  readonly title: string;
  readonly bars: readonly { readonly name: string; readonly figure: number }[];
}

const THEMES = {
  light: { text: "#1f2328", own: "#0969da", peer: "#afb8c1" },
  dark: { text: "#e6edf3", own: "#4493f8", peer: "#656c76" },
} as const;
export type Theme = keyof typeof THEMES;
export const THEME_NAMES = Object.keys(THEMES) as Theme[];

const WIDTH = 640;
const NAME_WIDTH = 170;
const FIGURE_WIDTH = 80;
const LINE = 26;
const HEAD = 30;

/** Draws a chart as SVG without a background, its text in the theme's colour; the first bar stands out. */
export function drawBars({ title, bars }: BarChart, theme: Theme): string {
  const { text, own, peer } = THEMES[theme];
  const largest = Math.max(...bars.map(({ figure }) => figure));
  const room = WIDTH - NAME_WIDTH - FIGURE_WIDTH;
  const height = HEAD + bars.length * LINE;
  const lines = bars.map(({ name, figure }, index) => {
    const top = HEAD + index * LINE;
    const width = Math.max(1, Math.round((figure / largest) * room));
    const middle = top + LINE / 2 + 5;
    return `  <text x="${NAME_WIDTH - 10}" y="${middle}" text-anchor="end">${escapeXml(name)}</text>
  <rect x="${NAME_WIDTH}" y="${top + 4}" width="${width}" height="${LINE - 8}" rx="2" fill="${index === 0 ? own : peer}"/>
  <text x="${NAME_WIDTH + width + 8}" y="${middle}">${formatFigure(figure)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" font-family="system-ui, sans-serif" font-size="14" fill="${text}">
  <title>${escapeXml(title)}</title>
  <text x="0" y="18" font-weight="600">${escapeXml(title)}</text>
${lines.join("\n")}
</svg>
`;
}

function escapeXml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
