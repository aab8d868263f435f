import type { Overview, User } from "../api/types";
import { Card, Heading, Name, State } from "../components/basics";
import { userFigures } from "../components/columns";
import type { Column } from "../components/table";
import { LocalTable } from "../components/table";
import { count, whole } from "../format";
import { link } from "../router";

const columns: Column<User>[] = [
  {
    key: "name",
    title: "User",
    header: true,
    sort: (row) => row.name,
    cell: (row) => <Name of={row.name} href={link("users", row.name)} />,
  },
  {
    key: "parent",
    title: "Part of",
    sort: (row) => row.parent,
    cell: (row) =>
      row.parent === null ? (
        <span class="muted">–</span>
      ) : (
        <Name of={row.parent} href={link("users", row.parent)} />
      ),
  },
  ...userFigures(),
  {
    key: "jobs",
    title: "Jobs",
    numeric: true,
    sort: (row) => row.jobs,
    cell: (row) => whole(row.jobs),
  },
  {
    key: "state",
    title: "State",
    sort: (row) => row.reason,
    cell: (row) => <State of={row.reason} title={row.message} />,
  },
];

export function Users({ overview }: { overview: Overview }) {
  const parents = overview.users.some(({ parent }) => parent !== null);
  return (
    <>
      <Heading title="Users" below={<p>{count(overview.users.length, "entitlement")}.</p>}>
        Users
      </Heading>
      <Card title="All users" wide>
        <LocalTable
          label="All users"
          columns={columns.filter(({ key }) => parents || key !== "parent")}
          rows={overview.users}
          rowKey={(row) => row.name}
          filter={(row) => `${row.name} ${row.parent ?? ""} ${row.reason}`}
          filterLabel="Name, parent or state"
          inAddress
          initial={{ key: "gain", descending: false }}
          cards
          empty="There are no entitlements that you may see."
        />
      </Card>
    </>
  );
}
