// Who lends to whom: lenders on the left, borrowers on the right, bands as wide as the loans.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Loan } from "../api/types";
import { exactCores } from "../format";
import { COLOURS } from "./chart";

export const BANDS = 12;
const GAP = 14;
const HEIGHT = 200;
/** Part of all cores for sale that fills the height: less is drawn lower. */
const FULL = 0.1;
/** Height that a name and its number below it take. */
const LEAST = 22;
const NODE = 10;
const WIDEST = 680;
const LETTER = 7.4;

interface Side {
  name: string;
  total: number;
  top: number;
  used: number;
}

function side(loans: { name: string; cores: number }[], scale: number): Map<string, Side> {
  const totals = new Map<string, number>();
  for (const { name, cores } of loans) totals.set(name, (totals.get(name) ?? 0) + cores);
  const found = new Map<string, Side>();
  let top = 6;
  for (const [name, total] of [...totals].sort((one, other) => other[1] - one[1])) {
    found.set(name, { name, total, top, used: 0 });
    top += Math.max(total * scale, LEAST) + GAP;
  }
  return found;
}

interface Edges {
  left: number;
  right: number;
  letters: number;
}

function short(name: string, most: number): string {
  const letters = [...(name || "nobody")];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : letters.join("");
}

export function Flow({ loans, whole }: { loans: Loan[]; whole: number }) {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const host = place.current;
    if (host === null) return undefined;
    const measure = () => setWidth(Math.min(WIDEST, host.clientWidth));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(host);
    return () => observer.disconnect();
  }, []);
  return <div ref={place}>{width > 0 && <Bands loans={loans} cores={whole} width={width} />}</div>;
}

function Bands({ loans, cores, width: whole }: { loans: Loan[]; cores: number; width: number }) {
  const room = Math.min(150, 0.3 * whole);
  const edges = { left: room, right: whole - room, letters: Math.floor((room - 10) / LETTER) };
  const shown = loans
    .flatMap(({ from, to, cores }) => (cores != null && cores > 0 ? [{ from, to, cores }] : []))
    .sort((one, other) => other.cores - one.cores)
    .slice(0, BANDS);
  if (shown.length === 0) return null;
  const total = shown.reduce((sum, { cores }) => sum + cores, 0);
  const scale = HEIGHT / Math.max(total, FULL * cores);
  const lenders = side(shown.map(({ from, cores }) => ({ name: from, cores })), scale);
  const borrowers = side(shown.map(({ to, cores }) => ({ name: to, cores })), scale);
  const end = (sides: Map<string, Side>) =>
    Math.max(...[...sides.values()].map((each) => each.top + Math.max(each.total * scale, LEAST)));
  const height = Math.max(end(lenders), end(borrowers)) + 12;
  const order = [...lenders.keys()];
  return (
    <svg
      class="flow"
      viewBox={`0 0 ${whole} ${height}`}
      width={whole}
      height={height}
      role="img"
      aria-label={`Who lends cores to whom: ${shown
        .map(({ from, to, cores }) => `${from} lends ${exactCores(cores)} to ${to}`)
        .join("; ")}`}
    >
      {shown.map(({ from, to, cores }) => {
        const [one, other] = [lenders.get(from), borrowers.get(to)];
        if (one === undefined || other === undefined) return null;
        const width = Math.max(cores * scale, 1.5);
        const start = one.top + one.used + width / 2;
        const stop = other.top + other.used + width / 2;
        one.used += width;
        other.used += width;
        const middle = whole / 2;
        return (
          <path
            key={`${from}\n${to}`}
            class={`flow-band stroke-${order.indexOf(from) % COLOURS}`}
            stroke-width={width}
            d={`M${edges.left + NODE} ${start}C${middle} ${start} ${middle} ${stop} ${edges.right - NODE} ${stop}`}
          >
            <title>{`${from} lends ${exactCores(cores)} cores to ${to}`}</title>
          </path>
        );
      })}
      {[...lenders.values()].map((each) => (
        <Label key={each.name} of={each} left scale={scale} edges={edges} colour={order.indexOf(each.name)} />
      ))}
      {[...borrowers.values()].map((each) => (
        <Label key={each.name} of={each} left={false} scale={scale} edges={edges} colour={-1} />
      ))}
    </svg>
  );
}

function Label({
  of,
  left,
  scale,
  edges,
  colour,
}: {
  of: Side;
  left: boolean;
  scale: number;
  edges: Edges;
  colour: number;
}) {
  const height = Math.max(of.total * scale, 4);
  const middle = of.top + Math.max(of.total * scale, LEAST) / 2;
  return (
    <g>
      <rect
        x={left ? edges.left : edges.right - NODE}
        y={of.top}
        width={NODE}
        height={height}
        class={colour < 0 ? "flow-end" : `fill-${colour % COLOURS}`}
      />
      <text
        class="flow-name"
        x={left ? edges.left - 8 : edges.right + 8}
        y={middle}
        text-anchor={left ? "end" : "start"}
      >
        {short(of.name, edges.letters)}
        <title>{of.name}</title>
      </text>
      <text
        class="flow-cores"
        x={left ? edges.left - 8 : edges.right + 8}
        y={middle + 15}
        text-anchor={left ? "end" : "start"}
      >
        {exactCores(of.total)}
      </text>
    </g>
  );
}
