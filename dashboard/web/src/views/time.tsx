// The market over hours and a day: cores, prices and credits.

import { useId, useMemo } from "preact/hooks";
import { Heading } from "../components/basics";
import { HistoryCharts } from "../components/history";
import { useParameters } from "../router";

const RANGES = [
  { title: "15 minutes", since: 900, step: 5 },
  { title: "1 hour", since: 3600, step: 15 },
  { title: "6 hours", since: 6 * 3600, step: 60 },
  { title: "24 hours", since: 24 * 3600, step: 300 },
];
const DAY = 24 * 3600;
const POINTS = 1440;

/** A time as the address has it, in UTC, so that a link shows the same everywhere; null for none. */
function seconds(written: string | null): number | null {
  const time = Date.parse(written ?? "");
  return Number.isNaN(time) ? null : time / 1000;
}

/** A time as its field has it: in the reader's own zone, to the minute. */
function local(time: number | null): string {
  if (time === null) return "";
  const at = new Date(1000 * time);
  return new Date(at.getTime() - 60_000 * at.getTimezoneOffset()).toISOString().slice(0, 16);
}

/** What to ask the server for, which answers for some seconds before now. */
function toAsk(from: number, to: number): { since: number; step: number } {
  // Someone may look for an hour at what the answer has to begin with.
  const since = Math.min(DAY, Math.max(60, Math.ceil(Date.now() / 1000 - from) + 3600));
  const span = RANGES.find((range) => range.since >= to - from) ?? RANGES.at(-1)!;
  return { since, step: Math.max(span.step, Math.ceil(since / POINTS)) };
}

export function Time() {
  const [parameters, setParameters] = useParameters();
  const [from, to] = [seconds(parameters.get("from")), seconds(parameters.get("to"))];
  const own = from !== null && to !== null && from < to;
  const asked = RANGES.findIndex(({ since }) => String(since) === parameters.get("since"));
  const chosen = asked < 0 ? 1 : asked;
  const range = useMemo(
    () => (own ? toAsk(from, to) : RANGES[chosen]!),
    [own, from, to, chosen],
  );
  return (
    <>
      <Heading title="Time" below={<p>Cores, prices and credits as they were.</p>}>
        Time
      </Heading>
      <div class="ranges">
        <fieldset class="segments">
          <legend class="hidden">How far back</legend>
          {RANGES.map(({ title, since }, index) => (
            <label
              key={title}
              class={!own && index === chosen ? "segment segment-chosen" : "segment"}
            >
              <input
                type="radio"
                class="hidden"
                name="range"
                checked={!own && index === chosen}
                onChange={() => setParameters({ since: String(since), from: null, to: null })}
              />
              {title}
            </label>
          ))}
        </fieldset>
        <Moment title="From" time={from} onTime={(time) => setParameters({ from: time })} />
        <Moment title="To" time={to} onTime={(time) => setParameters({ to: time })} />
      </div>
      {from !== null && to !== null && !own && (
        <p class="muted" role="status">
          The range ends before it begins, so it is not used. Choose a later end.
        </p>
      )}
      <HistoryCharts
        key={own ? `${from} ${to}` : range.since}
        kind="cluster"
        since={range.since}
        step={range.step}
        wide
        height={260}
        {...(own ? { between: [from, to] as const } : {})}
      />
    </>
  );
}

function Moment({
  title,
  time,
  onTime,
}: {
  title: string;
  time: number | null;
  onTime: (time: string | null) => void;
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{title}</label>
      <input
        id={id}
        type="datetime-local"
        value={local(time)}
        onChange={(event) => {
          const chosen = new Date(event.currentTarget.value);
          onTime(Number.isNaN(chosen.getTime()) ? null : chosen.toISOString());
        }}
      />
    </div>
  );
}
