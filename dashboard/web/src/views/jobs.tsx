// All jobs, page by page from the server, which also sorts and filters them.

import { useEffect, useState } from "preact/hooks";
import { get, query } from "../api/client";
import { useAnswer } from "../api/live";
import type { JobRow, JobPage, Overview } from "../api/types";
import { Card, Empty, Failure, Heading, Loading } from "../components/basics";
import { jobColumns, jobName } from "../components/columns";
import { Csv, Pager, Search, Table, nextSort, useTableState } from "../components/table";
import { count, whole } from "../format";

const SIZE = 50;
const MOST = 1000;
const BY_NAME = { key: "name", descending: false };

export function Jobs({ parameters, overview }: { parameters: URLSearchParams; overview: Overview }) {
  const user = parameters.get("user");
  const node = parameters.get("node");
  return (
    <>
      <Heading title="Jobs" below={<p>{count(overview.totals.jobs, "job")} in the market.</p>}>
        Jobs
      </Heading>
      <Card title={user ? "Jobs of a user" : node ? "Jobs on a node" : "All jobs"} wide>
        <JobTable user={user} node={node} />
      </Card>
    </>
  );
}

function JobTable({ user, node }: { user: string | null; node: string | null }) {
  const [{ text, sort, offset }, change] = useTableState(true, BY_NAME);
  const [wanted, setWanted] = useState(text.trim());
  useEffect(() => {
    const timer = setTimeout(() => setWanted(text.trim()), 150);
    return () => clearTimeout(timer);
  }, [text]);
  const order = sort === null ? "" : `${sort.descending ? "-" : ""}${sort.key}`;
  const { data, error } = useAnswer<JobPage>(
    `jobs${query({ user, node, q: wanted, sort: order, offset, limit: SIZE })}`,
  );
  const all = async () => {
    const found: JobRow[] = [];
    for (let total = 1; found.length < total; ) {
      const part = await get<JobPage>(
        `jobs${query({ user, node, q: wanted, sort: order, offset: found.length, limit: MOST })}`,
        AbortSignal.timeout(60_000),
      );
      found.push(...part.jobs);
      total = part.jobs.length === 0 ? 0 : part.total;
    }
    return found;
  };
  const columns = jobColumns(user === null);
  if (error !== null && data === null) return <Failure error={error} />;
  if (data === null) return <Loading />;
  const none = data.total === 0;
  return (
    <>
      {(!none || wanted !== "") && (
        <div class="table-tools">
          <Search label="Namespace, name or user" value={text} onValue={(value) => change({ text: value, offset: 0 })} />
          <span class="muted" role="status">
            {wanted === "" ? count(data.total, "job") : `${whole(data.total)} found`}
          </span>
        </div>
      )}
      {none ? (
        <Empty>
          {wanted === ""
            ? "There are no jobs that you may see. A workload joins the market by a label, or as a MarketJob."
            : `No job matches “${wanted}”. Delete a part of it to see more.`}
        </Empty>
      ) : (
        <Table<JobRow>
          label="Jobs"
          columns={columns}
          rows={data.jobs}
          rowKey={jobName}
          cards
          sort={sort}
          onSort={(key, numeric) => change({ sort: nextSort(sort, key, numeric), offset: 0 })}
        />
      )}
      <Pager
        label="jobs"
        offset={Math.min(offset, Math.max(0, data.total - 1))}
        total={data.total}
        size={SIZE}
        onOffset={(value) => change({ offset: value })}
      />
      {!none && <Csv label="Jobs" columns={columns} rows={all} />}
    </>
  );
}
