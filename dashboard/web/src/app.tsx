// The frame of every view: navigation, the state of the connection, and what the source warns of.

import type { ComponentChildren } from "preact";
import {
  useCallback,
  useEffect,
  useErrorBoundary,
  useMemo,
  useRef,
  useState,
} from "preact/hooks";
import { setToken, token } from "./api/client";
import type { Connection } from "./api/events";
import { follow } from "./api/events";
import type { Live } from "./api/live";
import { LiveContext, useAnswer } from "./api/live";
import type { Overview } from "./api/types";
import { Failure, Loading, Name, Notice } from "./components/basics";
import { clock, moment } from "./format";
import type { Route } from "./router";
import { link, useRoute } from "./router";
import { ThemeContext, ThemeSwitch, useTheme } from "./theme";
import { Cluster } from "./views/cluster";
import { Job } from "./views/job";
import { Jobs } from "./views/jobs";
import { Node } from "./views/node";
import { Nodes } from "./views/nodes";
import { NotFound } from "./views/not-found";
import { SignIn } from "./views/sign-in";
import { Time } from "./views/time";
import { UserView } from "./views/user";
import { Users } from "./views/users";
import { WhatIfView } from "./views/what-if";
import { WithoutWalrasView } from "./views/without-walras";

/** Changes that come faster than this are shown together. */
const TOGETHER = 400;

export function App() {
  const [theme, choice, choose] = useTheme();
  const [tick, setTick] = useState(0);
  const [connection, setConnection] = useState<Connection>({ state: "connecting" });
  const [signIn, setSignIn] = useState<string | null>(null);
  const [session, setSession] = useState(0);
  const shown = useRef<number | null>(null);
  const pending = useRef<ReturnType<typeof setTimeout> | null>(null);

  const signedOut = useCallback((reason: string) => {
    setToken(null);
    setSignIn(reason);
  }, []);

  useEffect(() => {
    if (signIn !== null) return undefined;
    const stop = follow({
      onConnection: setConnection,
      onRefused: signedOut,
      onChange: (revision) => {
        if (revision !== null && revision === shown.current) return;
        pending.current ??= setTimeout(() => {
          pending.current = null;
          setTick((old) => old + 1);
        }, TOGETHER);
      },
    });
    return () => {
      stop();
      if (pending.current !== null) clearTimeout(pending.current);
      pending.current = null;
    };
  }, [session, signIn]);

  return (
    <ThemeContext.Provider value={theme}>
      {signIn !== null ? (
        <SignIn
          reason={signIn}
          onToken={(value) => {
            setToken(value);
            setSignIn(null);
            setSession((old) => old + 1);
          }}
        />
      ) : (
        <Facts tick={tick} connection={connection} signedOut={signedOut} shown={shown}>
          <ThemeSwitch choice={choice} onChoice={choose} />
          {token() !== null && (
            <button type="button" class="button button-small" onClick={() => signedOut("")}>
              Sign out
            </button>
          )}
        </Facts>
      )}
    </ThemeContext.Provider>
  );
}

interface Shown {
  /** Revision of the figures on the page. */
  shown: { current: number | null };
}

/** Ask for the overview, which every view needs, and pass it on. */
function Facts({
  tick,
  connection,
  signedOut,
  shown,
  children,
}: Omit<Live, "overview"> & Shown & { children: ComponentChildren }) {
  const without = useMemo(
    () => ({ tick, connection, signedOut, overview: null }),
    [tick, connection, signedOut],
  );
  return (
    <LiveContext.Provider value={without}>
      <Frame live={without} shown={shown}>
        {children}
      </Frame>
    </LiveContext.Provider>
  );
}

/** "/" goes to the view's field for searching. */
function useSearchKey(): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const { target } = event;
      if (event.key !== "/" || event.ctrlKey || event.altKey || event.metaKey) return;
      if (target instanceof Element && target.closest("input, textarea, select") !== null) return;
      const field = document.querySelector<HTMLInputElement>("main input[type=search]");
      if (field === null) return;
      event.preventDefault();
      field.focus();
      field.select();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

function Frame({ live, shown, children }: { live: Live; children: ComponentChildren } & Shown) {
  useSearchKey();
  const route = useRoute();
  const answer = useAnswer<Overview>("overview");
  const { data: overview, error } = answer;
  shown.current = overview?.revision ?? null;
  const full = useMemo(() => ({ ...live, overview }), [live, overview]);
  return (
    <LiveContext.Provider value={full}>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <div class="frame">
        <header class="top">
          <a class="brand" href={link("cluster")}>
            <img src="icon.svg" alt="" width="24" height="24" />
            Walras
          </a>
          {overview !== null && <SourceName overview={overview} />}
          <div class="top-right">
            <Status connection={live.connection} overview={overview} />
            {children}
          </div>
        </header>
        <Navigation route={route} views={overview?.withoutWalras == null ? VIEWS : WITHOUT} />
        <main id="main" tabIndex={-1} data-route={route.hash}>
          <div class="messages" role="status" aria-live="polite">
            <Lost connection={live.connection} overview={overview} />
          </div>
          {overview?.warnings.map((each) => (
            <Notice kind="warn" key={each}>
              <p>
                <bdi>{each}</bdi>
              </p>
            </Notice>
          ))}
          {error !== null && overview === null && <Failure error={error} />}
          {overview !== null ? (
            <Guard key={[route.view, ...route.names].join("/")}>
              <View route={route} overview={overview} />
            </Guard>
          ) : (
            error === null && <Loading />
          )}
          {overview !== null && overview.notes.length > 0 && (
            <section class="notes" aria-labelledby="notes">
              <h2 id="notes">What these figures leave out</h2>
              <ul>
                {overview.notes.map((each) => (
                  <li key={each}>
                    <bdi>{each}</bdi>
                  </li>
                ))}
              </ul>
            </section>
          )}
        </main>
      </div>
    </LiveContext.Provider>
  );
}

/** A view that fails says so, and leaves the others usable. */
function Guard({ children }: { children: ComponentChildren }) {
  const [error] = useErrorBoundary((problem) => console.error(problem));
  if (error === undefined) return <>{children}</>;
  return (
    <Notice kind="bad">
      <p>
        This view cannot be shown: <bdi>{String(error)}</bdi>. Reload the page; if that does not
        help, the page and the server may be of different versions.
      </p>
    </Notice>
  );
}

function skip(event: Event): void {
  event.preventDefault(); // the part of the address after "#" names the view
  document.getElementById("main")?.focus();
}

function View({ route, overview }: { route: Route; overview: Overview }) {
  if (overview.withoutWalras !== null)
    return <WithoutWalrasView found={overview.withoutWalras} />;
  const [first, second] = route.names;
  switch (route.view) {
    case "cluster":
      return <Cluster overview={overview} />;
    case "nodes":
      return first === undefined ? (
        <Nodes overview={overview} />
      ) : (
        <Node key={first} name={first} unit={overview.coreUnit} />
      );
    case "jobs":
      if (first === undefined) return <Jobs parameters={route.parameters} overview={overview} />;
      return second === undefined ? (
        <NotFound />
      ) : (
        <Job key={`${first}/${second}`} namespace={first} name={second} />
      );
    case "users":
      return first === undefined ? (
        <Users overview={overview} />
      ) : (
        <UserView key={first} name={first} />
      );
    case "time":
      return <Time />;
    case "what-if":
      return <WhatIfView overview={overview} />;
    default:
      return <NotFound />;
  }
}

const VIEWS: [string, string][] = [
  ["cluster", "Cluster"],
  ["nodes", "Nodes"],
  ["jobs", "Jobs"],
  ["users", "Users"],
  ["time", "Time"],
  ["what-if", "What if"],
];

/** Without a market, nobody has anything that the other views could show. */
const WITHOUT = VIEWS.slice(0, 1);

function Navigation({ route, views }: { route: Route; views: typeof VIEWS }) {
  return (
    <nav class="views" aria-label="Views">
      <ul>
        {views.map(([view, title]) => (
          <li key={view}>
            <a href={link(view)} aria-current={route.view === view ? "page" : undefined}>
              {title}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

const KINDS = { cluster: "Cluster", file: "File", local: "Local run" } as const;

function SourceName({ overview }: { overview: Overview }) {
  const { namespace, source } = overview;
  const { kind, name } = source;
  return (
    <p class="source">
      <span class="muted">{KINDS[kind]}</span> <Name of={name} />
      {namespace !== "" && (
        <>
          {" "}
          <span class="muted source-space">
            namespace <bdi>{namespace}</bdi>
          </span>
        </>
      )}
    </p>
  );
}

function Status({
  connection,
  overview,
}: {
  connection: Connection;
  overview: Overview | null;
}) {
  const [kind, word] = describe(connection, overview);
  return (
    <p class={`live live-${kind}`}>
      <span class="state-mark" aria-hidden="true" />
      {word}
      {overview !== null && (
        <time class="live-time" dateTime={overview.time} title="Time of these figures">
          {clock(Date.parse(overview.time))}
        </time>
      )}
    </p>
  );
}

function describe(connection: Connection, overview: Overview | null): [string, string] {
  switch (connection.state) {
    case "connecting":
      return ["warn", "Connecting"];
    case "server-lost":
    case "source-lost":
      return ["bad", "Not connected"];
    case "live":
      return overview !== null && !overview.source.live ? ["still", "As read"] : ["good", "Live"];
  }
}

function Lost({ connection, overview }: { connection: Connection; overview: Overview | null }) {
  if (connection.state !== "server-lost" && connection.state !== "source-lost") return null;
  const shown =
    overview === null ? "" : ` The figures below are those of ${moment(overview.time)}.`;
  return (
    <Notice kind="bad">
      <p>
        <strong>
          {connection.state === "server-lost"
            ? "The connection to the dashboard's server is lost"
            : "The dashboard has lost the cluster"}
          , since {clock(connection.since)}.
        </strong>
        {connection.state === "source-lost" && (
          <>
            {" "}
            <bdi>{connection.reason}</bdi>
          </>
        )}
        {shown} This page tries again by itself
        {connection.state === "server-lost" &&
          "; if it does not succeed, see whether walras dashboard still runs"}
        .
      </p>
    </Notice>
  );
}
