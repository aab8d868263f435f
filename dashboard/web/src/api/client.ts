// Requests to the server that this page came from. A token is kept for this tab only.

const KEY = "walras-token";

/** A request that failed: `message` is one line for people, `status` 0 if no server answered. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

export function token(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export function setToken(value: string | null): void {
  try {
    if (value === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, value);
  } catch {
    // Without storage, nobody can sign in; the server says so again at the next request.
  }
}

export function headers(): Record<string, string> {
  const known = token();
  return known === null ? {} : { Authorization: `Bearer ${known}` };
}

export function complaint(body: unknown, status: number): string {
  if (typeof body === "object" && body !== null) {
    if ("error" in body && typeof body.error === "string") return body.error;
    if ("detail" in body && typeof body.detail === "string") return body.detail;
    if ("detail" in body && Array.isArray(body.detail)) {
      const lines = body.detail.map((each: { loc?: unknown[]; msg?: string }) =>
        [each.loc?.filter((part) => part !== "body").join("."), each.msg]
          .filter(Boolean)
          .join(": "),
      );
      if (lines.length > 0) return lines.join("; ");
    }
  }
  return `the server answered with status ${status}`;
}

async function ask<T>(path: string, options: RequestInit): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(`api/v1/${path}`, { ...options, cache: "no-store" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError("The dashboard's server does not answer. It is asked again.", 0);
  }
  const body: unknown = await answer.json().catch(() => null);
  if (!answer.ok) throw new ApiError(complaint(body, answer.status), answer.status);
  if (body === null) throw new ApiError("the server's answer is not JSON", answer.status);
  return body as T;
}

export function get<T>(path: string, signal: AbortSignal): Promise<T> {
  return ask<T>(path, { signal, headers: headers() });
}

export function post<T>(path: string, body: unknown, signal: AbortSignal): Promise<T> {
  return ask<T>(path, {
    method: "POST",
    signal,
    headers: { ...headers(), "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

/** Path segments of names, which may hold anything. */
export function path(...names: string[]): string {
  return names.map(encodeURIComponent).join("/");
}

export function query(values: Record<string, string | number | null | undefined>): string {
  const chosen = Object.entries(values).filter(([, value]) => value != null && value !== "");
  return chosen.length === 0
    ? ""
    : `?${new URLSearchParams(chosen.map(([name, value]) => [name, String(value)]))}`;
}
