// The columns of users, nodes and jobs, which several views show.

import type { JobRow, Loan, NodeRow, User } from "../api/types";
import * as text from "../format";
import { link } from "../router";
import { Bar, Name, State } from "./basics";
import type { Column } from "./table";

function figure<Row>(
  key: keyof Row & string,
  title: string,
  format: (value: number | null) => string,
  about?: string,
): Column<Row> {
  return derived(key, title, format, (row) => (row[key] as number | null) ?? null, about);
}

function derived<Row>(
  key: string,
  title: string,
  format: (value: number | null) => string,
  value: (row: Row) => number | null,
  about?: string,
): Column<Row> {
  return {
    key,
    title,
    numeric: true,
    sort: value,
    cell: (row) => format(value(row)),
    ...(about === undefined ? {} : { about }),
  };
}

/** What columns say of the cores that are used. */
export const USED =
  "Cores that pods keep busy, as measured: of those that they hold, and beyond them";

export function userFigures(): Column<User>[] {
  const cores = (key: keyof User["cores"], title: string, about: string) =>
    derived<User>(key, title, text.exactCores, (row) => row.cores[key], about);
  return [
    figure("shares", "Shares", text.whole, "Weight among the entitlements of the same parent"),
    cores("entitled", "Entitled", "Cores that the entitlement is worth"),
    cores("bought", "Bought", "Cores that it bought in the market"),
    cores("held", "Held", "Cores that its jobs hold"),
    {
      ...cores("used", "Used", USED),
      cell: (row) => text.usedCores(row.cores.used, row.cores.usedBeyond),
    },
    figure("lent", "Lent", text.exactCores, "Cores of its part that others have"),
    figure("borrowed", "Borrowed", text.exactCores, "Cores of others' parts that it has"),
    figure("utility", "Utility", text.utility, "Mean speedup of its jobs, weighted by work"),
    figure(
      "gain",
      "Over share",
      text.signedPercent,
      "Utility above that of its bare entitlement, its part of every node; not above plain Kubernetes, which the view What if shows",
    ),
    figure("creditsAboveMean", "Credits", text.credits, "Credits for memory, relative to the mean"),
  ];
}

/** Without pools, if no node has one. */
export function nodeColumns(nodes: NodeRow[]): Column<NodeRow>[] {
  const pools = nodes.some(({ pool }) => pool !== null);
  const columns: Column<NodeRow>[] = [
    {
      key: "name",
      title: "Node",
      header: true,
      sort: (row) => row.name,
      cell: (row) => <Name of={row.name} href={link("nodes", row.name)} />,
    },
    figure("cores", "For sale", text.cores, "Cores that the node sells"),
    {
      ...figure<NodeRow>("sold", "Sold", text.cores, "Cores that jobs hold"),
      cell: (row) => (
        <span class="with-bar">
          <Bar part={row.cores ? (row.sold ?? 0) / row.cores : 0} />
          {text.cores(row.sold)}
        </span>
      ),
    },
    figure("free", "Free", text.cores, "Cores that nobody holds"),
    figure("used", "Used", text.exactCores, "Cores that are busy, as measured"),
    figure("price", "Price", text.price, "Price of a core; 1 is the average of the cluster"),
    figure("memoryForPods", "Memory", text.bytes, "Memory that the node divides"),
    figure("memory", "Granted", text.bytes, "Memory that jobs have been granted"),
    figure("pods", "Pods", text.whole, "Pods of the market"),
    {
      key: "pool",
      title: "Pool",
      sort: (row) => row.pool,
      cell: (row) => (row.pool ? <Name of={row.pool} /> : <span class="muted">–</span>),
    },
    {
      key: "state",
      title: "Agent",
      about: "State that the node's agent reports",
      sort: (row) => row.agent,
      cell: (row) => <State of={row.agent} title={row.message} />,
    },
  ];
  return columns.filter(({ key }) => pools || key !== "pool");
}

export function jobName(row: { namespace: string; name: string }): string {
  return `${row.namespace}/${row.name}`;
}

/** The user's name is left out where all jobs are of one that the view names. */
export function jobColumns(ofSeveralUsers = true): Column<JobRow>[] {
  const columns: Column<JobRow>[] = [
    {
      key: "name",
      title: "Job",
      header: true,
      sort: jobName,
      cell: (row) => <Name of={jobName(row)} href={link("jobs", row.namespace, row.name)} />,
    },
    {
      key: "entitlement",
      title: "User",
      sort: (row) => row.entitlement,
      cell: (row) =>
        row.entitlement === "" ? (
          <span class="muted">–</span>
        ) : (
          <Name of={row.entitlement} href={link("users", row.entitlement)} />
        ),
    },
    {
      key: "node",
      title: "Node",
      sort: (row) => row.node,
      cell: (row) => (row.node ? <Name of={row.node} /> : <span class="muted">–</span>),
    },
    figure("pods", "Pods", text.whole),
    figure("bought", "Bought", text.exactCores, "Cores that it bought in the market"),
    figure("held", "Held", text.exactCores, "Cores that its pods hold"),
    {
      ...figure<JobRow>("used", "Used", text.exactCores, USED),
      cell: (row) => text.usedCores(row.used, row.usedBeyond),
    },
    figure("speedup", "Speedup", text.speedup, "Predicted, against one core"),
    figure("price", "Price", text.price, "Mean price of a core of its pods"),
    figure("memory", "Memory", text.bytes, "Memory that it has been granted"),
    figure("parallelFraction", "F", text.fraction, "Part of its work that more cores speed up"),
    {
      key: "state",
      title: "State",
      sort: (row) => row.state,
      cell: (row) => <State of={row.state} title={row.message} />,
    },
  ];
  return columns.filter(({ key }) => ofSeveralUsers || key !== "entitlement");
}

export function loanColumns(): Column<Loan>[] {
  const who = (key: "from" | "to", title: string): Column<Loan> => ({
    key,
    title,
    header: key === "from",
    sort: (row) => row[key],
    cell: (row) =>
      row[key] === "" ? (
        <span class="muted">nobody</span>
      ) : (
        <Name of={row[key]} href={link("users", row[key])} />
      ),
  });
  return [
    who("from", "Lender"),
    who("to", "Borrower"),
    figure("cores", "Cores", text.exactCores),
    figure("memory", "Memory", text.bytes),
  ];
}
