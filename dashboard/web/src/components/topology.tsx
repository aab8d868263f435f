// A node as it is built: sockets, NUMA nodes, cores and threads, each CPU with the letters and the
// colour of its owner. What no single pod owns has a pattern instead.

import type { NumaNode, Owner, Socket, Thread, ThreadState } from "../api/types";
import { COLOURS } from "./chart";

export interface Mark {
  letters: string;
  colour: number;
}

export function ownerKey(owner: { namespace: string; pod: string }): string {
  return `${owner.namespace}/${owner.pod}`;
}

/** Letters in the order of a spreadsheet's columns: A to Z, AA, AB and so on. */
export function letters(index: number): string {
  const last = String.fromCharCode(65 + (index % 26));
  return index < 26 ? last : letters(Math.floor(index / 26) - 1) + last;
}

export function marks(owners: { namespace: string; pod: string }[]): Map<string, Mark> {
  const keys = [...new Set(owners.map(ownerKey))].sort();
  return new Map(
    keys.map((key, index) => [key, { letters: letters(index), colour: index % COLOURS }]),
  );
}

export const STATES: Record<ThreadState, [string, string]> = {
  owned: ["", "one pod's own"],
  shared: ["~", "shared by several pods, by weight"],
  reserved: ["R", "reserved: not sold"],
  free: ["", "free"],
  outside: ["×", "not for pods"],
  unknown: ["?", "unknown"],
};

function describe(thread: Thread): string {
  if (thread.owner === null) return `CPU ${thread.cpu}: ${STATES[thread.state][1]}`;
  const { namespace, pod, job, user } = thread.owner;
  const whose = [job === null ? "" : `job ${job}`, user === null ? "" : `user ${user}`];
  return [`CPU ${thread.cpu}: ${namespace}/${pod}`, ...whose.filter(Boolean)].join(", ");
}

function Cpu({
  thread,
  known,
  chosen,
  onChoose,
}: {
  thread: Thread;
  known: Map<string, Mark>;
  chosen: string | null;
  onChoose: (owner: string | null) => void;
}) {
  const key = thread.owner === null ? null : ownerKey(thread.owner);
  const mark = key === null ? undefined : known.get(key);
  const owned = mark !== undefined && thread.state !== "shared";
  const dim = chosen !== null && chosen !== key ? " cpu-dim" : "";
  return (
    <span
      class={`cpu cpu-${thread.state}${owned ? ` fill-${mark.colour}` : ""}${dim}`}
      title={describe(thread)}
      onMouseEnter={() => onChoose(key)}
      onMouseLeave={() => onChoose(null)}
    >
      <span class="cpu-owner">{owned ? mark.letters : STATES[thread.state][0]}</span>
      <span class="cpu-number">{thread.cpu}</span>
    </span>
  );
}

function Numa(props: {
  of: NumaNode;
  alone: boolean;
  known: Map<string, Mark>;
  chosen: string | null;
  onChoose: (owner: string | null) => void;
}) {
  const { of, alone, ...rest } = props;
  return (
    <div class={alone ? "numa numa-alone" : "numa"}>
      <h4 class="part-name">NUMA node {of.id}</h4>
      <div class="cores">
        {of.cores.map((core) => (
          <span class="core" key={core.id} title={`Core ${core.id}`}>
            {core.threads.map((thread) => (
              <Cpu key={thread.cpu} thread={thread} {...rest} />
            ))}
          </span>
        ))}
      </div>
    </div>
  );
}

export function Topology({
  sockets,
  known,
  chosen,
  onChoose,
}: {
  sockets: Socket[];
  known: Map<string, Mark>;
  chosen: string | null;
  onChoose: (owner: string | null) => void;
}) {
  return (
    <div class="sockets">
      {sockets.map((socket) => (
        <div class="socket" key={socket.id}>
          <h3 class="part-name">Socket {socket.id}</h3>
          <div class="numas">
            {socket.numaNodes.map((each) => (
              <Numa
                key={each.id}
                of={each}
                alone={socket.numaNodes.length === 1}
                known={known}
                chosen={chosen}
                onChoose={onChoose}
              />
            ))}
          </div>
        </div>
      ))}
    </div>
  );
}

/** The same for those who hear the page: which CPUs each owner has. */
export function cpusOf(sockets: Socket[]): Map<string, number[]> {
  const found = new Map<string, number[]>();
  for (const socket of sockets)
    for (const numa of socket.numaNodes)
      for (const core of numa.cores)
        for (const { cpu, owner, state } of core.threads) {
          const key = owner !== null && state === "owned" ? ownerKey(owner) : `(${state})`;
          found.set(key, [...(found.get(key) ?? []), cpu]);
        }
  return found;
}

/** CPU numbers as the kernel writes them: 0-3,8. */
export function cpuList(cpus: number[]): string {
  const ordered = [...cpus].sort((one, other) => one - other);
  const ranges: [number, number][] = [];
  for (const cpu of ordered) {
    const last = ranges.at(-1);
    if (last !== undefined && last[1] === cpu - 1) last[1] = cpu;
    else ranges.push([cpu, cpu]);
  }
  return ranges.map(([low, high]) => (low === high ? `${low}` : `${low}-${high}`)).join(",");
}

export function ownersOf(sockets: Socket[]): Owner[] {
  return sockets.flatMap((socket) =>
    socket.numaNodes.flatMap((numa) =>
      numa.cores.flatMap((core) => core.threads.flatMap(({ owner }) => owner ?? [])),
    ),
  );
}
