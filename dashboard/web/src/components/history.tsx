// What was: one chart for each unit of the history of a user, a job, a node or the cluster.

import { useMemo } from "preact/hooks";
import { query } from "../api/client";
import { useAnswer } from "../api/live";
import type { History, Series } from "../api/types";
import { inUnit, moment } from "../format";
import { Card, Empty, Failure, Loading } from "./basics";
import type { ChartSeries } from "./chart";
import { Chart } from "./chart";

const TITLES: Record<string, string> = {
  cores: "Cores over time",
  price: "Price of a core over time",
  credits: "Credits over time",
  speedup: "Speedup over time",
  bytes: "Memory over time",
  GiB: "Memory over time",
};

const SOURCES = {
  prometheus: "from Prometheus",
  operator: "kept by the operator",
  record: "recorded by the run",
  session: "since this dashboard was started",
  none: "",
} as const;

export function HistoryCharts({
  kind,
  name = "",
  namespace = "",
  since = 3600,
  step = 15,
  wide = false,
  height = 220,
  between,
}: {
  kind: "user" | "job" | "node" | "cluster";
  name?: string;
  namespace?: string;
  since?: number;
  step?: number;
  wide?: boolean;
  height?: number;
  /** Only times from the first to the second of these, in seconds since 1970, are shown. */
  between?: readonly [number, number];
}) {
  const { data: answer, error } = useAnswer<History>(
    `history${query({ kind, name, namespace, since, step })}`,
    Math.max(step, 10),
  );
  const data = useMemo(
    () => (answer === null || between === undefined ? answer : within(answer, between)),
    [answer, between?.[0], between?.[1]],
  );
  const units = useMemo(() => byUnit(data?.series ?? []), [data]);
  if (data === null)
    return (
      <Card title="Over time" wide={wide}>
        {error === null ? <Loading /> : <Failure error={error} />}
      </Card>
    );
  if (data.times.length === 0 || units.length === 0)
    return (
      <Card title="Over time" wide={wide}>
        <Empty>
          {between !== undefined
            ? "Nothing is known of this time; choose another one."
            : data.notes.length > 0
              ? data.notes.map((each) => <bdi key={each}>{each} </bdi>)
            : "Nothing has been recorded yet. Leave this page open, or name a Prometheus."}
        </Empty>
      </Card>
    );
  return (
    <>
      {units.map(([unit, series]) => (
        <Card
          key={unit}
          title={TITLES[unit] ?? `${unit} over time`}
          about={data.notes.length > 0 ? data.notes.join("; ") : SOURCES[data.source]}
          wide={wide}
        >
          <Chart
            label={TITLES[unit] ?? unit}
            x={data.times}
            xTitle=""
            xFormat={(time) => moment(1000 * time)}
            time
            series={drawn(series, kind === "cluster" && unit === "cores")}
            yTitle={unit === "bytes" || unit === "GiB" ? "memory" : unit}
            format={FORMATS[unit] ?? cores}
            height={height}
            fromZero={unit !== "credits" && unit !== "price"}
            sync={`history-${kind}`}
          />
        </Card>
      ))}
    </>
  );
}

function within(of: History, [from, to]: readonly [number, number]): History {
  const shown = of.times.map((time) => time >= from && time <= to);
  const kept = <T,>(values: T[]) => values.filter((_, index) => shown[index]);
  return {
    ...of,
    times: kept(of.times),
    series: of.series.map((each) => ({ ...each, values: kept(each.values) })),
  };
}

/** What one is entitled to is a line to compare with, so it takes no colour. */
function drawn(series: Series[], stacked: boolean): ChartSeries[] {
  const coloured = series.filter(({ name }) => !/^(memoryE|e)ntitled$/.test(name));
  return series.map((each): ChartSeries => {
    const colour = coloured.indexOf(each);
    const shape = colour < 0 ? "dashed" : stacked ? "stacked" : "steps";
    return { label: each.name, values: each.values, shape, colour };
  });
}

const cores = (value: number | null) => inUnit(value, "cores");
const FORMATS: Record<string, (value: number | null) => string> = {
  price: (value) => inUnit(value, "price"),
  credits: (value) => inUnit(value, "credits"),
  bytes: (value) => inUnit(value, "bytes"),
  GiB: (value) => inUnit(value, "GiB"),
};

const ORDER = ["cores", "speedup", "price", "credits", "bytes", "GiB"];

function byUnit(series: Series[]): [string, Series[]][] {
  const units = new Map<string, Series[]>();
  for (const each of series) {
    if (!each.values.some((value) => value !== null)) continue;
    units.set(each.unit, [...(units.get(each.unit) ?? []), each]);
  }
  const place = (unit: string) => (ORDER.includes(unit) ? ORDER.indexOf(unit) : ORDER.length);
  return [...units].sort(([one], [other]) => place(one) - place(other));
}
