// One job: how it speeds up, what it holds and pays, and why.

import { useMemo } from "preact/hooks";
import { path } from "../api/client";
import { useAnswer } from "../api/live";
import type { CoRunner, Curve, JobDetail, OneMore, JobPod } from "../api/types";
import {
  Card,
  Empty,
  Facts,
  Failure,
  Faults,
  Heading,
  Loading,
  Name,
  Notes,
  State,
  unlessTold,
} from "../components/basics";
import type { ChartSeries } from "../components/chart";
import { Chart, FAINT } from "../components/chart";
import { HistoryCharts } from "../components/history";
import type { Column } from "../components/table";
import { LocalTable } from "../components/table";
import * as text from "../format";
import { link } from "../router";

export function Job({ namespace, name }: { namespace: string; name: string }) {
  const { data, error } = useAnswer<JobDetail>(`jobs/${path(namespace, name)}`);
  const title = `${namespace}/${name}`;
  return (
    <>
      <Heading
        title={title}
        above={<a href={link("jobs")}>Jobs</a>}
        below={
          data !== null && (
            <p>
              <State of={data.row.state} /> <bdi>{unlessTold(data.row.message, data.explanation.faults)}</bdi>
            </p>
          )
        }
      >
        <Name of={title} />
      </Heading>
      {error !== null && <Failure error={error} />}
      {data === null ? error === null && <Loading /> : <Page job={data} />}
    </>
  );
}

function Page({ job }: { job: JobDetail }) {
  const pairs = job.explanation.pods.filter((each) => each.coRunner !== null);
  return (
    <>
      <Facts
        facts={[
          {
            label: "Cores held",
            value: text.cores(job.row.held),
            about: `${text.exactCores(job.row.bought)} bought`,
          },
          {
            label: "Used",
            value: text.usedCores(job.row.used, job.row.usedBeyond),
            about: "of what it holds + beyond, as measured",
          },
          { label: "Speedup", value: text.speedup(job.row.speedup), about: "against one core" },
          {
            label: "Parallel fraction F",
            value: text.fraction(job.row.parallelFraction),
            about: job.explanation.sourceText === "" ? (job.row.source ?? "") : <bdi>{job.explanation.sourceText}</bdi>,
          },
          { label: "Price of a core", value: text.price(job.row.price), about: "mean of its pods" },
          {
            label: "Paid by",
            value:
              job.row.entitlement === "" ? (
                text.UNKNOWN
              ) : (
                <Name of={job.row.entitlement} href={link("users", job.row.entitlement)} />
              ),
            about:
              job.explanation.budget === null
                ? ""
                : `${text.exactCores(job.explanation.budget.spend)} of a budget of ${text.exactCores(job.explanation.budget.cores)}`,
          },
        ]}
      />
      <Faults of={job.explanation.faults} />
      <Notes of={job.notes} />
      <div class="columns">
        <Card title="Speedup" about={<CurveAbout job={job} />}>
          <CurveChart job={job} />
        </Card>
        <Card
          title="Why it has what it has"
          about={
            job.weightsText !== null && (
              <>
                Bids with <bdi>{job.weightsText}</bdi>
              </>
            )
          }
        >
          <Why pods={job.explanation.pods} />
        </Card>
      </div>
      <Card title="Pods" wide>
        <LocalTable
          label="Pods"
          columns={podColumns(job)}
          rows={job.explanation.pods}
          rowKey={(row) => row.name}
          initial={{ key: "name", descending: false }}
          empty="No pod of this job runs or waits now."
        />
        {job.explanation.unlisted > 0 && (
          <p class="muted">
            Its status has no room for {text.count(job.explanation.unlisted, "more pod")}.
          </p>
        )}
      </Card>
      <div class="columns">
        <Card
          title="One more core"
          about="What one more core of a pod's node would cost its user, and bring to the job."
        >
          <More of={job.explanation.oneMore} texts={job.oneMoreTexts} />
        </Card>
        <Card
          title="Co-runners"
          about="Programs that Walras placed its pods beside, and the part of their throughput that pods lose to them."
        >
          {pairs.length === 0 ? (
            <Empty>
              Walras has not chosen what runs beside the pods of this job. The pages of their nodes
              show what does.
            </Empty>
          ) : (
            <LocalTable
              label="Co-runners"
              columns={pairColumns}
              rows={pairs}
              rowKey={(row) => row.name}
              size={20}
              empty=""
            />
          )}
        </Card>
      </div>
      <div class="columns columns-three">
        <HistoryCharts kind="job" name={job.row.name} namespace={job.row.namespace} />
      </div>
    </>
  );
}

function CurveAbout({ job }: { job: JobDetail }) {
  if (job.curve === null || job.curve.fraction === null) return <>No curve is known.</>;
  return (
    <>
      By Amdahl's law with F = {text.fraction(job.curve.fraction)}
      {job.curve.measured.length > 0 && "; bars are the scatter of measured points"}.
    </>
  );
}

/** Values at the union of all core counts, so that one table holds them. */
function curveSeries(curve: Curve): { x: number[]; series: ChartSeries[] } {
  const x = [
    ...new Set([...curve.predicted, ...curve.measured].map(({ cores }) => cores)),
  ].sort((one, other) => one - other);
  const predicted = new Map(curve.predicted.map((each) => [each.cores, each.speedup]));
  const measured = new Map(curve.measured.map((each) => [each.cores, each]));
  const series: ChartSeries[] = [
    {
      label: "Predicted",
      values: x.map((cores) => predicted.get(cores) ?? amdahl(curve.fraction, cores)),
      format: text.speedup,
    },
    { label: "If it were all parallel", values: x, shape: "dashed", colour: FAINT },
  ];
  if (curve.measured.length > 0)
    series.push({
      label: "Measured",
      values: x.map((cores) => measured.get(cores)?.speedup ?? null),
      shape: "points",
      colour: 1,
      format: text.speedup,
      ranges: x.map((cores) => {
        const each = measured.get(cores);
        return each === undefined || each.low === null || each.high === null
          ? null
          : [each.low, each.high];
      }),
    });
  return { x, series };
}

function amdahl(fraction: number | null, cores: number): number | null {
  return fraction === null || cores <= 0 ? null : 1 / (1 - fraction + fraction / cores);
}

function CurveChart({ job }: { job: JobDetail }) {
  const { curve } = job;
  const drawn = useMemo(() => (curve === null ? null : curveSeries(curve)), [curve]);
  if (drawn === null || drawn.x.length === 0)
    return (
      <Empty>
        The job's speedup is not known. Measure it with walras profile, or state
        spec.parallelFraction in its MarketJob.
      </Empty>
    );
  const highest = Math.max(...drawn.series[0]!.values.map((each) => each ?? 0));
  const series = drawn.series.map((each) =>
    each.shape === "dashed"
      ? { ...each, values: each.values.map((value) => (value! <= 1.25 * highest ? value : null)) }
      : each,
  );
  return (
    <Chart
      label="Speedup by cores"
      x={drawn.x}
      xTitle="Cores"
      xFormat={text.cores}
      series={series}
      yTitle="Speedup"
      format={text.speedup}
      height={280}
    />
  );
}

function Why({ pods }: { pods: JobPod[] }) {
  const [shown, rest] = [pods.slice(0, 6), pods.slice(6)];
  if (pods.length === 0) return <Empty>There is no pod to explain.</Empty>;
  const one = (pod: JobPod) => (
    <li key={pod.name}>
      <p class="why-pod">
        <Name of={pod.name} />
      </p>
      {pod.reason !== "" && (
        <p>
          <bdi>{pod.reason}</bdi>
        </p>
      )}
      {pod.memoryReason && (
        <p class="muted">
          Memory: <bdi>{pod.memoryReason}</bdi>
        </p>
      )}
    </li>
  );
  return (
    <>
      <ul class="why">{shown.map(one)}</ul>
      {rest.length > 0 && (
        <details class="disclosure">
          <summary>{text.count(rest.length, "more pod")}</summary>
          <ul class="why">{rest.slice(0, 100).map(one)}</ul>
        </details>
      )}
    </>
  );
}

/** The links to logs are there if the server has a template of their addresses. */
function podColumns(job: JobDetail): Column<JobPod>[] {
  if (job.logs.length === 0) return POD_COLUMNS;
  const logs = new Map(job.explanation.pods.map(({ name }, index) => [name, job.logs[index]]));
  return [
    ...POD_COLUMNS,
    {
      key: "logs",
      title: "Logs",
      value: ({ name }) => logs.get(name) ?? null,
      cell: ({ name }) => (
        <a href={logs.get(name) ?? ""} target="_blank" rel="noreferrer" aria-label={`Logs of ${name}`}>
          Logs
        </a>
      ),
    },
  ];
}

const POD_COLUMNS: Column<JobPod>[] = [
  {
    key: "name",
    title: "Pod",
    header: true,
    sort: (row) => row.name,
    cell: (row) => <Name of={row.name} />,
  },
  {
    key: "node",
    title: "Node",
    sort: (row) => row.node,
    cell: (row) =>
      row.node === null ? (
        <span class="muted">–</span>
      ) : (
        <Name of={row.node} href={link("nodes", row.node)} />
      ),
  },
  ...(
    [
      ["held", "Held", text.cores],
      ["used", "Used", text.exactCores],
      ["bought", "Bought", text.exactCores],
      ["price", "Price", text.price],
      ["spend", "Spend", text.exactCores],
      ["speedup", "Speedup", text.speedup],
      ["memory", "Memory", text.bytes],
    ] as const
  ).map(
    ([key, title, format]): Column<JobPod> => ({
      key,
      title,
      numeric: true,
      sort: (row) => row[key],
      cell: (row) =>
        key === "used" ? text.usedCores(row.used, row.usedBeyond) : format(row[key]),
    }),
  ),
  {
    key: "cpus",
    title: "CPUs",
    value: (row) => row.cpus,
    cell: (row) => (row.cpus ? <Name of={row.cpus} /> : <span class="muted">–</span>),
  },
  { key: "state", title: "State", sort: (row) => row.state, cell: (row) => <State of={row.state} /> },
];

function pairFigure(key: "predicted" | "measured" | "gain" | "exploration", title: string): Column<JobPod> {
  const value = (row: JobPod) => (row.coRunner as CoRunner | null)?.[key] ?? null;
  return { key, title, numeric: true, sort: value, cell: (row) => text.percent(value(row)) };
}

const pairColumns: Column<JobPod>[] = [
  {
    key: "name",
    title: "Pod",
    header: true,
    value: (row) => row.name,
    cell: (row) => <Name of={row.name} />,
  },
  {
    key: "partner",
    title: "Beside",
    value: (row) => row.coRunner?.partner ?? null,
    cell: (row) => <Name of={row.coRunner?.partner ?? ""} />,
  },
  pairFigure("predicted", "Predicted"),
  pairFigure("measured", "Measured"),
  {
    key: "companion",
    title: "Better beside",
    value: (row) => row.coRunner?.companion ?? null,
    cell: (row) =>
      row.coRunner?.companion ? (
        <Name of={row.coRunner.companion} />
      ) : (
        <span class="muted">nobody</span>
      ),
  },
  pairFigure("gain", "Gain"),
  pairFigure("exploration", "Cost to learn"),
];

function More({ of, texts }: { of: OneMore[]; texts: string[] }) {
  if (of.length === 0)
    return <Empty>No pod of this job buys cores now, or their prices may not be seen.</Empty>;
  return (
    <ul class="why">
      {of.slice(0, 10).map((each, index) => (
        <li key={each.pod}>
          <p class="why-pod">
            <Name of={each.pod} /> <span class="muted">on</span> <Name of={each.node} />
          </p>
          <p class="trade">
            <span>
              costs <strong>{text.price(each.cost)}</strong>
            </span>
            <span>
              brings{" "}
              <strong>{each.gain === null ? text.UNKNOWN : text.signed(each.gain, 3)}</strong> of
              speedup
            </span>
          </p>
          <p class="muted">
            <bdi>{texts[index]}</bdi>
          </p>
        </li>
      ))}
    </ul>
  );
}
