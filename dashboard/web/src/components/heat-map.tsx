// All nodes at once, by pool: a square each, as dark as its price is high or as it is full.

import { useMemo, useState } from "preact/hooks";
import type { NodeRow } from "../api/types";
import * as text from "../format";
import { link } from "../router";
import { Empty } from "./basics";

const SQUARE = 18;
const GAP = 3;

interface Measure {
  title: string;
  /** What is drawn, from 0 to 1; null where it is not known. */
  part: (node: NodeRow, most: number) => number | null;
  value: (node: NodeRow) => number | null;
  format: (node: NodeRow) => string;
}

const MEASURES: Record<string, Measure> = {
  price: {
    title: "Price",
    part: (node, most) => (node.price === null || most <= 0 ? null : node.price / most),
    value: (node) => node.price,
    format: (node) => `a core costs ${text.price(node.price)}`,
  },
  sold: {
    title: "Sold",
    part: (node) => (node.cores ? (node.sold ?? 0) / node.cores : null),
    value: (node) => (node.cores ? (node.sold ?? 0) / node.cores : null),
    format: (node) => `${text.cores(node.sold)} of ${text.cores(node.cores)} cores sold`,
  },
  starving: {
    title: "Starving pods",
    part: (node, most) => (most <= 0 ? 0 : node.starving / most),
    value: (node) => node.starving,
    format: (node) => `${text.count(node.starving, "pod")} starving`,
  },
};

function pools(nodes: NodeRow[]): [string, NodeRow[]][] {
  const found = new Map<string, NodeRow[]>();
  for (const node of nodes)
    found.set(node.pool ?? "", [...(found.get(node.pool ?? "") ?? []), node]);
  return [...found].sort(([one], [other]) => (one < other ? -1 : 1));
}

export function HeatMap({ nodes }: { nodes: NodeRow[] }) {
  const [chosen, setChosen] = useState("price");
  const measure = MEASURES[chosen]!;
  const grouped = useMemo(() => pools(nodes), [nodes]);
  const most = useMemo(
    () => nodes.reduce((high, node) => Math.max(high, measure.value(node) ?? 0), 0),
    [nodes, chosen],
  );
  if (nodes.length === 0)
    return (
      <Empty>
        No node sells cores, or you may not list nodes. walras explain node NAME says why a node
        sells nothing.
      </Empty>
    );
  return (
    <>
      <fieldset class="segments">
        <legend class="hidden">What is shown of each node</legend>
        {Object.entries(MEASURES).map(([key, { title }]) => (
          <label key={key} class={key === chosen ? "segment segment-chosen" : "segment"}>
            <input
              type="radio"
              class="hidden"
              name="heat"
              checked={key === chosen}
              onChange={() => setChosen(key)}
            />
            {title}
          </label>
        ))}
      </fieldset>
      {grouped.map(([pool, members]) => (
        <div key={pool} class="heat-pool">
          {(pool !== "" || grouped.length > 1) && (
            <p class="muted">
              {pool === "" ? "no pool" : <bdi>{pool}</bdi>}, {text.count(members.length, "node")}
            </p>
          )}
          <Squares pool={pool} nodes={members} measure={measure} most={most} />
        </div>
      ))}
    </>
  );
}

function Squares({
  pool,
  nodes,
  measure,
  most,
}: {
  pool: string;
  nodes: NodeRow[];
  measure: Measure;
  most: number;
}) {
  const open = (event: Event) => {
    const name = (event.target as Element).getAttribute("data-node");
    if (name !== null) location.hash = link("nodes", name);
  };
  const known = nodes.flatMap((node) => measure.value(node) ?? []);
  const range =
    known.length === 0
      ? "unknown"
      : `from ${known.reduce((a, b) => Math.min(a, b)).toFixed(2)} to ${known.reduce((a, b) => Math.max(a, b)).toFixed(2)}`;
  return (
    <div
      class="heat"
      role="img"
      aria-label={`${measure.title} of ${text.count(nodes.length, "node")}${pool === "" ? "" : ` of pool ${pool}`}: ${range}; the table has each`}
      onClick={open}
      style={{ gridTemplateColumns: `repeat(auto-fill, ${SQUARE}px)`, gap: `${GAP}px` }}
    >
      {nodes.map((node) => {
        const part = measure.part(node, most);
        return (
          <span
            key={node.name}
            data-node={node.name}
            class={part === null ? "heat-node heat-unknown" : "heat-node"}
            title={`${node.name}: ${measure.format(node)}`}
            style={part === null ? {} : { "--part": `${Math.round(100 * Math.min(1, part))}%` }}
          />
        );
      })}
    </div>
  );
}
