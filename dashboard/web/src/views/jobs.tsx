// All jobs, page by page from the server, which also sorts and filters them.

import { useEffect, useState } from "preact/hooks";
import { query } from "../api/client";
import { useAnswer } from "../api/live";
import type { JobRow, JobPage, Overview } from "../api/types";
import { Card, Empty, Failure, Heading, Loading } from "../components/basics";
import { jobColumns, jobName } from "../components/columns";
import type { Sort } from "../components/table";
import { Pager, Search, Table, nextSort } from "../components/table";
import { count, whole } from "../format";

const SIZE = 50;

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
  const [text, setText] = useState("");
  const [wanted, setWanted] = useState("");
  const [sort, setSort] = useState<Sort>({ key: "name", descending: false });
  const [offset, setOffset] = useState(0);
  useEffect(() => {
    if (text.trim() === wanted) return undefined; // or the page would be turned back
    const timer = setTimeout(() => {
      setWanted(text.trim());
      setOffset(0);
    }, 150);
    return () => clearTimeout(timer);
  }, [text]);
  const order = `${sort.descending ? "-" : ""}${sort.key}`;
  const { data, error } = useAnswer<JobPage>(
    `jobs${query({ user, node, q: wanted, sort: order, offset, limit: SIZE })}`,
  );
  if (error !== null && data === null) return <Failure error={error} />;
  if (data === null) return <Loading />;
  const none = data.total === 0;
  return (
    <>
      {(!none || wanted !== "") && (
        <div class="table-tools">
          <Search label="Namespace, name or user" value={text} onValue={setText} />
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
          columns={jobColumns()}
          rows={data.jobs}
          rowKey={jobName}
          sort={sort}
          onSort={(key, numeric) => {
            setSort(nextSort(sort, key, numeric));
            setOffset(0);
          }}
        />
      )}
      <Pager
        label="jobs"
        offset={Math.min(offset, Math.max(0, data.total - 1))}
        total={data.total}
        size={SIZE}
        onOffset={setOffset}
      />
    </>
  );
}
