// The server's events, read by fetch rather than EventSource: it can send a token, and it sees the
// comments that the server sends while nothing happens, so a silent connection is noticed.

import { complaint, headers } from "./client";

export type Connection =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "source-lost"; reason: string; since: number }
  | { state: "server-lost"; since: number };

export interface Watcher {
  onConnection(connection: Connection): void;
  /** The source has changed; the revision is null where it is not known. */
  onChange(revision: number | null): void;
  /** The server asks for a token, and says why. */
  onRefused(reason: string): void;
}

const SILENCE = 40_000;
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 8_000;

interface ServerEvent {
  event: string;
  data: string;
}

/** Events of a text stream; a block ends with an empty line. */
export function* parseEvents(block: string): Generator<ServerEvent> {
  for (const part of block.split(/\r?\n\r?\n/)) {
    let event = "message";
    const data: string[] = [];
    for (const line of part.split(/\r?\n/)) {
      if (line.startsWith("event:")) event = line.slice(6).trim();
      else if (line.startsWith("data:")) data.push(line.slice(5).trim());
    }
    if (data.length > 0 || event !== "message") yield { event, data: data.join("\n") };
  }
}

function parsed(data: string): { reason?: unknown; revision?: unknown } {
  try {
    const value: unknown = JSON.parse(data);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return { reason: data };
  }
}

function reasonOf(data: string): string {
  const { reason } = parsed(data);
  return typeof reason === "string" ? reason : "";
}

function revisionOf(data: string): number | null {
  const { revision } = parsed(data);
  return typeof revision === "number" ? revision : null;
}

/** Follow the events, while the page can be seen, until the returned function is called. */
export function follow(watcher: Watcher): () => void {
  let turns = 0;
  let pause = FIRST_PAUSE;
  let lostSince: number | null = null;
  let abort = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;

  function hear({ event, data }: ServerEvent): void {
    if (event === "change") watcher.onChange(revisionOf(data));
    else if (event === "lost")
      watcher.onConnection({ state: "source-lost", reason: reasonOf(data), since: Date.now() });
    else if (event === "restored") {
      watcher.onConnection({ state: "live" });
      watcher.onChange(null);
    }
  }

  async function read(body: ReadableStream<Uint8Array>): Promise<void> {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const silence = setTimeout(() => abort.abort(), SILENCE);
      const { done, value } = await reader.read().finally(() => clearTimeout(silence));
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      const end = Math.max(rest.lastIndexOf("\n\n"), rest.lastIndexOf("\r\n\r\n"));
      if (end < 0) continue;
      const whole = rest.slice(0, end);
      rest = rest.slice(end).trimStart();
      for (const each of parseEvents(whole)) hear(each);
    }
  }

  async function once(): Promise<void> {
    abort = new AbortController();
    const answer = await fetch("api/v1/events", {
      headers: { ...headers(), Accept: "text/event-stream" },
      signal: abort.signal,
      cache: "no-store",
    });
    if (answer.status === 401) {
      watcher.onRefused(complaint(await answer.json().catch(() => null), answer.status));
      turns += 1; // it is of no use to ask again without a token
      return;
    }
    if (!answer.ok || answer.body === null) throw new Error(`status ${answer.status}`);
    pause = FIRST_PAUSE;
    watcher.onConnection({ state: "live" });
    if (lostSince !== null) watcher.onChange(null); // what happened meanwhile was not heard
    lostSince = null;
    await read(answer.body);
  }

  async function run(): Promise<void> {
    const turn = ++turns;
    try {
      await once();
    } catch {
      // The server is away or too busy; the note on the page stays until it answers.
    }
    if (turn !== turns) return; // stopped, hidden, or begun anew
    lostSince ??= Date.now();
    watcher.onConnection({ state: "server-lost", since: lostSince });
    timer = setTimeout(() => void run(), pause);
    pause = Math.min(2 * pause, LONGEST_PAUSE);
  }

  function end(): void {
    turns += 1;
    clearTimeout(timer);
    abort.abort();
  }

  // Browsers allow six connections to a server: a page that nobody looks at gives its own back.
  function look(): void {
    end();
    pause = FIRST_PAUSE;
    if (document.hidden) lostSince ??= Date.now();
    else void run();
  }

  document.addEventListener("visibilitychange", look);
  if (document.hidden) lostSince = Date.now();
  else void run();
  return () => {
    document.removeEventListener("visibilitychange", look);
    end();
  };
}
