// Numbers and times as text. What is unknown is a dash, never a zero.

import type { Maybe } from "./api/types";

export const UNKNOWN = "–";

const grouped = (digits: number) =>
  new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const FORMATS = [0, 1, 2, 3].map(grouped);

function fixed(value: number, digits: number): string {
  const text = (FORMATS[digits] ?? grouped(digits)).format(value);
  return text.replaceAll(",", "\u202f").replace(/^-(?=[0.\u202f]*$)/, "").replace("-", "\u2212");
}

export function whole(value: Maybe | undefined): string {
  return value == null ? UNKNOWN : fixed(value, 0);
}

/** Cores: whole ones without decimals, parts with two. */
export function cores(value: Maybe | undefined): string {
  if (value == null) return UNKNOWN;
  return fixed(value, Math.abs(value - Math.round(value)) < 5e-3 ? 0 : 2);
}

/** Cores in a column, where all have two decimals. */
export function exactCores(value: Maybe | undefined): string {
  return value == null ? UNKNOWN : fixed(value, 2);
}

/** Cores that are used of those that are held and, if there are any, beyond: 2.00 + 0.50. */
export function usedCores(value: Maybe | undefined, beyond: Maybe | undefined): string {
  if (value == null || beyond == null || beyond < 0.005) {
    return exactCores(value);
  }
  return `${exactCores(value - beyond)} + ${exactCores(beyond)}`;
}

export function price(value: Maybe | undefined): string {
  return value == null ? UNKNOWN : fixed(value, 3);
}

export function speedup(value: Maybe | undefined): string {
  return value == null ? UNKNOWN : `${fixed(value, 2)}×`;
}

export function utility(value: Maybe | undefined): string {
  return value == null ? UNKNOWN : fixed(value, 3);
}

export function fraction(value: Maybe | undefined): string {
  return value == null ? UNKNOWN : fixed(value, 3);
}

export function percent(value: Maybe | undefined, digits = 1): string {
  return value == null ? UNKNOWN : `${fixed(100 * value, digits)}\u202f%`;
}

function sign(text: string, value: number): string {
  return value > 0 && !/^[0.]*[^1-9]*$/.test(text) ? `+${text}` : text;
}

export function signedPercent(value: Maybe | undefined): string {
  return value == null ? UNKNOWN : sign(percent(value), value);
}

export function signed(value: Maybe | undefined, digits = 2): string {
  return value == null ? UNKNOWN : sign(fixed(value, digits), value);
}

export function credits(value: Maybe | undefined): string {
  return signed(value, 1);
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value: Maybe | undefined): string {
  if (value == null) return UNKNOWN;
  let rest = value;
  let unit = 0;
  while (Math.abs(rest) >= 1024 && unit < UNITS.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  const digits = Number.isInteger(rest) || Math.abs(rest) >= 100 ? 0 : 1;
  return `${fixed(rest, digits)}\u202f${UNITS[unit]}`;
}

export function count(value: number, one: string, many = `${one}s`): string {
  return `${whole(value)}\u00a0${value === 1 ? one : many}`;
}

const CLOCK = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});
const MOMENT = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});

export function clock(time: number): string {
  return CLOCK.format(new Date(time));
}

export function moment(time: string | number): string {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? String(time) : MOMENT.format(date);
}

/** A value of a series of the history, by its unit. */
export function inUnit(value: Maybe | undefined, unit: string): string {
  switch (unit) {
    case "bytes":
      return bytes(value);
    case "GiB":
      return value == null ? UNKNOWN : bytes(value * 2 ** 30);
    case "price":
      return price(value);
    case "credits":
      return value == null ? UNKNOWN : fixed(value, 1);
    default:
      return exactCores(value);
  }
}
