// A table as a file for spreadsheets (RFC 4180): what its rows are sorted by, with all digits.

import type { Column } from "./table";

type Value = string | number | null;

/** Spreadsheets run a text that begins like this as a formula, and names may hold anything. */
const FORMULA = /^[=+\-@\t\r]/;

function field(value: Value): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Columns whose values are not known as such, like bars, are left out. */
export function csv<Row>(columns: Column<Row>[], rows: Row[]): string {
  const known = columns.flatMap(({ title, group, sort, value = sort }) =>
    value === undefined ? [] : [{ title: group === undefined ? title : `${group}: ${title}`, value }],
  );
  const lines = [known.map(({ title }) => title), ...rows.map((row) => known.map(({ value }) => value(row)))];
  return lines.map((line) => `${line.map(field).join(",")}\r\n`).join("");
}

export function save(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `${name.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.csv`;
  link.click();
  URL.revokeObjectURL(url);
}
