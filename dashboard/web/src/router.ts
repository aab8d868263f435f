// The address after "#" names the view; each part is encoded, since names may hold anything.

import { useEffect, useState } from "preact/hooks";

export interface Route {
  /** The part of the address that this is. */
  hash: string;
  view: string;
  names: string[];
  parameters: URLSearchParams;
}

export function parseRoute(hash: string): Route {
  const [path = "", parameters = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [view = "", ...names] = path.split("/").filter((part) => part !== "").map(decoded);
  return { hash, view: view || "cluster", names, parameters: new URLSearchParams(parameters) };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function link(view: string, ...names: string[]): string {
  return `#/${[view, ...names].map(encodeURIComponent).join("/")}`;
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const change = () => setRoute(parseRoute(location.hash));
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return route;
}

/** Null removes a parameter from the address. */
export type ParameterChanges = Record<string, string | null>;

/**
 * What of a view's state is in its address, so that a link shows the same and "back" undoes a step.
 * What is typed replaces the address instead of adding one for each letter.
 */
export function useParameters(): [
  URLSearchParams,
  (changes: ParameterChanges, replace?: boolean) => void,
] {
  return [useRoute().parameters, change];
}

function change(changes: ParameterChanges, replace = false): void {
  const [path = "", before = ""] = location.hash.split("?", 2);
  const parameters = new URLSearchParams(before);
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) parameters.delete(key);
    else parameters.set(key, value);
  }
  const after = `${path || "#/cluster"}${parameters.size > 0 ? `?${parameters}` : ""}`;
  if (after === location.hash) return;
  if (replace) {
    history.replaceState(null, "", after);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = after;
}
