// The whole market: what is sold at which price, who holds it, and who lends to whom.

import { useMemo, useState } from "preact/hooks";
import type { NodeRow, Overview, User } from "../api/types";
import { Card, Empty, Facts, Heading, Name, Notice, State } from "../components/basics";
import type { ChartSeries } from "../components/chart";
import { Chart, FAINT } from "../components/chart";
import { loanColumns, nodeColumns, userFigures } from "../components/columns";
import { Flow } from "../components/flow";
import type { Column } from "../components/table";
import { LocalTable, Pager, Table } from "../components/table";
import * as text from "../format";
import { link } from "../router";

export function Cluster({ overview }: { overview: Overview }) {
  const { totals, users, nodes, lending } = overview;
  return (
    <>
      <Heading title="Cluster" below={<Summary overview={overview} />}>
        Cluster
      </Heading>
      <Facts
        facts={[
          {
            label: overview.coreUnit === "thread" ? "CPUs for sale" : "Cores for sale",
            value: text.cores(totals.cores),
            about: text.count(totals.nodes, "node"),
          },
          {
            label: "Sold",
            value: text.cores(totals.sold),
            about: totals.cores ? text.percent((totals.sold ?? 0) / totals.cores) : "",
          },
          { label: "Free", value: text.cores(totals.free), about: "held by nobody" },
          { label: "Price of a core", value: priceRange(nodes), about: "1 is the average" },
          {
            label: "Memory granted",
            value: text.bytes(totals.memoryGranted),
            about: totals.memory === null ? "" : `of ${text.bytes(totals.memory)}`,
          },
          {
            label: "Jobs",
            value: text.whole(totals.jobs),
            about: `${text.count(totals.pods, "pod")}, ${text.count(users.length, "entitlement")}`,
          },
        ]}
      />
      <Below users={users} />
      <Card
        title="Entitlements"
        about="Cores of each user. The bar shows what it holds, the mark what it is entitled to."
        wide
      >
        <Tree users={users} />
      </Card>
      <div class="columns">
        <Card title="Nodes" about="Cores sold and free, and the price of a core.">
          <Prices nodes={nodes} />
        </Card>
        <Card title="Who lends to whom" about="Cores of one user's part that another one has.">
          {lending.length === 0 ? (
            <Empty>
              {users.some((each) => each.lent !== null)
                ? "Nobody lends: every user has its part of each node."
                : "Who lends is not known, since you may not see all entitlements, or no market."}
            </Empty>
          ) : (
            <>
              <Flow loans={lending} />
              <LocalTable
                label="Who lends to whom"
                columns={loanColumns()}
                rows={lending}
                rowKey={(row) => `${row.from}\n${row.to}`}
                initial={{ key: "cores", descending: true }}
                size={10}
                empty=""
              />
            </>
          )}
        </Card>
      </div>
    </>
  );
}

function Summary({ overview }: { overview: Overview }) {
  const { totals, mechanism, memoryMechanism, epoch } = overview;
  return (
    <p>
      {mechanism === "" ? (
        "No market divides this cluster yet."
      ) : (
        <>
          <strong>{mechanism}</strong> divides{" "}
          {totals.cores === null ? "the" : text.cores(totals.cores)} cores
          {memoryMechanism !== "" && (totals.memoryGranted ?? 0) > 0 && (
            <>
              , and <strong>{memoryMechanism}</strong> the memory,
            </>
          )}{" "}
          of {text.count(totals.nodes, "node")}.{epoch !== null && ` Decision ${text.whole(epoch)}.`}
        </>
      )}
    </p>
  );
}

function priceRange(nodes: NodeRow[]): string {
  const known = nodes.flatMap((each) => each.price ?? []);
  if (known.length === 0) return text.UNKNOWN;
  const low = known.reduce((one, other) => Math.min(one, other));
  const high = known.reduce((one, other) => Math.max(one, other));
  return high - low < 5e-4 ? text.price(low) : `${text.price(low)} – ${text.price(high)}`;
}

const LISTED = 5;

function Below({ users }: { users: User[] }) {
  const below = users.filter((each) => each.below);
  if (users.length === 0) return null;
  if (below.length === 0)
    return (
      <Notice kind="good">
        <p>Every user has at least what its entitlement is worth.</p>
      </Notice>
    );
  return (
    <Notice kind="warn">
      <h2 class="notice-title">
        {below.length === 1
          ? "A user is below its entitlement"
          : `${text.whole(below.length)} users are below their entitlement`}
      </h2>
      <ul class="plain">
        {below.slice(0, LISTED).map((each) => (
          <li key={each.name}>
            <Name of={each.name} href={link("users", each.name)} />:{" "}
            {each.message !== "" ? <bdi>{each.message}</bdi> : `gain ${text.signedPercent(each.gain)}`}
          </li>
        ))}
      </ul>
      {below.length > LISTED && (
        <p>
          The others are on <a href={link("users")}>the page of all users</a>, sorted by gain.
        </p>
      )}
    </Notice>
  );
}

interface Branch {
  user: User;
  depth: number;
  children: number;
}

/** Users in the order of the tree, without what is below closed ones. */
function branches(users: User[], closed: ReadonlySet<string>): Branch[] {
  const names = new Set(users.map((each) => each.name));
  const below = new Map<string | null, User[]>();
  for (const each of users) {
    const parent = each.parent !== null && names.has(each.parent) ? each.parent : null;
    below.set(parent, [...(below.get(parent) ?? []), each]);
  }
  const found: Branch[] = [];
  const seen = new Set<string>();
  const visit = (user: User, depth: number) => {
    if (seen.has(user.name)) return; // an entitlement that is its own parent is refused, yet shown
    seen.add(user.name);
    const children = below.get(user.name) ?? [];
    found.push({ user, depth, children: children.length });
    if (!closed.has(user.name)) for (const child of children) visit(child, depth + 1);
    else for (const child of children) hide(child);
  };
  const hide = (user: User) => {
    if (seen.has(user.name)) return;
    seen.add(user.name);
    for (const child of below.get(user.name) ?? []) hide(child);
  };
  for (const each of below.get(null) ?? []) visit(each, 0);
  for (const each of users) visit(each, 0);
  return found;
}

const PAGE = 20;

function Tree({ users }: { users: User[] }) {
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const [offset, setOffset] = useState(0);
  const rows = useMemo(() => branches(users, closed), [users, closed]);
  const most = useMemo(
    () => users.reduce((high, each) => Math.max(high, each.cores.held ?? 0, each.cores.entitled ?? 0), 0),
    [users],
  );
  if (users.length === 0)
    return (
      <Empty>
        There are no entitlements that you may see. Create one with kubectl apply, or ask an
        administrator of Walras for the right to list them.
      </Empty>
    );
  const toggle = (name: string) => {
    const next = new Set(closed);
    if (!next.delete(name)) next.add(name);
    setClosed(next);
  };
  const columns: Column<Branch>[] = [
    {
      key: "name",
      title: "User",
      header: true,
      cell: ({ user, depth, children }) => (
        <span class="branch" style={{ paddingInlineStart: `${20 * Math.min(depth, 8)}px` }}>
          {children > 0 ? (
            <button
              type="button"
              class="twig"
              aria-expanded={!closed.has(user.name)}
              aria-label={`Entitlements below ${user.name}`}
              onClick={() => toggle(user.name)}
            >
              <span aria-hidden="true">{closed.has(user.name) ? "▸" : "▾"}</span>
            </button>
          ) : (
            <span class="twig" />
          )}
          <Name of={user.name} href={link("users", user.name)} />
        </span>
      ),
    },
    {
      key: "bar",
      title: "Held of entitled",
      cell: ({ user }) => (
        <Bullet held={user.cores.held} entitled={user.cores.entitled} most={most} />
      ),
    },
    ...userFigures().map(
      (column): Column<Branch> => ({
        key: column.key,
        title: column.title,
        numeric: true,
        cell: ({ user }) => column.cell(user),
        ...(column.about === undefined ? {} : { about: column.about }),
      }),
    ),
    {
      key: "state",
      title: "State",
      cell: ({ user }) => <State of={user.reason} title={user.message} />,
    },
  ];
  const at = offset < rows.length ? offset : 0;
  return (
    <>
      <Table
        label="Entitlements"
        columns={columns}
        rows={rows.slice(at, at + PAGE)}
        rowKey={({ user }) => user.name}
      />
      <Pager label="entitlements" offset={at} total={rows.length} size={PAGE} onOffset={setOffset} />
    </>
  );
}

function Bullet({
  held,
  entitled,
  most,
}: {
  held: number | null;
  entitled: number | null;
  most: number;
}) {
  const part = (value: number | null) => ({
    width: `${most > 0 ? (100 * (value ?? 0)) / most : 0}%`,
  });
  return (
    <span class="bullet" aria-hidden="true">
      <span class="bullet-held" style={part(held)} />
      <span
        class="bullet-mark"
        style={{ left: `${most > 0 ? (100 * (entitled ?? 0)) / most : 0}%` }}
      />
    </span>
  );
}

const BARS = 48;

interface Bundle {
  title: string;
  sold: number | null;
  free: number | null;
  price: number | null;
}

/** Nodes, the dearest first; neighbours share a bar where there are more nodes than bars. */
function bundles(nodes: NodeRow[]): Bundle[] {
  const ordered = [...nodes].sort((one, other) => (other.price ?? -1) - (one.price ?? -1));
  const size = Math.ceil(ordered.length / BARS);
  return Array.from({ length: Math.ceil(ordered.length / size) }, (_, index) => {
    const some = ordered.slice(index * size, (index + 1) * size);
    const first = index * size + 1;
    return {
      title:
        size === 1 ? (some[0]?.name ?? "") : `${first} to ${first + some.length - 1} by price`,
      sold: sum(some.map(({ sold }) => sold)),
      free: sum(some.map(({ free }) => free)),
      price: mean(some.map(({ price }) => price)),
    };
  });
}

function sum(values: (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : known.reduce((one, other) => one + other);
}

function mean(values: (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : known.reduce((one, other) => one + other) / known.length;
}

function Prices({ nodes }: { nodes: NodeRow[] }) {
  const drawn = useMemo(() => bundles(nodes), [nodes]);
  const x = useMemo(() => drawn.map((_, index) => index), [drawn.length]);
  const series = useMemo(
    (): ChartSeries[] => [
      { label: "Sold", values: drawn.map(({ sold }) => sold), shape: "stacked", colour: 0 },
      { label: "Free", values: drawn.map(({ free }) => free), shape: "stacked", colour: FAINT },
      {
        label: "Price of a core",
        values: drawn.map((each) => each.price),
        shape: "points",
        colour: 1,
        right: true,
        format: text.price,
      },
    ],
    [drawn],
  );
  if (nodes.length === 0)
    return (
      <Empty>
        No node sells cores, or you may not list nodes. walras explain node NAME says why a node
        sells nothing.
      </Empty>
    );
  const size = Math.ceil(nodes.length / BARS);
  return (
    <>
      <Chart
        label="Cores and price of each node, the dearest first"
        x={x}
        xTitle={size > 1 ? `The dearest nodes first; each bar is ${text.whole(size)} nodes` : ""}
        xFormat={(index) => drawn[index]?.title ?? ""}
        rows
        series={series}
        yTitle="Cores"
        format={text.cores}
        numbers={false}
      />
      <LocalTable
        label="Nodes"
        columns={nodeColumns().filter(({ key }) =>
          ["name", "cores", "sold", "free", "price", "state"].includes(key),
        )}
        rows={nodes}
        rowKey={(row) => row.name}
        initial={{ key: "price", descending: true }}
        size={10}
        empty=""
      />
    </>
  );
}
