// Everything that views read from the server: fetched again at each change, old values kept
// meanwhile, so that nothing flickers; answers of an older question are dropped.

import { createContext } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";
import type { ApiError } from "./client";
import { get } from "./client";
import type { Connection } from "./events";
import type { Overview } from "./types";

export interface Live {
  /** Grows with each change of the source that this page has heard of. */
  tick: number;
  connection: Connection;
  overview: Overview | null;
  signedOut: (reason: string) => void;
}

export const LiveContext = createContext<Live>({
  tick: 0,
  connection: { state: "connecting" },
  overview: null,
  signedOut: () => undefined,
});

export interface Answer<T> {
  data: T | null;
  error: ApiError | null;
  loading: boolean;
}

/** The answer to a request; null as path asks nothing. */
export function useAnswer<T>(path: string | null, refreshSeconds = 0): Answer<T> {
  const { tick, signedOut } = useContext(LiveContext);
  const [answer, setAnswer] = useState<Answer<T>>({ data: null, error: null, loading: true });
  const asked = useRef<string | null>(null);
  const [beat, setBeat] = useState(0);

  useEffect(() => {
    if (refreshSeconds <= 0) return undefined;
    const timer = setInterval(() => setBeat((old) => old + 1), 1000 * refreshSeconds);
    return () => clearInterval(timer);
  }, [refreshSeconds]);

  useEffect(() => {
    if (path === null) {
      setAnswer({ data: null, error: null, loading: false });
      return undefined;
    }
    const abort = new AbortController();
    if (subjectOf(asked.current) !== subjectOf(path))
      setAnswer({ data: null, error: null, loading: true });
    else setAnswer((old) => ({ ...old, loading: true }));
    asked.current = path;
    get<T>(path, abort.signal).then(
      (data) => setAnswer({ data, error: null, loading: false }),
      (error: ApiError) => {
        if (abort.signal.aborted) return;
        if (error.status === 401) signedOut(error.message);
        setAnswer((old) => ({
          data: error.status === 0 || error.status >= 500 ? old.data : null,
          error,
          loading: false,
        }));
      },
    );
    return () => abort.abort();
  }, [path, tick, beat]);

  return answer;
}

/** A request without its parameters: other parameters are another look at the same thing. */
function subjectOf(path: string | null): string | null {
  return path?.split("?")[0] ?? null;
}
