// The market over hours and a day: cores, prices and credits.

import { Heading } from "../components/basics";
import { HistoryCharts } from "../components/history";
import { useParameters } from "../router";

const RANGES = [
  { title: "15 minutes", since: 900, step: 5 },
  { title: "1 hour", since: 3600, step: 15 },
  { title: "6 hours", since: 6 * 3600, step: 60 },
  { title: "24 hours", since: 24 * 3600, step: 300 },
];

export function Time() {
  const [parameters, setParameters] = useParameters();
  const asked = RANGES.findIndex(({ since }) => String(since) === parameters.get("since"));
  const chosen = asked < 0 ? 1 : asked;
  const range = RANGES[chosen]!;
  return (
    <>
      <Heading title="Time" below={<p>Cores, prices and credits as they were.</p>}>
        Time
      </Heading>
      <fieldset class="segments">
        <legend class="hidden">How far back</legend>
        {RANGES.map(({ title }, index) => (
          <label key={title} class={index === chosen ? "segment segment-chosen" : "segment"}>
            <input
              type="radio"
              class="hidden"
              name="range"
              checked={index === chosen}
              onChange={() => setParameters({ since: String(RANGES[index]!.since) })}
            />
            {title}
          </label>
        ))}
      </fieldset>
      <HistoryCharts
        key={range.since}
        kind="cluster"
        since={range.since}
        step={range.step}
        wide
        height={260}
      />
    </>
  );
}
