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
