// One node: whose each CPU is, who holds what, and what moved last.

import { useMemo, useState } from "preact/hooks";
import { path } from "../api/client";
import { useAnswer } from "../api/live";
import type { Grant, NodeDetail, Owner } from "../api/types";
import {
  Bar,
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
import { USED } from "../components/columns";
import { HistoryCharts } from "../components/history";
import { OwnerMark } from "../components/marker";
import type { Column } from "../components/table";
import { LocalTable } from "../components/table";
import type { Mark } from "../components/topology";
import {
  STATES,
  Topology,
  cpuList,
  cpusOf,
  marks,
  ownerKey,
  ownersOf,
} from "../components/topology";
import * as text from "../format";
import { link } from "../router";

export function Node({ name, unit }: { name: string; unit: "core" | "thread" }) {
  const { data, error } = useAnswer<NodeDetail>(`nodes/${path(name)}`);
  const above = <a href={link("nodes")}>Nodes</a>;
  return (
    <>
      <Heading
        title={name}
        above={above}
        below={
          data !== null && (
            <p>
              <State of={data.row.agent} /> <bdi>{unlessTold(data.row.message, data.faults)}</bdi>
            </p>
          )
        }
      >
        <Name of={name} />
      </Heading>
      {error !== null && <Failure error={error} />}
      {data === null ? error === null && <Loading /> : <Page node={data} unit={unit} />}
    </>
  );
}

function Page({ node, unit }: { node: NodeDetail; unit: "core" | "thread" }) {
  const [chosen, setChosen] = useState<string | null>(null);
  const sockets = node.topology?.sockets ?? [];
  const known = useMemo(
    () =>
      marks([...ownersOf(sockets), ...node.grants, ...node.pools.flatMap(({ owners }) => owners)]),
    [node],
  );
  return (
    <>
      <Facts
        facts={[
          {
            label: unit === "thread" ? "CPUs for sale" : "Cores for sale",
            value: text.cores(node.row.cores),
            about: node.row.pool === null ? "" : <>pool {<bdi>{node.row.pool}</bdi>}</>,
          },
          { label: "Sold", value: text.cores(node.row.sold), about: `${text.cores(node.row.free)} free` },
          { label: "Used", value: text.cores(node.row.used), about: "as measured" },
          { label: "Price of a core", value: text.price(node.row.price), about: "1 is the average" },
          {
            label: "Memory granted",
            value: text.bytes(node.row.memory),
            about: node.row.memoryForPods === null ? "" : `of ${text.bytes(node.row.memoryForPods)}`,
          },
          {
            label: "Agent",
            value: node.row.agentAlive === null ? "–" : node.row.agentAlive ? "alive" : "silent",
            about: text.count(node.row.pods, "pod"),
          },
        ]}
      />
      <Faults of={node.faults} />
      <Notes of={node.notes} />
      <Card
        title="CPUs"
        about="Each square is a CPU; CPUs in one frame are threads of one core. Letters are those of the grants below."
        wide
      >
        {sockets.length === 0 ? (
          <Empty>
            The node's agent has not reported how the node is built, or you may not see it. It does
            so within a minute of its start.
          </Empty>
        ) : (
          <>
            <Topology sockets={sockets} known={known} chosen={chosen} onChoose={setChosen} />
            <Legend />
          </>
        )}
      </Card>
      <Card title="Grants" about="Pods that hold cores or memory of this node." wide>
        <Grants node={node} known={known} onChoose={setChosen} />
      </Card>
      <div class="columns columns-three">
        <Card
          title="Shared CPUs"
          about="What each pod holds is its part of their time while all are busy; what one leaves idle, others use."
        >
          <Pools node={node} known={known} />
        </Card>
        <Card title="Moved last">
          {node.moved.length === 0 ? (
            <Empty>Nothing has moved while this was watched.</Empty>
          ) : (
            <ol class="events">
              {node.moved.map((each, index) => (
                <li key={index}>
                  <time dateTime={each.time}>{text.moment(each.time)}</time>
                  <bdi>{each.what}</bdi>
                </li>
              ))}
            </ol>
          )}
        </Card>
        <Card title="What it sells, and why no more">
          <Supply node={node} />
        </Card>
      </div>
      <div class="columns">
        <HistoryCharts kind="node" name={node.row.name} />
      </div>
    </>
  );
}

function Legend() {
  const shown = ["owned", "shared", "reserved", "free", "outside", "unknown"] as const;
  return (
    <ul class="cpu-legend" aria-label="What the squares mean">
      {shown.map((state) => (
        <li key={state}>
          <span class={`cpu cpu-${state} ${state === "owned" ? "fill-0" : ""}`} aria-hidden="true">
            <span class="cpu-owner">{state === "owned" ? "A" : STATES[state][0]}</span>
          </span>
          {STATES[state][1]}
        </li>
      ))}
    </ul>
  );
}

function Grants({
  node,
  known,
  onChoose,
}: {
  node: NodeDetail;
  known: Map<string, Mark>;
  onChoose: (owner: string | null) => void;
}) {
  const seen = useMemo(() => cpusOf(node.topology?.sockets ?? []), [node.topology]);
  const cpusOfGrant = (row: Grant) => row.cpus ?? cpuList(seen.get(ownerKey(row)) ?? []);
  const columns: Column<Grant>[] = [
    { key: "mark", title: "Sign", cell: (row) => <OwnerMark mark={known.get(ownerKey(row))} /> },
    {
      key: "pod",
      title: "Pod",
      header: true,
      sort: ownerKey,
      cell: (row) => <Name of={ownerKey(row)} />,
    },
    {
      key: "job",
      title: "Job",
      sort: (row) => row.job,
      cell: (row) =>
        row.job === null ? (
          <span class="muted">–</span>
        ) : (
          <Name of={row.job} href={link("jobs", row.namespace, row.job)} />
        ),
    },
    {
      key: "user",
      title: "User",
      sort: (row) => row.user,
      cell: (row) =>
        row.user === null ? (
          <span class="muted">–</span>
        ) : (
          <Name of={row.user} href={link("users", row.user)} />
        ),
    },
    {
      key: "held",
      title: "Cores",
      numeric: true,
      sort: (row) => row.held,
      cell: (row) => text.cores(row.held),
    },
    {
      key: "used",
      title: "Cores used",
      numeric: true,
      about: USED,
      sort: (row) => row.used,
      cell: (row) => text.usedCores(row.used, row.usedBeyond),
    },
    {
      key: "cpus",
      title: "CPUs",
      value: cpusOfGrant,
      cell: (row) => {
        const cpus = cpusOfGrant(row);
        return cpus === "" ? <span class="muted">–</span> : <Name of={cpus} />;
      },
    },
    {
      key: "memory",
      title: "Memory granted",
      numeric: true,
      sort: (row) => row.memory,
      cell: (row) => text.bytes(row.memory),
    },
    {
      key: "memoryLimit",
      title: "Limit",
      numeric: true,
      about: "Memory limit that the kernel enforces now",
      sort: (row) => row.memoryLimit,
      cell: (row) => text.bytes(row.memoryLimit),
    },
    {
      key: "memoryUsed",
      title: "Memory used",
      numeric: true,
      sort: (row) => row.memoryUsed,
      cell: (row) => (
        <span class="with-bar">
          {row.memoryUsed !== null && row.memory !== null && row.memory > 0 && (
            <Bar part={row.memoryUsed / row.memory} />
          )}
          {text.bytes(row.memoryUsed)}
        </span>
      ),
    },
    {
      key: "state",
      title: "State",
      sort: (row) => row.state,
      cell: (row) => <State of={row.state} title={row.reason} />,
    },
  ];
  return (
    <LocalTable
      label="Grants"
      columns={columns}
      rows={node.grants}
      rowKey={ownerKey}
      initial={{ key: "held", descending: true }}
      empty="No pod of the market holds anything of this node."
      rowProps={(row) => ({
        onMouseEnter: () => onChoose(ownerKey(row)),
        onMouseLeave: () => onChoose(null),
      })}
    />
  );
}

function Pools({ node, known }: { node: NodeDetail; known: Map<string, Mark> }) {
  if (node.pools.length === 0)
    return (
      <Empty>
        {node.grants.length === 0
          ? "No pod of the market runs on this node."
          : "Which CPUs pods share is known once the node's agent has reported."}
      </Empty>
    );
  const owning = new Set(ownersOf(node.topology?.sockets ?? []).map(ownerKey));
  const held = new Map(node.grants.map((each) => [ownerKey(each), each.held]));
  return (
    <ul class="pools">
      {node.pools.map((pool) => (
        <li key={pool.cpus}>
          <p>
            CPUs <strong class="figure">{pool.cpus}</strong>,{" "}
            {text.count(pool.owners.length, "pod")}
          </p>
          <ul class="plain">
            {pool.owners.slice(0, 20).map((owner: Owner) => (
              <li key={ownerKey(owner)}>
                <OwnerMark mark={known.get(ownerKey(owner))} /> <Name of={ownerKey(owner)} />{" "}
                <span class="muted">
                  {owning.has(ownerKey(owner))
                    ? "beyond CPUs of its own"
                    : `${text.cores(held.get(ownerKey(owner)))} held`}
                </span>
              </li>
            ))}
          </ul>
          {pool.owners.length > 20 && (
            <p class="muted">and {text.whole(pool.owners.length - 20)} more, in the table above</p>
          )}
        </li>
      ))}
    </ul>
  );
}

function Supply({ node }: { node: NodeDetail }) {
  const { supply } = node;
  if (supply === null) return <Empty>What the node could sell is not known here.</Empty>;
  return (
    <>
      <dl class="sum">
        <dt>CPUs that the kubelet lets pods use</dt>
        <dd>{text.cores(supply.cpus)}</dd>
        <dt>the same in what is sold</dt>
        <dd>{text.cores(supply.cores)}</dd>
        <dt>reserved by the Market</dt>
        <dd>{text.cores(supply.reserved === null ? null : -supply.reserved)}</dd>
        <dt>requested by pods outside the market</dt>
        <dd>{text.cores(supply.unmanaged === null ? null : -supply.unmanaged)}</dd>
        <dt class="sum-total">for sale</dt>
        <dd class="sum-total">{text.cores(node.row.cores)}</dd>
      </dl>
      {supply.others.length > 0 && (
        <>
          <h3>Pods outside the market</h3>
          <LocalTable
            label="Pods outside the market"
            columns={[
              {
                key: "pod",
                title: "Pod",
                header: true,
                value: (row) => `${row.namespace}/${row.name}`,
                cell: (row) => <Name of={`${row.namespace}/${row.name}`} />,
              },
              {
                key: "cpus",
                title: "CPUs",
                numeric: true,
                sort: (row) => row.cpus,
                cell: (row) => text.cores(row.cpus),
              },
              {
                key: "memory",
                title: "Memory",
                numeric: true,
                sort: (row) => row.memory,
                cell: (row) => text.bytes(row.memory),
              },
            ]}
            rows={supply.others}
            rowKey={(row) => `${row.namespace}/${row.name}`}
            size={10}
            empty=""
          />
        </>
      )}
    </>
  );
}
