// A cluster that has never heard of Walras: what its namespaces have today, and would have.

import type { Prospect, WithoutWalras } from "../api/types";
import { Card, Heading, Name, Sentences } from "../components/basics";
import type { Column } from "../components/table";
import { LocalTable } from "../components/table";
import * as text from "../format";

export function WithoutWalrasView({ found }: { found: WithoutWalras }) {
  const [cluster, ...result] = found.result;
  return (
    <>
      <Heading title="Cluster" below={<p>{cluster}</p>}>
        With and without Walras
      </Heading>
      <Card title="What Walras would change">
        <Sentences of={result} />
      </Card>
      <Card title="Users" wide>
        <LocalTable
          label="Users"
          columns={columns(found.unit)}
          rows={found.users}
          rowKey={(row) => row.name}
          size={20}
          empty=""
        />
        <Sentences of={found.columns} />
      </Card>
      <div class="columns">
        <Card title="The largest changes">
          {found.changes.length > 0 ? (
            <Sentences of={found.changes} />
          ) : (
            <p>No job would have other cores than today.</p>
          )}
        </Card>
        {found.loans.length > 0 && (
          <Card title="Who lends to whom">
            <Sentences of={found.loans} />
          </Card>
        )}
      </div>
      <Card title="Next" wide>
        <ul class="plain">
          {found.next.map((each) => (
            <li key={each}>
              <code>{each}</code>
            </li>
          ))}
        </ul>
      </Card>
    </>
  );
}

function columns(unit: string): Column<Prospect>[] {
  const units = `${unit}s`;
  const figure = (
    key: string,
    group: string,
    title: string,
    sort: (row: Prospect) => number | null,
    cell: (row: Prospect) => string,
  ): Column<Prospect> => ({ key, group, title, numeric: true, sort, cell });
  const cores = (value: number) => value.toFixed(1);
  return [
    {
      key: "name",
      title: "User",
      header: true,
      sort: (row) => row.name,
      cell: (row) => <Name of={row.name} />,
    },
    {
      key: "pods",
      title: "Pods",
      numeric: true,
      sort: (row) => row.pods,
      cell: (row) => text.whole(row.pods),
    },
    figure(
      "guarantee",
      units,
      "guarantee",
      (row) => row.cores.guarantee,
      (row) => cores(row.cores.guarantee),
    ),
    figure(
      "today",
      units,
      "today",
      (row) => row.cores.today,
      (row) => cores(row.cores.today),
    ),
    figure(
      "market",
      units,
      "Walras",
      (row) => row.cores.market.most,
      (row) => row.cores.marketText,
    ),
    figure(
      "marketGain",
      "Speed",
      "Walras",
      (row) => row.gain?.most ?? null,
      (row) => row.gainText,
    ),
    figure(
      "starving",
      "Starving pods",
      "today",
      (row) => row.starvingPods.today,
      (row) => text.whole(row.starvingPods.today),
    ),
    figure(
      "starvingThen",
      "Starving pods",
      "Walras",
      (row) => row.starvingPods.market,
      (row) => text.whole(row.starvingPods.market),
    ),
  ];
}
