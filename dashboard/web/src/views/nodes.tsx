import type { Overview } from "../api/types";
import { Card, Heading } from "../components/basics";
import { nodeColumns } from "../components/columns";
import { LocalTable } from "../components/table";
import { cores, count } from "../format";

export function Nodes({ overview }: { overview: Overview }) {
  const { nodes, totals } = overview;
  return (
    <>
      <Heading
        title="Nodes"
        below={
          <p>
            {count(nodes.length, "node")} with {cores(totals.cores)} cores for sale,{" "}
            {cores(totals.sold)} sold.
          </p>
        }
      >
        Nodes
      </Heading>
      <Card title="All nodes" wide>
        <LocalTable
          label="All nodes"
          columns={nodeColumns(nodes)}
          rows={nodes}
          rowKey={(row) => row.name}
          filter={(row) => `${row.name} ${row.pool ?? ""} ${row.agent}`}
          filterLabel="Name, pool or state"
          inAddress
          initial={{ key: "name", descending: false }}
          empty="No node takes part, or you may not list nodes. Notes below say what you may not see."
        />
      </Card>
    </>
  );
}
