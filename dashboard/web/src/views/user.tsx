// One user: what its entitlement is worth, what it has of it, and with whom it trades.

import { Fragment } from "preact";
import { path } from "../api/client";
import { useAnswer } from "../api/live";
import type { Ledger, UserDetail } from "../api/types";
import {
  Card,
  Empty,
  Facts,
  Failure,
  Faults,
  Heading,
  Loading,
  Name,
  Notes,
  Sentences,
  State,
  unlessTold,
} from "../components/basics";
import { jobColumns, jobName, loanColumns } from "../components/columns";
import { HistoryCharts } from "../components/history";
import { LocalTable } from "../components/table";
import * as text from "../format";
import { link } from "../router";

export function UserView({ name }: { name: string }) {
  const { data, error } = useAnswer<UserDetail>(`users/${path(name)}`);
  return (
    <>
      <Heading
        title={name}
        above={
          <>
            <a href={link("users")}>Users</a>
            {data?.row.parent != null && (
              <>
                {" / "}
                <Name of={data.row.parent} href={link("users", data.row.parent)} />
              </>
            )}
          </>
        }
        below={
          data !== null && (
            <p>
              <State of={data.row.reason} /> <bdi>{unlessTold(data.row.message, data.faults)}</bdi>
            </p>
          )
        }
      >
        <Name of={name} />
      </Heading>
      {error !== null && <Failure error={error} />}
      {data === null ? error === null && <Loading /> : <Page user={data} />}
    </>
  );
}

function Page({ user }: { user: UserDetail }) {
  return (
    <>
      <Facts
        facts={[
          {
            label: "Entitled to",
            value: text.cores(user.row.cores.entitled),
            about: `cores, by ${text.whole(user.row.shares)} shares`,
          },
          {
            label: "Held",
            value: text.cores(user.row.cores.held),
            about: `${text.exactCores(user.row.cores.bought)} bought, ${text.usedCores(user.row.cores.used, user.row.cores.usedBeyond)} used`,
          },
          {
            label: "Lent and borrowed",
            value: `${text.cores(user.row.lent)} / ${text.cores(user.row.borrowed)}`,
            about: "cores, on all nodes",
          },
          {
            label: "Gain over its share",
            value: text.signedPercent(user.row.gain),
            about: `utility ${text.utility(user.row.utility)}, with its part of every node ${text.utility(user.row.entitlementUtility)}`,
          },
          {
            label: "Memory granted",
            value: text.bytes(user.row.memory.granted),
            about: `entitled to ${text.bytes(user.row.memory.entitled)}`,
          },
          { label: "Credits", value: text.credits(user.row.creditsAboveMean), about: "relative to the mean" },
        ]}
      />
      <Faults of={user.faults} />
      <Notes of={user.notes} />
      <div class="columns columns-three">
        <Card title="In words">
          {user.text.length === 0 ? (
            <Empty>There is nothing more to say.</Empty>
          ) : (
            <Sentences of={user.text} />
          )}
          {user.children.length > 0 && (
            <>
              <h3>Divided among</h3>
              <ul class="chips">
                {user.children.slice(0, 100).map((each) => (
                  <li key={each}>
                    <Name of={each} href={link("users", each)} />
                  </li>
                ))}
              </ul>
            </>
          )}
        </Card>
        <Card title="Lending" about="Cores and memory of one user's part that another one has.">
          <LocalTable
            label="Lending"
            columns={loanColumns()}
            rows={user.lending}
            rowKey={(row) => `${row.from}\n${row.to}`}
            initial={{ key: "cores", descending: true }}
            size={10}
            empty={
              user.row.lent === null
                ? "Who lends to it and borrows from it is not known, since you may not see all entitlements and pods."
                : "It neither lends nor borrows: it bought its part of each node, or nobody wants the rest."
            }
          />
        </Card>
        <Card
          title="Ledger"
          about="What others owe it or it owes them, and the last quantum of memory that was settled."
        >
          {user.account.length > 0 && (
            <dl class="sum">
              {user.account.map(({ of, owed, effect }) => (
                <Fragment key={of}>
                  <dt>
                    {of === "cores" ? "Cores" : "Memory"}: {effect}
                  </dt>
                  <dd>{owed}</dd>
                </Fragment>
              ))}
            </dl>
          )}
          <Quantum of={user.quantum} />
        </Card>
      </div>
      <div class="columns columns-three">
        <HistoryCharts kind="user" name={user.row.name} />
      </div>
      <Card title="Jobs" wide>
        <LocalTable
          label="Jobs"
          columns={jobColumns(user.children.length > 0)}
          rows={user.jobs}
          rowKey={jobName}
          filter={jobName}
          filterLabel="Namespace or name"
          initial={{ key: "held", descending: true }}
          size={25}
          empty="No job that you may see draws on this entitlement."
        />
      </Card>
    </>
  );
}

function Quantum({ of }: { of: Ledger | null }) {
  if (of === null)
    return <Empty>No credits are kept: the market divides memory by another mechanism.</Empty>;
  const rows = [
    ...of.lent.map((each) => ({ ...each, what: "lent to" })),
    ...of.borrowed.map((each) => ({ ...each, what: "borrowed from" })),
  ];
  return (
    <>
      <dl class="sum">
        <dt>Quantum</dt>
        <dd>{text.whole(of.number)}</dd>
        <dt>Credits earned</dt>
        <dd>{Number(of.earned).toFixed(1)}</dd>
        <dt>Credits spent</dt>
        <dd>{Number(of.spent).toFixed(1)}</dd>
      </dl>
      {rows.length > 0 && (
        <LocalTable
          label="Memory lent and borrowed"
          columns={[
            {
              key: "name",
              title: "User",
              header: true,
              value: (row) => row.name,
              cell: (row) =>
                row.name === "" ? <span class="muted">nobody</span> : <Name of={row.name} />,
            },
            { key: "what", title: "Memory", value: (row) => row.what, cell: (row) => row.what },
            {
              key: "memory",
              title: "Amount",
              numeric: true,
              sort: (row) => row.memory,
              cell: (row) => text.bytes(row.memory),
            },
          ]}
          rows={rows}
          rowKey={(row) => `${row.what} ${row.name}`}
          size={10}
          empty=""
        />
      )}
    </>
  );
}
