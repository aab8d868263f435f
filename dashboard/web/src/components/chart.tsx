// Charts by uPlot. Each has its numbers in a table below; lines differ in their dashes, too.

import { useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Maybe } from "../api/types";
import { ThemeContext } from "../theme";
import type { Column } from "./table";
import { LocalTable } from "./table";

export type Shape = "line" | "steps" | "dashed" | "points" | "bars" | "stacked";

export interface ChartSeries {
  label: string;
  values: Maybe[];
  shape?: Shape;
  /** Index of a colour; by default the place of the series. */
  colour?: number;
  /** Ranges of measured points, drawn as vertical lines. */
  ranges?: ([number, number] | null)[];
  /** Scale on the right, for series of another unit. */
  right?: boolean;
  format?: (value: Maybe) => string;
}

export interface ChartProps {
  label: string;
  x: number[];
  xTitle: string;
  xFormat: (value: number) => string;
  time?: boolean;
  /** Places of rows rather than numbers: the axis has no scale. */
  rows?: boolean;
  series: ChartSeries[];
  yTitle: string;
  format: (value: Maybe) => string;
  height?: number;
  fromZero?: boolean;
  sync?: string;
  /** False where a table beside the chart has the same numbers. */
  numbers?: boolean;
}

export const COLOURS = 8;
/** The colour of what is of no interest by itself. */
export const FAINT = -1;
const DASHES: number[][] = [[], [7, 4], [2, 3], [10, 3, 2, 3]];
const SHOWN = 8;

function dashOf(colour: number): number[] {
  if (colour < 0) return [];
  return DASHES[Math.floor(colour / COLOURS) % DASHES.length] ?? [];
}

function resolve(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

interface Palette {
  series: string[];
  text: string;
  line: string;
  faint: string;
}

function palette(): Palette {
  return {
    series: Array.from({ length: COLOURS }, (_, index) => resolve(`--series-${index}`)),
    text: resolve("--muted"),
    line: resolve("--line"),
    faint: resolve("--faint"),
  };
}

function inkOf(each: ChartSeries, index: number, colours: Palette): string {
  const colour = each.colour ?? index;
  return (colour === FAINT ? colours.faint : colours.series[colour % COLOURS]) ?? colours.text;
}

function inkName(colour: number): string {
  return colour === FAINT ? "faint" : String(colour % COLOURS);
}

const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

function paths(shape: Shape, time: boolean): uPlot.Series.PathBuilder | undefined {
  if (shape === "steps" || (time && (shape === "dashed" || shape === "stacked"))) return uPlot.paths.stepped?.({ align: 1 });
  if (shape === "bars" || shape === "stacked") return uPlot.paths.bars?.({ size: [0.72, 48] });
  if (shape === "points") return () => null;
  return undefined;
}

function seriesOptions(
  each: ChartSeries,
  index: number,
  colours: Palette,
  time: boolean,
): uPlot.Series {
  const colour = inkOf(each, index, colours);
  const shape = each.shape ?? "line";
  const filled = shape === "bars" || shape === "stacked";
  const chosen = paths(shape, time);
  return {
    label: each.label,
    scale: each.right ? "right" : "y",
    stroke: shape === "dashed" ? colours.text : colour,
    width: filled ? 0 : 2,
    dash: shape === "dashed" ? [4, 4] : (dashOf(each.colour ?? index)),
    ...(filled ? { fill: colour } : {}),
    ...(chosen === undefined ? {} : { paths: chosen }),
    points: {
      show: shape === "points" || (each.values.length < 3 && (!filled || time) && shape !== "dashed"),
      size: 8,
      width: 2,
      fill: colour,
      stroke: colour,
    },
    spanGaps: false,
  };
}

function drawRanges(chart: uPlot, series: ChartSeries[], colours: Palette): void {
  const { ctx } = chart;
  series.forEach((each, index) => {
    if (each.ranges === undefined) return;
    ctx.save();
    ctx.strokeStyle = inkOf(each, index, colours);
    ctx.lineWidth = 1.5 * devicePixelRatio;
    each.ranges.forEach((range, place) => {
      const x = chart.data[0][place];
      if (range === null || x === undefined) return;
      const at = chart.valToPos(x, "x", true);
      const [low, high] = [chart.valToPos(range[0], "y", true), chart.valToPos(range[1], "y", true)];
      const cap = 4 * devicePixelRatio;
      ctx.beginPath();
      ctx.moveTo(at, low);
      ctx.lineTo(at, high);
      ctx.moveTo(at - cap, low);
      ctx.lineTo(at + cap, low);
      ctx.moveTo(at - cap, high);
      ctx.lineTo(at + cap, high);
      ctx.stroke();
    });
    ctx.restore();
  });
}

/** Values as drawn: stacked series stand on those before them, so the tallest is drawn first. */
function drawn(x: number[], series: ChartSeries[]): uPlot.AlignedData {
  const base = x.map(() => 0);
  const values = series.map((each) => {
    if (each.shape !== "stacked") return each.values;
    return each.values.map((value, index) => {
      base[index] = (base[index] ?? 0) + (value ?? 0);
      return base[index] ?? null;
    });
  });
  return [x, ...values] as uPlot.AlignedData;
}

/** From the first to the last moment, and at least a minute. */
function timeRange(times: ArrayLike<number>): uPlot.Range.MinMax {
  const [first, last] = [times[0], times[times.length - 1]];
  return first === undefined || last === undefined ? [0, 60] : [Math.min(first, last - 60), last];
}

function options(
  props: ChartProps,
  series: ChartSeries[],
  width: number,
  colours: Palette,
  onCursor: (index: number | null) => void,
): uPlot.Options {
  const axis = {
    stroke: colours.text,
    grid: { stroke: colours.line, width: 1 },
    ticks: { stroke: colours.line, width: 1, size: 4 },
    font: FONT,
    labelFont: FONT,
    labelSize: 18,
  };
  const right = series.find((each) => each.right);
  const range: uPlot.Range.Function = (_chart, low, high) => {
    if (low == null || high == null) return [0, 1];
    const bottom = props.fromZero === false ? low : Math.min(0, low);
    const room = (high - bottom || Math.abs(high) || 1) * 0.08;
    return [props.fromZero === false ? low - room : bottom < 0 ? bottom - room : 0, high + room];
  };
  const edge = props.rows ? 0.6 : 0;
  const wide = uPlot.rangeNum;
  return {
    width,
    height: props.height ?? 240,
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: false, y: false },
      points: { size: 7 },
      ...(props.sync === undefined ? {} : { sync: { key: props.sync } }),
    },
    scales: {
      x: {
        time: props.time ?? false,
        ...(props.time
          ? { range: (chart: uPlot) => timeRange(chart.data[0]) }
          : {
              range: (_chart: uPlot, low: number | null, high: number | null): uPlot.Range.MinMax =>
                low == null || high == null
                  ? [0, 1]
                  : props.rows
                    ? [low - edge, high + edge]
                    : wide(low, high, 0.02, true),
            }),
      },
      y: { range },
      ...(right ? { right: { range } } : {}),
    },
    axes: [
      {
        ...axis,
        grid: { show: !props.rows, stroke: colours.line, width: 1 },
        size: 30,
        ...(props.time
          ? { values: timeLabels, space: 90 }
          : {
              values: (_chart: uPlot, splits: number[]) =>
                splits.map((each) => (Number.isInteger(each) ? props.xFormat(each) : "")),
              space: props.rows ? 90 : 50,
              incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000],
            }),
      },
      { ...axis, size: 52, values: ticks(props.format) },
      ...(right
        ? [
            {
              ...axis,
              side: 1 as const,
              scale: "right",
              size: 52,
              grid: { show: false },
              values: ticks(right.format ?? props.format),
            },
          ]
        : []),
    ],
    series: [{}, ...series.map((each, index) => seriesOptions(each, index, colours, props.time ?? false))],
    hooks: {
      draw: [(chart) => drawRanges(chart, series, colours)],
      setCursor: [(chart) => onCursor(chart.cursor.idx ?? null)],
    },
  };
}

/** Values beside an axis, without zeros that say nothing. */
function ticks(format: (value: Maybe) => string) {
  return (_chart: uPlot, splits: (number | null)[]) =>
    splits.map((each) =>
      format(each)
        .replace(/\.0+(?=\D|$)/, "")
        .replace(/(\.\d*?[1-9])0+(?=\D|$)/, "$1"),
    );
}

const HOUR = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const SECOND = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});

function timeLabels(_chart: uPlot, splits: number[], _axis: number, _space: number, step: number) {
  const format = step < 60 ? SECOND : HOUR;
  return splits.map((each) => format.format(new Date(1000 * each)));
}

/** The shown series in the order of drawing: stacks from the tallest to the lowest. */
function inOrder(series: ChartSeries[], data: uPlot.AlignedData) {
  const stacked = series.map((each, index) => ({ each, index })).filter(isStacked);
  const others = series.map((each, index) => ({ each, index })).filter((one) => !isStacked(one));
  const order = [...stacked.reverse(), ...others];
  return {
    series: order.map(({ each }) => each),
    data: [data[0], ...order.map(({ index }) => data[index + 1])] as uPlot.AlignedData,
  };
}

function isStacked({ each }: { each: ChartSeries }): boolean {
  return each.shape === "stacked";
}

export function Chart(props: ChartProps) {
  const theme = useContext(ThemeContext);
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(
    () => new Set(props.series.slice(SHOWN).map((each) => each.label)),
  );
  const coloured = props.series.map((each, index) => ({
    ...each,
    colour: each.colour ?? index,
  }));
  const shown = coloured.filter((each) => !hidden.has(each.label));
  const built = useMemo(
    () => inOrder(shown, drawn(props.x, shown)),
    [props.x, props.series, hidden],
  );
  const structure = JSON.stringify([
    built.series.map((each) => [each.label, each.shape, each.colour, each.right]),
    built.series.some((each) => each.ranges !== undefined) ? built.series : null,
    props.rows ? props.x.length : null,
    props.format.name,
  ]);

  useEffect(() => {
    const host = place.current;
    if (host === null) return undefined;
    const made = new uPlot(
      options(props, built.series, Math.max(host.clientWidth, 120), palette(), setCursor),
      built.data,
      host,
    );
    chart.current = made;
    const resize = new ResizeObserver(() => {
      const width = Math.max(host.clientWidth, 120);
      if (Math.abs(width - made.width) >= 1) made.setSize({ width, height: made.height });
    });
    resize.observe(host);
    return () => {
      resize.disconnect();
      made.destroy();
      chart.current = null;
    };
  }, [structure, theme]);

  useEffect(() => {
    chart.current?.setData(built.data);
  }, [built]);

  const toggle = (label: string) => {
    const next = new Set(hidden);
    if (!next.delete(label)) next.add(label);
    setHidden(next);
  };
  const at = cursor ?? (props.time ? props.x.length - 1 : null);
  const moment = at === null ? undefined : props.x[at];
  return (
    <figure class="chart">
      <p class="chart-axis" aria-hidden="true">
        <span>{props.yTitle}</span>
        <span class="chart-moment">
          {cursor !== null && moment !== undefined && <bdi>{props.xFormat(moment)}</bdi>}
        </span>
        <span>{props.series.find((each) => each.right)?.label}</span>
      </p>
      <div class="chart-place" ref={place} role="img" aria-label={`${props.label}; table below`} />
      {props.xTitle !== "" && (
        <p class="chart-axis chart-axis-x" aria-hidden="true">
          {props.xTitle}
        </p>
      )}
      <ul class="legend" aria-label={`Series of ${props.label}`}>
        {coloured.map((each) => (
          <li key={each.label}>
            <button
              type="button"
              class="legend-item"
              aria-pressed={!hidden.has(each.label)}
              onClick={() => toggle(each.label)}
            >
              <Swatch shape={each.shape ?? "line"} colour={each.colour} />
              <bdi class="legend-name" title={each.label}>
                {each.label}
              </bdi>
              {at !== null && (
                <span class="legend-value">
                  {(each.format ?? props.format)(each.values[at] ?? null)}
                </span>
              )}
            </button>
          </li>
        ))}
      </ul>
      {props.numbers !== false && <Numbers {...props} />}
    </figure>
  );
}

function Swatch({ shape, colour }: { shape: Shape; colour: number }) {
  const name = shape === "dashed" ? "stroke-muted" : `stroke-${inkName(colour)}`;
  if (shape === "bars" || shape === "stacked")
    return <span class={`swatch fill-${inkName(colour)}`} aria-hidden="true" />;
  return (
    <svg class="swatch-line" viewBox="0 0 22 10" aria-hidden="true">
      {shape === "points" ? (
        <circle cx="11" cy="5" r="4" class={`fill-${inkName(colour)}`} />
      ) : (
        <line
          x1="0"
          x2="22"
          y1="5"
          y2="5"
          class={name}
          stroke-dasharray={
            shape === "dashed" ? "4 4" : dashOf(colour).join(" ")
          }
        />
      )}
    </svg>
  );
}

function Numbers(props: ChartProps) {
  const [open, setOpen] = useState(false);
  return (
    <details
      class="disclosure"
      onToggle={(event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}
    >
      <summary>The numbers as a table</summary>
      {open && <NumberTable {...props} />}
    </details>
  );
}

function NumberTable(props: ChartProps) {
  const rows = props.x.map((_, index) => index).filter((row) =>
    props.series.some((each) => each.values[row] != null),
  );
  if (props.time) rows.reverse();
  const columns: Column<number>[] = [
    {
      key: "x",
      title: props.xTitle,
      header: true,
      value: (row) => props.x[row] ?? null,
      cell: (row) => <bdi>{props.xFormat(props.x[row] ?? 0)}</bdi>,
    },
    ...props.series.flatMap((each): Column<number>[] => {
      const format = each.format ?? props.format;
      const value = {
        key: each.label,
        title: each.label,
        numeric: true,
        value: (row: number) => each.values[row] ?? null,
        cell: (row: number) => format(each.values[row] ?? null),
      };
      if (each.ranges === undefined) return [value];
      const range = {
        key: `${each.label} range`,
        title: "from – to",
        numeric: true,
        value: (row: number) => each.ranges?.[row]?.join(" to ") ?? null,
        cell: (row: number) => {
          const found = each.ranges?.[row];
          return found ? `${format(found[0])} – ${format(found[1])}` : "–";
        },
      };
      return [value, range];
    }),
  ];
  return (
    <LocalTable
      label={props.label}
      columns={columns}
      rows={rows}
      rowKey={String}
      size={20}
      empty="There are no numbers yet."
    />
  );
}

