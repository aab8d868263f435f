// Tables: sorted by a click on a heading, filtered by text, and in pages, so that ten thousand rows
// cost no more than fifty.

import type { ComponentChildren } from "preact";
import { useId, useMemo, useState } from "preact/hooks";
import { count, whole } from "../format";
import { useParameters } from "../router";
import { Empty } from "./basics";
import { csv, save } from "./csv";

export interface Column<Row> {
  key: string;
  title: string;
  /** What the column means, for those who hover over its heading. */
  about?: string;
  /** Columns beside each other with the same group have a heading in common. */
  group?: string;
  numeric?: boolean;
  /** The cell names the row. */
  header?: boolean;
  /** What the column is sorted by; without it, it cannot be sorted. */
  sort?: (row: Row) => string | number | null;
  /** What a file has of the column, if it is not what it is sorted by. */
  value?: (row: Row) => string | number | null;
  cell: (row: Row) => ComponentChildren;
}

export interface Sort {
  key: string;
  descending: boolean;
}

const PAGE = 50;

function Head<Row>({
  columns,
  sort,
  onSort,
}: {
  columns: Column<Row>[];
  sort: Sort | null;
  onSort: (key: string, numeric: boolean) => void;
}) {
  return (
    <thead>
      {columns.some((column) => column.group !== undefined) && <Groups columns={columns} />}
      <tr>
        {columns.map((column, index) => {
          const active = sort?.key === column.key;
          const direction = active ? (sort.descending ? "descending" : "ascending") : "none";
          const kind = classOf(columns, index);
          const name = column.group === undefined ? undefined : `${column.group}: ${column.title}`;
          if (column.sort === undefined)
            return (
              <th key={column.key} scope="col" class={kind} title={column.about}>
                {column.title}
              </th>
            );
          return (
            <th
              key={column.key}
              scope="col"
              class={kind}
              aria-sort={active ? direction : undefined}
            >
              <button
                type="button"
                class="sort"
                title={column.about}
                aria-label={name}
                onClick={() => onSort(column.key, column.numeric ?? false)}
              >
                {column.title}
                <span class={`sort-mark sort-${direction}`} aria-hidden="true" />
              </button>
            </th>
          );
        })}
      </tr>
    </thead>
  );
}

/** The classes of a cell: numbers stand right, and groups are set apart. */
function classOf<Row>(columns: Column<Row>[], index: number): string | undefined {
  const column = columns[index];
  const first = column?.group !== undefined && columns[index - 1]?.group !== column.group;
  return (
    [column?.numeric ? "numeric" : "", first ? "group-first" : ""].filter(Boolean).join(" ") ||
    undefined
  );
}

function Groups<Row>({ columns }: { columns: Column<Row>[] }) {
  const groups: { title: string | undefined; span: number }[] = [];
  for (const { group } of columns) {
    const last = groups.at(-1);
    if (last !== undefined && last.title === group) last.span += 1;
    else groups.push({ title: group, span: 1 });
  }
  return (
    <tr>
      {groups.map(({ title, span }, index) =>
        title === undefined ? (
          <td key={index} colSpan={span} class="group-head" />
        ) : (
          <th key={index} scope="colgroup" colSpan={span} class="group-head group-first">
            {title}
          </th>
        ),
      )}
    </tr>
  );
}

/** A table as it is given: those below sort and page. */
export function Table<Row>({
  label,
  columns,
  rows,
  rowKey,
  sort = null,
  onSort = () => undefined,
  cards = false,
  rowProps,
}: {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
  /** Whether each row is a card of its own where the window is narrow. */
  cards?: boolean;
  sort?: Sort | null;
  onSort?: (key: string, numeric: boolean) => void;
  rowProps?: (row: Row) => Record<string, unknown>;
}) {
  return (
    <div class="table-scroll" role="region" aria-label={`${label}, table`} tabIndex={0}>
      <table aria-label={label} class={cards ? "cards" : undefined}>
        <Head columns={columns} sort={sort} onSort={onSort} />
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)} {...rowProps?.(row)}>
              {columns.map((column, index) =>
                column.header ? (
                  <th key={column.key} scope="row">
                    {column.cell(row)}
                  </th>
                ) : (
                  <td key={column.key} class={classOf(columns, index)} data-title={column.title}>
                    {column.cell(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A button that saves all rows of a table, also those on other pages of it. */
export function Csv<Row>({
  label,
  columns,
  rows,
}: {
  label: string;
  columns: Column<Row>[];
  rows: () => Row[] | Promise<Row[]>;
}) {
  const [failed, setFailed] = useState("");
  const download = async () => {
    try {
      save(label, csv(columns, await rows()));
      setFailed("");
    } catch (error) {
      setFailed(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <p class="table-file">
      <button
        type="button"
        class="button button-small"
        aria-label={`Save ${label} as CSV`}
        onClick={() => void download()}
      >
        CSV
      </button>
      <span class="muted" role="status">
        {failed !== "" && <bdi>{failed}</bdi>}
      </span>
    </p>
  );
}

export function Pager({
  label,
  offset,
  total,
  size,
  onOffset,
}: {
  label: string;
  offset: number;
  total: number;
  size: number;
  onOffset: (offset: number) => void;
}) {
  if (total <= size) return null;
  const last = Math.floor((total - 1) / size) * size;
  const step = (text: string, name: string, to: number, off: boolean) => (
    <button
      type="button"
      class="button button-small"
      aria-label={name}
      disabled={off}
      onClick={() => onOffset(to)}
    >
      <span aria-hidden="true">{text}</span>
    </button>
  );
  return (
    <nav class="pager" aria-label={`Pages of ${label}`}>
      {step("«", "First page", 0, offset <= 0)}
      {step("‹", "Previous page", Math.max(0, offset - size), offset <= 0)}
      <span class="pager-text">
        {whole(offset + 1)} to {whole(Math.min(offset + size, total))} of {whole(total)}
      </span>
      {step("›", "Next page", offset + size, offset + size >= total)}
      {step("»", "Last page", last, offset >= last)}
    </nav>
  );
}

export function Search({
  label,
  value,
  onValue,
}: {
  label: string;
  value: string;
  onValue: (value: string) => void;
}) {
  const id = useId();
  return (
    <div class="search">
      <label class="hidden" for={id}>
        {label}
      </label>
      <input
        id={id}
        type="search"
        placeholder={label}
        value={value}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => onValue(event.currentTarget.value)}
      />
    </div>
  );
}

export function nextSort(old: Sort | null, key: string, numeric: boolean): Sort {
  return old?.key === key ? { key, descending: !old.descending } : { key, descending: numeric };
}

/** Made once: a comparison by locale that makes its own takes a thousand times as long. */
const COLLATOR = new Intl.Collator("en", { numeric: true });

/** The order of names as people count: node-2 before node-10. */
export function compareNames(one: string, other: string): number {
  return COLLATOR.compare(one, other);
}

function compare(one: string | number | null, other: string | number | null): number {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return COLLATOR.compare(String(one), String(other));
}

export function sorted<Row>(rows: Row[], columns: Column<Row>[], sort: Sort | null): Row[] {
  const by = columns.find((column) => column.key === sort?.key)?.sort;
  if (by === undefined || sort === null) return rows;
  const keyed = rows.map((row) => ({ row, key: by(row) }));
  const known = keyed.filter(({ key }) => key !== null);
  const unknown = keyed.filter(({ key }) => key === null);
  known.sort((one, other) => (sort.descending ? -1 : 1) * compare(one.key, other.key));
  return [...known, ...unknown].map(({ row }) => row);
}

export interface TableState {
  text: string;
  sort: Sort | null;
  offset: number;
}

/** The state of a table, in the address of the view if it is the view's main one. */
export function useTableState(
  inAddress: boolean,
  initial: Sort | null,
): [TableState, (changes: Partial<TableState>) => void] {
  const [parameters, setParameters] = useParameters();
  const [own, setOwn] = useState<TableState>({ text: "", sort: initial, offset: 0 });
  if (!inAddress) return [own, (changes) => setOwn((old) => ({ ...old, ...changes }))];
  const order = parameters.get("sort");
  const state = {
    text: parameters.get("q") ?? "",
    sort: order === null ? initial : { key: order.replace(/^-/, ""), descending: order[0] === "-" },
    offset: Math.max(0, Number.parseInt(parameters.get("from") ?? "0", 10) || 0),
  };
  const change = ({ text, sort, offset }: Partial<TableState>) =>
    setParameters(
      {
        ...(text === undefined ? {} : { q: text || null }),
        ...(sort == null ? {} : { sort: `${sort.descending ? "-" : ""}${sort.key}` }),
        ...(offset === undefined ? {} : { from: offset > 0 ? String(offset) : null }),
      },
      text !== undefined,
    );
  return [state, change];
}

/** A table of rows that this page has all of. */
export function LocalTable<Row>({
  label,
  columns,
  rows,
  rowKey,
  filter,
  filterLabel,
  initial = null,
  inAddress = false,
  size = PAGE,
  empty,
  cards = false,
  rowProps,
}: {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
  filter?: (row: Row) => string;
  filterLabel?: string;
  initial?: Sort | null;
  inAddress?: boolean;
  size?: number;
  empty: ComponentChildren;
  /** As of `Table`. */
  cards?: boolean;
  rowProps?: (row: Row) => Record<string, unknown>;
}) {
  const [{ text, sort, offset }, change] = useTableState(inAddress, initial);
  const matching = useMemo(() => {
    const wanted = text.trim().toLowerCase();
    if (wanted === "" || filter === undefined) return rows;
    return rows.filter((row) => filter(row).toLowerCase().includes(wanted));
  }, [rows, text]);
  const ordered = useMemo(
    () => sorted(matching, columns, sort),
    [matching, sort?.key, sort?.descending],
  );
  if (rows.length === 0) return <Empty>{empty}</Empty>;
  const at = offset < ordered.length ? offset : 0;
  return (
    <>
      {filter !== undefined && (
        <div class="table-tools">
          <Search
            label={filterLabel ?? "Filter"}
            value={text}
            onValue={(value) => change({ text: value, offset: 0 })}
          />
          <span class="muted" role="status">
            {text === ""
              ? count(rows.length, "row")
              : `${whole(ordered.length)} of ${count(rows.length, "row")}`}
          </span>
        </div>
      )}
      {ordered.length === 0 ? (
        <Empty>Nothing matches “{text}”. Delete a part of it to see more.</Empty>
      ) : (
        <Table
          label={label}
          columns={columns}
          rows={ordered.slice(at, at + size)}
          rowKey={rowKey}
          cards={cards}
          sort={sort}
          onSort={(key, numeric) => change({ sort: nextSort(sort, key, numeric), offset: 0 })}
          {...(rowProps === undefined ? {} : { rowProps })}
        />
      )}
      <Pager
        label={label}
        offset={at}
        total={ordered.length}
        size={size}
        onOffset={(value) => change({ offset: value })}
      />
      <Csv label={label} columns={columns} rows={() => ordered} />
    </>
  );
}
