// What the market would do with other shares, nodes, speedups or another mechanism. The server
// clears it with the operator's own code; nothing is written.

import { useContext, useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import type { ApiError } from "../api/client";
import { post, query } from "../api/client";
import { LiveContext, useAnswer } from "../api/live";
import type {
  Changes,
  Division,
  JobRow,
  JobPage,
  Overview,
  PlainUser,
  User,
  WhatIfAnswer,
} from "../api/types";
import { Card, Empty, Failure, Heading, Loading, Name, Notice } from "../components/basics";
import { jobName } from "../components/columns";
import type { Column } from "../components/table";
import { LocalTable, compareNames } from "../components/table";
import * as text from "../format";
import { useParameters } from "../router";

const NONE: Changes = {
  shares: {},
  fractions: {},
  addNodes: [],
  removeNodes: [],
  mechanism: null,
};
const PAUSE = 120;
const NOTE = 400;
const SLIDERS = 8;
const NOTED = 6;
const MECHANISMS = [
  "AmdahlBidding",
  "ProportionalSharing",
  "BestResponse",
  "Greedy",
  "UpperBound",
  "PriceAnticipating",
  "Auction",
];

/** Kept while other views are looked at. */
let kept: Changes = NONE;

/** Changes as the address has them; none where it cannot be read. */
function parsed(text: string | null): Changes | null {
  if (text === null) return null;
  try {
    const found: unknown = JSON.parse(text);
    return typeof found === "object" && found !== null ? { ...NONE, ...found } : null;
  } catch {
    return null;
  }
}

/** Only what differs from today, since that is what a reader of the address wants to see. */
function written(changes: Changes): string | null {
  const some = Object.entries(changes).filter(
    ([, value]) => value !== null && Object.keys(value).length > 0,
  );
  return some.length === 0 ? null : JSON.stringify(Object.fromEntries(some));
}

/** The changes that are tried, which the address holds once they have been left alone for a while. */
function useChanges(): [Changes, (some: Partial<Changes>) => void] {
  const [parameters, setParameters] = useParameters();
  const asked = parameters.get("try");
  const [changes, setChanges] = useState<Changes>(() => (kept = parsed(asked) ?? kept));
  const last = useRef(asked);
  useEffect(() => {
    if (asked === last.current) return; // else "back", or a link
    last.current = asked;
    setChanges((kept = parsed(asked) ?? NONE));
  }, [asked]);
  useEffect(() => {
    const timer = setTimeout(() => {
      if (!location.hash.startsWith("#/what-if")) return;
      last.current = written(changes);
      setParameters({ try: last.current });
    }, NOTE);
    return () => clearTimeout(timer);
  }, [changes]);
  return [changes, (some) => setChanges((kept = { ...kept, ...some }))];
}

interface Outcome {
  answer: WhatIfAnswer | null;
  error: ApiError | null;
  pending: boolean;
}

/** The answer to the last question; those to earlier ones are dropped. */
function useOutcome(changes: Changes): Outcome {
  const { tick, signedOut } = useContext(LiveContext);
  const [outcome, setOutcome] = useState<Outcome>({ answer: null, error: null, pending: true });
  const first = useRef(true);
  useEffect(() => {
    const abort = new AbortController();
    setOutcome((old) => ({ ...old, pending: true }));
    const ask = () =>
      post<WhatIfAnswer>("what-if", changes, abort.signal).then(
        (answer) => setOutcome({ answer, error: null, pending: false }),
        (error: ApiError) => {
          if (abort.signal.aborted) return;
          if (error.status === 401) signedOut(error.message);
          setOutcome((old) => ({ answer: old.answer, error, pending: false }));
        },
      );
    const timer = setTimeout(() => void ask(), first.current ? 0 : PAUSE);
    first.current = false;
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [changes, tick]);
  return outcome;
}

function changed(changes: Changes): number {
  return (
    Object.keys(changes.shares).length +
    Object.keys(changes.fractions).length +
    changes.addNodes.length +
    changes.removeNodes.length +
    (changes.mechanism === null ? 0 : 1)
  );
}

export function WhatIfView({ overview }: { overview: Overview }) {
  const [changes, change] = useChanges();
  const outcome = useOutcome(changes);
  const { answer } = outcome;
  const number = changed(changes);
  return (
    <>
      <Heading
        title="What if"
        below={<p>Try other shares, nodes, speedups or a mechanism. Nothing is written.</p>}
      >
        What if
      </Heading>
      <div class="what-if">
        <div class="controls">
          <Card
            title="Changes"
            actions={
              <button
                type="button"
                class="button button-small"
                disabled={number === 0}
                onClick={() => change(NONE)}
              >
                Undo all
              </button>
            }
          >
            <MechanismChoice overview={overview} changes={changes} onChange={change} />
            <ShareSliders users={overview.users} changes={changes} onChange={change} />
            <NodeChanges overview={overview} changes={changes} onChange={change} />
            <Fractions changes={changes} onChange={change} />
          </Card>
          {answer !== null && <Yaml of={answer.yaml} number={number} />}
        </div>
        <div class="outcome">
          <p class="outcome-line" role="status">
            {outcome.error !== null
              ? "The last change could not be computed; below is the division before it."
              : answer === null
                ? "Computing"
                : `${number === 0 ? "Today's division" : `${text.count(number, "change")}`}, computed in ${text.whole(Math.max(1, 1000 * answer.seconds))} ms`}
            {outcome.pending && answer !== null && <span class="outcome-pending"> · computing</span>}
          </p>
          {outcome.error !== null && <Failure error={outcome.error} />}
          {answer === null ? outcome.error === null && <Loading /> : <Comparison of={answer} />}
        </div>
      </div>
    </>
  );
}

type Edit = { changes: Changes; onChange: (some: Partial<Changes>) => void };

function MechanismChoice({ overview, changes, onChange }: Edit & { overview: Overview }) {
  const id = useId();
  const names = overview.mechanisms ?? MECHANISMS;
  return (
    <div class="field">
      <label for={id}>Mechanism</label>
      <select
        id={id}
        value={changes.mechanism ?? ""}
        onChange={(event) => onChange({ mechanism: event.currentTarget.value || null })}
      >
        <option value="">{overview.mechanism || "as now"} (today)</option>
        {names
          .filter((each) => each !== overview.mechanism)
          .map((each) => (
            <option key={each} value={each}>
              {each}
            </option>
          ))}
      </select>
    </div>
  );
}

function without<Value>(values: Record<string, Value>, name: string): Record<string, Value> {
  return Object.fromEntries(Object.entries(values).filter(([each]) => each !== name));
}

function ShareSliders({ users, changes, onChange }: Edit & { users: User[] }) {
  const [wanted, setWanted] = useState("");
  const id = useId();
  const known = users.filter((each) => each.shares !== null);
  const matching = known.filter(({ name }) => name.toLowerCase().includes(wanted.toLowerCase()));
  const touched = known.filter(({ name }) => name in changes.shares);
  const shown = [...new Set([...touched, ...matching.slice(0, SLIDERS)])];
  return (
    <fieldset class="group">
      <legend>Shares</legend>
      {known.length > SLIDERS && (
        <div class="field">
          <label for={id}>Find a user</label>
          <input
            id={id}
            type="search"
            value={wanted}
            autocomplete="off"
            placeholder={`${text.whole(known.length)} users`}
            onInput={(event) => setWanted(event.currentTarget.value)}
          />
        </div>
      )}
      {known.length === 0 && <Empty>There are no entitlements that you may see.</Empty>}
      {shown.map((user) => (
        <Slider
          key={user.name}
          name={user.name}
          what={`Shares of ${user.name}`}
          now={user.shares ?? 1}
          value={changes.shares[user.name] ?? user.shares ?? 1}
          low={1}
          high={Math.max(10, 4 * (user.shares ?? 1))}
          step={1}
          format={text.whole}
          onValue={(value) =>
            onChange({
              shares:
                value === user.shares
                  ? without(changes.shares, user.name)
                  : { ...changes.shares, [user.name]: value },
            })
          }
        />
      ))}
    </fieldset>
  );
}

function Slider({
  name,
  what,
  now,
  value,
  low,
  high,
  step,
  format,
  onValue,
}: {
  name: string;
  what: string;
  now: number;
  value: number;
  low: number;
  high: number;
  step: number;
  format: (value: number) => string;
  onValue: (value: number) => void;
}) {
  const id = useId();
  const take = (written: string) => {
    const read = Number(written);
    if (written !== "" && Number.isFinite(read) && read >= low) onValue(read);
  };
  return (
    <div class="slider">
      <label for={id}>
        <Name of={name} />
      </label>
      <span class="slider-now">{value !== now && `today ${format(now)}`}</span>
      <input
        id={id}
        type="range"
        min={low}
        max={Math.max(high, value)}
        step={step}
        value={value}
        onInput={(event) => take(event.currentTarget.value)}
      />
      <input
        type="number"
        aria-label={`${what}, exactly`}
        min={low}
        step={step}
        value={value}
        onChange={(event) => take(event.currentTarget.value)}
      />
    </div>
  );
}

function NodeChanges({ overview, changes, onChange }: Edit & { overview: Overview }) {
  const [like, setLike] = useState("");
  const [count, setCount] = useState(1);
  const [gone, setGone] = useState("");
  const names = useMemo(() => overview.nodes.map((each) => each.name), [overview]);
  const known = new Set(names);
  const [id, list] = [useId(), useId()];
  const typed = (like || gone).toLowerCase();
  return (
    <fieldset class="group">
      <legend>Nodes</legend>
      <datalist id={list}>
        {names
          .filter((each) => each.toLowerCase().includes(typed))
          .slice(0, 20)
          .map((each) => (
            <option key={each} value={each} />
          ))}
      </datalist>
      <div class="field-row">
        <div class="field">
          <label for={`${id}-like`}>Add nodes like</label>
          <input
            id={`${id}-like`}
            list={list}
            value={like}
            autocomplete="off"
            placeholder={names[0] ?? ""}
            onInput={(event) => setLike(event.currentTarget.value)}
          />
        </div>
        <div class="field field-short">
          <label for={`${id}-count`}>How many</label>
          <input
            id={`${id}-count`}
            type="number"
            min={1}
            max={100}
            value={count}
            onInput={(event) => setCount(Math.max(1, Number(event.currentTarget.value) || 1))}
          />
        </div>
        <button
          type="button"
          class="button"
          disabled={!known.has(like || (names[0] ?? ""))}
          onClick={() => {
            onChange({ addNodes: [...changes.addNodes, { like: like || (names[0] ?? ""), count }] });
            setLike("");
          }}
        >
          Add
        </button>
      </div>
      <div class="field-row">
        <div class="field">
          <label for={`${id}-gone`}>Remove the node</label>
          <input
            id={`${id}-gone`}
            list={list}
            value={gone}
            autocomplete="off"
            onInput={(event) => setGone(event.currentTarget.value)}
          />
        </div>
        <button
          type="button"
          class="button"
          disabled={!known.has(gone) || changes.removeNodes.includes(gone)}
          onClick={() => {
            onChange({ removeNodes: [...changes.removeNodes, gone] });
            setGone("");
          }}
        >
          Remove
        </button>
      </div>
      <ul class="chips">
        {changes.addNodes.map((each, index) => (
          <Chip
            key={`add ${index}`}
            label={`${each.count} more like ${each.like}`}
            onRemove={() =>
              onChange({ addNodes: changes.addNodes.filter((_, place) => place !== index) })
            }
          />
        ))}
        {changes.removeNodes.map((each) => (
          <Chip
            key={`remove ${each}`}
            label={`without ${each}`}
            onRemove={() =>
              onChange({ removeNodes: changes.removeNodes.filter((other) => other !== each) })
            }
          />
        ))}
      </ul>
    </fieldset>
  );
}

function Chip({ label, onRemove }: { label: string; onRemove: () => void }) {
  return (
    <li class="chip">
      <Name of={label} />
      <button type="button" aria-label={`Undo: ${label}`} onClick={onRemove}>
        <span aria-hidden="true">×</span>
      </button>
    </li>
  );
}

function Fractions({ changes, onChange }: Edit) {
  const [wanted, setWanted] = useState("");
  const [chosen, setChosen] = useState<Record<string, number>>({});
  const id = useId();
  const { data } = useAnswer<JobPage>(`jobs${query({ q: wanted, sort: "-held", limit: 8 })}`);
  const found = (data?.jobs ?? []).filter((each) => !(jobName(each) in chosen));
  const take = (job: JobRow) => {
    setChosen({ ...chosen, [jobName(job)]: job.parallelFraction ?? 0.9 });
    setWanted("");
  };
  const names = [...new Set([...Object.keys(changes.fractions), ...Object.keys(chosen)])];
  return (
    <fieldset class="group">
      <legend>Parallel fraction F</legend>
      {names.map((name) => (
        <Slider
          key={name}
          name={name}
          what={`Parallel fraction of ${name}`}
          now={chosen[name] ?? changes.fractions[name] ?? 0.9}
          value={changes.fractions[name] ?? chosen[name] ?? 0.9}
          low={0.001}
          high={1}
          step={0.001}
          format={text.fraction}
          onValue={(value) =>
            onChange({
              fractions:
                value === chosen[name]
                  ? without(changes.fractions, name)
                  : { ...changes.fractions, [name]: Math.min(1, value) },
            })
          }
        />
      ))}
      <div class="field">
        <label for={id}>Find a job</label>
        <input
          id={id}
          type="search"
          value={wanted}
          autocomplete="off"
          placeholder="namespace/name"
          onInput={(event) => setWanted(event.currentTarget.value)}
        />
      </div>
      <ul class="chips">
        {found.slice(0, 5).map((each) => (
          <li key={jobName(each)}>
            <button type="button" class="chip chip-button" onClick={() => take(each)}>
              <Name of={jobName(each)} />
              <span class="muted">{text.fraction(each.parallelFraction)}</span>
            </button>
          </li>
        ))}
      </ul>
    </fieldset>
  );
}

function Yaml({ of, number }: { of: string; number: number }) {
  const [said, setSaid] = useState("");
  const place = useRef<HTMLPreElement>(null);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(of);
      setSaid("Copied.");
    } catch {
      const selection = getSelection();
      if (place.current !== null && selection !== null) {
        selection.selectAllChildren(place.current);
        setSaid("Selected: copy it with Ctrl-C.");
      }
    }
  };
  return (
    <Card
      title="As YAML"
      actions={
        <button
          type="button"
          class="button button-small"
          disabled={number === 0 || of === ""}
          onClick={() => void copy()}
        >
          Copy
        </button>
      }
    >
      {number === 0 || of === "" ? (
        <Empty>Change something above to get it as YAML, for kubectl apply or walras what-if.</Empty>
      ) : (
        <pre class="yaml" ref={place} tabIndex={0} aria-label="The changes as YAML">
          {of}
        </pre>
      )}
      <p class="muted" role="status">
        {said}
      </p>
    </Card>
  );
}

interface Pair<Row> {
  key: string;
  now: Row | undefined;
  then: Row | undefined;
}

function pairs<Row>(now: Row[], then: Row[], key: (row: Row) => string): Pair<Row>[] {
  const [one, other] = [
    new Map(now.map((row) => [key(row), row])),
    new Map(then.map((row) => [key(row), row])),
  ];
  return [...new Set([...one.keys(), ...other.keys()])].map((each) => ({
    key: each,
    now: one.get(each),
    then: other.get(each),
  }));
}

/** Three columns of a figure: today, then, and the difference. */
function both<Row>(
  key: keyof Row & string,
  title: string,
  format: (value: number | null) => string,
  digits: number,
): Column<Pair<Row>>[] {
  const value = (row: Row | undefined) => (row?.[key] as number | null | undefined) ?? null;
  const difference = ({ now, then }: Pair<Row>) => {
    const [one, other] = [value(now), value(then)];
    return one === null || other === null ? null : other - one;
  };
  return [
    {
      key: `${key}-now`,
      title: "today",
      group: title,
      numeric: true,
      sort: ({ now }) => value(now),
      cell: ({ now }) => format(value(now)),
    },
    {
      key: `${key}-then`,
      title: "then",
      group: title,
      numeric: true,
      sort: ({ then }) => value(then),
      cell: ({ then }) => <strong>{format(value(then))}</strong>,
    },
    {
      key: `${key}-change`,
      title: "change",
      group: title,
      numeric: true,
      sort: difference,
      cell: (row) => <Change of={difference(row)} digits={digits} judged={key !== "price"} />,
    },
  ];
}

/** More cores and speedup are better for who has them; a price is good for one and bad for another. */
function Change({ of, digits, judged }: { of: number | null; digits: number; judged: boolean }) {
  if (of === null || Math.abs(of) < 0.5 * 10 ** -digits) return <span class="muted">–</span>;
  const kind = !judged ? undefined : of > 0 ? "change-up" : "change-down";
  return <span class={kind}>{text.signed(of, digits)}</span>;
}

function Comparison({ of }: { of: WhatIfAnswer }) {
  const { now, then } = of;
  const users = useMemo(() => pairs(now.users, then.users, (row) => row.name), [of]);
  const nodes = useMemo(() => pairs(now.nodes, then.nodes, (row) => row.name), [of]);
  const jobs = useMemo(
    () => pairs(now.jobs, then.jobs, (row) => `${row.namespace}/${row.name} ${row.pod}`),
    [of],
  );
  return (
    <>
      {of.refused.length > 0 && (
        <Notice kind="warn">
          <ul class="plain">
            {of.refused.slice(0, 20).map((each) => (
              <li key={each.job}>
                <Name of={each.job} />: <bdi>{each.reason}</bdi>
              </li>
            ))}
          </ul>
        </Notice>
      )}
      {of.notes.length > 0 && (
        <Notice kind="info">
          <ul class="plain">
            {of.notes.slice(0, NOTED).map((each) => (
              <li key={each}>
                <bdi>{each}</bdi>
              </li>
            ))}
          </ul>
          {of.notes.length > NOTED && (
            <p class="muted">and {text.whole(of.notes.length - NOTED)} more of this kind</p>
          )}
        </Notice>
      )}
      <Card title="Users" about="Cores that each user holds, today and then." wide>
        <Dumbbells users={users} />
        <LocalTable
          label="Users today and then"
          columns={[
            name("User"),
            ...both<Division["users"][number]>("entitled", "Entitled", text.exactCores, 2),
            ...both<Division["users"][number]>("held", "Held", text.exactCores, 2),
            ...both<Division["users"][number]>("utility", "Utility", text.utility, 3),
          ]}
          rows={users}
          rowKey={(row) => row.key}
          initial={{ key: "name", descending: false }}
          size={20}
          empty="There are no users."
        />
      </Card>
      <Plain of={of} />
      <div class="columns">
        <Card title="The whole cluster">
          <Figures now={now} then={then} />
        </Card>
        <Card title="Nodes">
          <LocalTable
            label="Nodes today and then"
            columns={[
              name("Node"),
              ...both<Division["nodes"][number]>("cores", "Cores", text.cores, 2),
              ...both<Division["nodes"][number]>("price", "Price", text.price, 3),
            ]}
            rows={nodes}
            rowKey={(row) => row.key}
            size={10}
            empty="There are no nodes."
          />
        </Card>
      </div>
      <Card
        title="Jobs that change"
        about={
          of.unchangedJobs === undefined
            ? undefined
            : `${text.count(of.unchangedJobs, "pod")} would keep what they have.`
        }
        wide
      >
        <LocalTable
          label="Jobs that change"
          columns={[
            name("Job and pod"),
            {
              key: "node",
              title: "Node",
              sort: (row) => (row.then ?? row.now)?.node ?? "",
              cell: (row) => <Name of={(row.then ?? row.now)?.node ?? ""} />,
            },
            ...both<Division["jobs"][number]>("bought", "Bought", text.exactCores, 2),
            ...both<Division["jobs"][number]>("held", "Held", text.cores, 2),
            ...both<Division["jobs"][number]>("speedup", "Speedup", text.speedup, 2),
          ]}
          rows={jobs}
          rowKey={(row) => row.key}
          filter={(row) => row.key}
          filterLabel="Namespace, name or pod"
          size={20}
          empty="No job would get other cores."
        />
      </Card>
    </>
  );
}

/** A user on plain Kubernetes, today and then. */
interface Plainly {
  name: string;
  plain: PlainUser | undefined;
  now: Division["users"][number] | undefined;
  then: Division["users"][number] | undefined;
}

function Plain({ of }: { of: WhatIfAnswer }) {
  const { plain, now, then } = of;
  if (plain === null) return null;
  const there = new Map(plain.users.map((each) => [each.name, each]));
  const rows = pairs(now.users, then.users, (row) => row.name).map(
    (each): Plainly => ({ ...each, name: each.key, plain: there.get(each.key) }),
  );
  const figures = (
    key: "held" | "utility",
    group: string,
    format: (value: number | null) => string,
  ): Column<Plainly>[] =>
    (
      [
        ["plain", "plain Kubernetes"],
        ["now", "today"],
        ["then", "then"],
      ] as const
    ).map(([when, title]) => ({
      key: `${key}-${when}`,
      title,
      group,
      numeric: true,
      sort: (row) => row[when]?.[key] ?? null,
      cell: (row) => format(row[when]?.[key] ?? null),
    }));
  return (
    <Card
      title="Beside plain Kubernetes"
      about="What the requests and limits of today's pods would give them without Walras, all of them busy."
      wide
    >
      <p>
        {text.count(plain.starving, "pod")} would hold less than a tenth of a core on plain
        Kubernetes; {text.whole(now.starving)} {now.starving === 1 ? "does" : "do"} today, and{" "}
        {text.whole(then.starving)} would then.
      </p>
      <LocalTable
        label="Users beside plain Kubernetes"
        columns={[
          {
            key: "name",
            title: "User",
            header: true,
            sort: (row) => row.name,
            cell: (row) => <Name of={row.name} />,
          },
          ...figures("held", "Held", text.exactCores),
          ...figures("utility", "Utility", text.utility),
        ]}
        rows={rows}
        rowKey={(row) => row.name}
        initial={{ key: "name", descending: false }}
        size={20}
        empty="There are no users."
      />
    </Card>
  );
}

function name<Row>(title: string): Column<Pair<Row>> {
  return {
    key: "name",
    title,
    header: true,
    sort: (row) => row.key,
    cell: (row) => <Name of={row.key} />,
  };
}

const DRAWN = 12;

/** Each user's cores today and then as two points on one line. */
function Dumbbells({ users }: { users: Pair<Division["users"][number]>[] }) {
  const held = (row: Division["users"][number] | undefined) => row?.held ?? 0;
  const most = users.reduce((high, each) => Math.max(high, held(each.now), held(each.then)), 0);
  const drawn = [...users]
    .sort(
      (one, other) =>
        Math.abs(held(other.then) - held(other.now)) - Math.abs(held(one.then) - held(one.now)),
    )
    .slice(0, DRAWN)
    .sort((one, other) => compareNames(one.key, other.key));
  if (most <= 0) return null;
  const at = (value: number) => `${(100 * value) / most}%`;
  return (
    <ul class="dumbbells" aria-hidden="true">
      {drawn.map(({ key, now, then }) => {
        const [low, high] = [Math.min(held(now), held(then)), Math.max(held(now), held(then))];
        return (
          <li key={key}>
            <Name of={key} />
            <span class="dumbbell">
              <span class="dumbbell-line" style={{ left: at(low), width: at(high - low) }} />
              <span class="dumbbell-now" style={{ left: at(held(now)) }} />
              <span class="dumbbell-then" style={{ left: at(held(then)) }} />
            </span>
          </li>
        );
      })}
      <li class="dumbbell-legend">
        <span />
        <span>
          <span class="dumbbell-key dumbbell-key-now" /> today
          <span class="dumbbell-key dumbbell-key-then" /> then
        </span>
      </li>
    </ul>
  );
}

function Figures({ now, then }: { now: Division; then: Division }) {
  const rows = pairs(now.figures, then.figures, (row) => row.name);
  type Row = Pair<Division["figures"][number]>;
  const columns: Column<Row>[] = [
    { key: "name", title: "Figure", header: true, value: (row) => row.key, cell: (row) => row.key },
    {
      key: "now",
      title: "Today",
      numeric: true,
      value: (row) => row.now?.value ?? null,
      cell: (row) => row.now?.value ?? text.UNKNOWN,
    },
    {
      key: "then",
      title: "Then",
      numeric: true,
      value: (row) => row.then?.value ?? null,
      cell: (row) => <strong>{row.then?.value ?? text.UNKNOWN}</strong>,
    },
  ];
  const mechanism: Row = {
    key: "Mechanism",
    now: { name: "", value: now.mechanism },
    then: { name: "", value: then.mechanism },
  };
  return (
    <LocalTable
      label="The whole cluster"
      columns={columns}
      rows={[mechanism, ...rows]}
      rowKey={(row) => row.key}
      empty=""
    />
  );
}
