// Small parts that every view is made of.

import type { ComponentChildren } from "preact";
import { useContext, useEffect, useId, useRef } from "preact/hooks";
import type { ApiError } from "../api/client";
import { LiveContext } from "../api/live";
import type { Fault } from "../api/types";

/** A name from the cluster: may hold anything, run right to left, or be 253 characters long. */
export function Name({ of, href }: { of: string; href?: string }) {
  const letters = [...of];
  const cut = letters.length - END;
  const isLong = letters.length > LONG;
  const text = isLong ? (
    <>
      <span class="name-start">{letters.slice(0, cut).join("")}</span>
      <span class="name-end">{letters.slice(cut).join("")}</span>
    </>
  ) : (
    <bdi>{of}</bdi>
  );
  const shared = { class: isLong ? "name name-long" : "name", title: of, dir: "auto" } as const;
  return href === undefined ? (
    <span {...shared}>{text}</span>
  ) : (
    <a {...shared} href={href}>
      {text}
    </a>
  );
}
/** Names that are too long for their place lose their middle, since many differ only at their end. */
const LONG = 24;
const END = 8;

/** The heading of a view; it takes the focus when the reader comes from another view. */
export function Heading({
  children,
  title,
  above,
  below,
}: {
  children: ComponentChildren;
  title: string;
  above?: ComponentChildren;
  below?: ComponentChildren;
}) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} – Walras`;
    if (moved) heading.current?.focus({ preventScroll: true });
    if (moved) scrollTo(0, 0);
    moved = true;
  }, [title]);
  return (
    <header class="heading">
      {above !== undefined && <p class="heading-above">{above}</p>}
      <h1 tabIndex={-1} ref={heading}>
        {children}
      </h1>
      {below !== undefined && <div class="heading-below">{below}</div>}
    </header>
  );
}
let moved = false;

export function Card({
  title,
  about,
  actions,
  children,
  wide = false,
}: {
  title: string;
  about?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
  wide?: boolean;
}) {
  const id = useId();
  return (
    <section class={wide ? "card card-wide" : "card"} aria-labelledby={id}>
      <div class="card-head">
        <div>
          <h2 id={id}>{title}</h2>
          {about !== undefined && <p class="card-about">{about}</p>}
        </div>
        {actions}
      </div>
      {children}
    </section>
  );
}

export interface Fact {
  label: string;
  value: ComponentChildren;
  about?: ComponentChildren;
}

/** The figures that a view begins with. */
export function Facts({ facts }: { facts: Fact[] }) {
  return (
    <dl class="facts">
      {facts.map(({ label, value, about }) => (
        <div class="fact" key={label}>
          <dt>{label}</dt>
          <dd class="fact-value">{value}</dd>
          {about !== undefined && <dd class="fact-about">{about}</dd>}
        </div>
      ))}
    </dl>
  );
}

const GOOD = new Set(["Ready", "Divided", "Enforced", "Granted", "Running", "Valid", "Measured"]);
const BAD = new Set(["Failed", "Refused", "Invalid", "NotFound", "Conflict", "Missing"]);

/** The state of an object, as a word; the mark before it differs in shape, too. */
export function State({ of, title }: { of: string; title?: string }) {
  const { overview } = useContext(LiveContext);
  if (of === "" || of === "-") return <span class="muted">–</span>;
  // No agent will ever report on a file.
  const still = of === "Awaited" && overview?.source.live === false;
  const kind = still ? "still" : GOOD.has(of) ? "good" : BAD.has(of) ? "bad" : "warn";
  return (
    <span class={`state state-${kind}`} title={title || undefined}>
      <span class="state-mark" aria-hidden="true" />
      <bdi>{of}</bdi>
    </span>
  );
}

export type NoticeKind = "info" | "good" | "warn" | "bad";

export function Notice({ kind, children }: { kind: NoticeKind; children: ComponentChildren }) {
  return (
    <div class={`notice notice-${kind}`}>
      <span class="notice-mark" aria-hidden="true">
        {{ info: "i", good: "✓", warn: "!", bad: "×" }[kind]}
      </span>
      <div class="notice-text">{children}</div>
    </div>
  );
}

/** Why something cannot be shown, with the way out that the server named. */
export function Failure({ error }: { error: ApiError }) {
  return (
    <Notice kind={error.status === 404 ? "warn" : "bad"}>
      <p>
        <bdi>{error.message}</bdi>
      </p>
    </Notice>
  );
}

export function Loading() {
  return (
    <div class="loading">
      <span class="loading-bar" aria-hidden="true" />
      <span class="muted">Loading</span>
    </div>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

export function Sentences({ of, ordered = false }: { of: string[]; ordered?: boolean }) {
  const items = of.map((each, index) => (
    <li key={index}>
      <bdi>{each}</bdi>
    </li>
  ));
  return ordered ? <ol class="sentences">{items}</ol> : <ul class="sentences">{items}</ul>;
}

/** A message, unless the problems below have it. */
export function unlessTold(message: string, faults: Fault[]): string {
  return faults.some((each) => each.message === message) ? "" : message;
}

export function Faults({ of }: { of: Fault[] }) {
  if (of.length === 0) return null;
  return (
    <Card title="Problems" wide>
      <ul class="faults">
        {of.map((each, index) => (
          <li key={index}>
            <p>
              <strong>
                <bdi>{each.object}</bdi>
              </strong>{" "}
              <span class="muted">
                {each.condition}: {each.reason}
              </span>
            </p>
            <p>
              <bdi>{each.message}</bdi>
            </p>
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** A part of a whole as a bar; a mark shows what one is entitled to. The number stands beside it. */
export function Bar({ part, mark }: { part: number; mark?: number | null }) {
  const width = (value: number) => ({ width: `${100 * Math.min(1, Math.max(0, value))}%` });
  return (
    <span class="bar" aria-hidden="true">
      <span class="bar-part" style={width(part)} />
      {mark != null && (
        <span class="bar-mark" style={{ left: `${100 * Math.min(1, Math.max(0, mark))}%` }} />
      )}
    </span>
  );
}

export function Disclosure({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <details class="disclosure">
      <summary>{title}</summary>
      {children}
    </details>
  );
}

/** What an answer leaves out, and the whole cluster's figures below do not say. */
export function Notes({ of }: { of: string[] }) {
  const known = useContext(LiveContext).overview?.notes ?? [];
  const own = of.filter((each) => !known.includes(each));
  return own.length === 0 ? null : (
    <Notice kind="info">
      <Sentences of={own} />
    </Notice>
  );
}
