// The whole market: who has too little, what changed last, who holds what, and who lends to whom.

import { useMemo, useState } from "preact/hooks";
import type { Loan, NodeRow, Overview, ShortPod, User } from "../api/types";
import { Card, Disclosure, Empty, Facts, Heading, Name, Notice, State } from "../components/basics";
import { loanColumns, nodeColumns, userFigures } from "../components/columns";
import { BANDS, Flow } from "../components/flow";
import { HeatMap } from "../components/heat-map";
import type { Column } from "../components/table";
import { Csv, LocalTable, Pager, Table } from "../components/table";
import * as text from "../format";
import { link } from "../router";

export function Cluster({ overview }: { overview: Overview }) {
  const { totals, users, nodes, lending } = overview;
  return (
    <>
      <Heading title="Cluster" below={<Summary overview={overview} />}>
        Cluster
      </Heading>
      <First overview={overview} />
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
      <Card
        title="Entitlements"
        about="Cores of each user. The bar shows what it holds, the mark what it is entitled to, each row by its own scale."
        wide
      >
        <Tree users={users} />
      </Card>
      <div class="columns">
        <Card title="Nodes" about="A square for each node, by pool; the darker, the more.">
          <HeatMap nodes={nodes} />
          {nodes.length > 0 && (
            <LocalTable
              label="Nodes"
              columns={nodeColumns(nodes).filter(({ key }) => SHOWN_OF_NODES.has(key))}
              rows={nodes}
              rowKey={(row) => row.name}
              initial={{ key: "price", descending: true }}
              size={10}
              empty=""
            />
          )}
        </Card>
        <Card title="Who lends to whom" about="Cores of one user's part that another one bought.">
          <Lending overview={overview} loans={lending} />
        </Card>
      </div>
      <Disclosure title="Details">
        <Details overview={overview} />
      </Disclosure>
    </>
  );
}

const SHOWN_OF_NODES = new Set(["name", "cores", "sold", "free", "price", "state"]);

function Lending({ overview, loans }: { overview: Overview; loans: Loan[] }) {
  const unknown = overview.lendingUnknown;
  const missing =
    unknown === null
      ? "Who lends is not known, since you may not see all entitlements, or no market."
      : unknown > 0
        ? `Who lends is unknown for ${text.count(unknown, "node")}, since you may not see all that their pods bought.`
        : "";
  if (loans.length === 0)
    return (
      <Empty>
        {missing !== ""
          ? missing
          : "Nobody lends: nobody has more than its part of any node."}
      </Empty>
    );
  return (
    <>
      {missing !== "" && (
        <Notice kind="info">
          <p>{missing} The loans below are those of the other nodes.</p>
        </Notice>
      )}
      <Flow loans={loans} whole={overview.totals.cores ?? 0} />
      {loans.length > BANDS && (
        <p class="muted">
          Drawn are the {BANDS} largest of {text.count(loans.length, "loan")}.
        </p>
      )}
      <LocalTable
        label="Who lends to whom"
        columns={loanColumns()}
        rows={loans}
        rowKey={(row) => `${row.from}\n${row.to}`}
        initial={{ key: "cores", descending: true }}
        size={10}
        empty=""
      />
    </>
  );
}

/** The market in plain words; how it divides is under "Details". */
function Summary({ overview }: { overview: Overview }) {
  const { totals, mechanism, lending, lendingUnknown } = overview;
  if (mechanism === "") return <p>No market divides this cluster yet.</p>;
  const traded = lending.reduce((sum, { cores }) => sum + (cores ?? 0), 0);
  const trade =
    lendingUnknown === null || lendingUnknown > 0
      ? "."
      : traded < 0.005
        ? ", and trade none of them."
        : `, and trade ${text.cores(traded)} of them.`;
  return (
    <p>
      {text.count(totals.users, "user")} {totals.users === 1 ? "shares" : "share"}{" "}
      {totals.cores === null ? "the" : text.cores(totals.cores)}{" "}
      {overview.coreUnit === "thread" ? "CPUs" : "cores"} of {text.count(totals.nodes, "node")}
      {trade}
    </p>
  );
}

function Details({ overview }: { overview: Overview }) {
  const { headline, mechanism, memoryMechanism, epoch, predictions, totals } = overview;
  return (
    <ul class="plain">
      {headline !== "" && <li>{headline}</li>}
      {mechanism !== "" && (
        <li>
          Cores are divided by <strong>{mechanism}</strong>
          {memoryMechanism !== "" && (totals.memoryGranted ?? 0) > 0 && (
            <>
              , memory by <strong>{memoryMechanism}</strong>
            </>
          )}
          .
        </li>
      )}
      {epoch !== null && <li>This is decision {text.whole(epoch)}.</li>}
      {predictions.map((each) => (
        <li key={each}>{each}.</li>
      ))}
    </ul>
  );
}

const LISTED = 3;

/** Who has too little, and what changed last: what a reader is to see before anything else. */
function First({ overview }: { overview: Overview }) {
  const { short, users, changes, totals } = overview;
  const below = users.filter((each) => each.below);
  const starving = short.first.filter(({ starves }) => starves);
  const less = short.first.filter(({ belowRequest, starves }) => belowRequest && !starves);
  const lessUnlisted = short.belowRequest > 0;
  const nothing = short.starving === 0 && !lessUnlisted && below.length === 0;
  return (
    <div class={changes.length > 0 ? "first first-two" : "first"}>
      <div class="first-short">
        {short.starving > 0 && (
          <Notice kind="bad">
            <h2 class="notice-title">
              {text.count(short.starving, "pod")} {short.starving === 1 ? "starves" : "starve"}: less
              than a tenth of a core each
            </h2>
            <Pods of={starving} count={short.starving} />
          </Notice>
        )}
        {lessUnlisted && (
          <Notice kind="warn">
            <h2 class="notice-title">
              {text.count(short.belowRequest, "pod")}{" "}
              {short.belowRequest === 1 ? "holds less than it" : "hold less than they"} requested
            </h2>
            <Pods of={less} count={short.belowRequest} why />
          </Notice>
        )}
        {below.length > 0 && <Below users={below} />}
        {nothing && totals.jobs > 0 && (
          <Notice kind="good">
            <p>
              No pod starves or holds less than it requested, and every user has at least what its
              entitlement is worth.
            </p>
          </Notice>
        )}
        {short.unlisted > 0 && (
          <p class="muted">
            It is not known for {text.count(short.unlisted, "pod")} that the statuses of their jobs
            have no room for.
          </p>
        )}
      </div>
      {changes.length > 0 && (
        <Card title="Changed last">
          <ol class="events events-short">
            {changes.slice(0, LISTED).map((each, index) => (
              <li key={index}>
                <time dateTime={each.time}>{text.moment(each.time)}</time>
                <bdi>{each.what}</bdi>
              </li>
            ))}
          </ol>
        </Card>
      )}
    </div>
  );
}

function Pods({ of, count, why = false }: { of: ShortPod[]; count: number; why?: boolean }) {
  const shown = of.slice(0, LISTED);
  return (
    <ul class="plain">
      {shown.map((each) => (
        <li key={`${each.namespace}/${each.pod}`}>
          <Name of={each.pod} href={link("jobs", each.namespace, each.job)} /> of{" "}
          <Name of={each.user} href={link("users", each.user)} /> holds{" "}
          <strong>{text.cores(each.held)}</strong> cores on{" "}
          <Name of={each.node} href={link("nodes", each.node)} />
          {why && (
            <>
              : <bdi>{each.reason}</bdi>
            </>
          )}
        </li>
      ))}
      {count > shown.length && (
        <li>and {text.whole(count - shown.length)} more; the pages of their jobs say why</li>
      )}
    </ul>
  );
}

function Below({ users }: { users: User[] }) {
  return (
    <Notice kind="warn">
      <h2 class="notice-title">
        {users.length === 1
          ? "1 user is below its entitlement"
          : `${text.whole(users.length)} users are below their entitlement`}
      </h2>
      <ul class="plain">
        {users.slice(0, LISTED).map((each) => (
          <li key={each.name}>
            <Name of={each.name} href={link("users", each.name)} /> holds{" "}
            <strong>{text.cores(each.cores.held)}</strong> of the {text.cores(each.cores.entitled)}{" "}
            cores that it is entitled to
            {each.message !== "" && (
              <p class="muted">
                <bdi>{each.message}</bdi>
              </p>
            )}
          </li>
        ))}
      </ul>
      {users.length > LISTED && (
        <p>
          The others are on <a href={link("users")}>the page of all users</a>, sorted by gain over their entitlement.
        </p>
      )}
    </Notice>
  );
}

function priceRange(nodes: NodeRow[]): string {
  const known = nodes.flatMap((each) => each.price ?? []);
  if (known.length === 0) return text.UNKNOWN;
  const low = known.reduce((one, other) => Math.min(one, other));
  const high = known.reduce((one, other) => Math.max(one, other));
  return high - low < 5e-3 ? text.price(low) : `${low.toFixed(2)} – ${high.toFixed(2)}`;
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
  // Those who have jobs come first: the others have nothing to show but their shares.
  for (const some of [true, false])
    for (const each of below.get(null) ?? []) if (each.jobs > 0 === some) visit(each, 0);
  for (const each of users) visit(each, 0);
  return found;
}

const PAGE = 20;

function Tree({ users }: { users: User[] }) {
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const [offset, setOffset] = useState(0);
  const rows = useMemo(() => branches(users, closed), [users, closed]);
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
      value: ({ user }) => user.name,
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
        <Bullet held={user.cores.held} entitled={user.cores.entitled} below={user.below} />
      ),
    },
    ...userFigures().map(
      (column): Column<Branch> => ({
        key: column.key,
        title: column.title,
        numeric: true,
        cell: ({ user }) => column.cell(user),
        value: ({ user }) => column.sort?.(user) ?? null,
        ...(column.about === undefined ? {} : { about: column.about }),
      }),
    ),
    {
      key: "state",
      title: "State",
      value: ({ user }) => user.reason,
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
      <Csv label="Entitlements" columns={columns} rows={() => rows} />
    </>
  );
}

/** Each row has its own scale, so that the smallest user's is read as well as the largest one's. */
function Bullet({
  held,
  entitled,
  below,
}: {
  held: number | null;
  entitled: number | null;
  below: boolean;
}) {
  const most = 1.1 * Math.max(held ?? 0, entitled ?? 0);
  const part = (value: number | null) => `${most > 0 ? (100 * (value ?? 0)) / most : 0}%`;
  return (
    <span class="bullet" aria-hidden="true">
      <span class={below ? "bullet-held bullet-below" : "bullet-held"} style={{ width: part(held) }} />
      {entitled !== null && <span class="bullet-mark" style={{ left: part(entitled) }} />}
    </span>
  );
}
