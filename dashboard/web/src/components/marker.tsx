import type { Mark } from "./topology";

/** The sign of an owner: the same letters and colour as on its CPUs. */
export function OwnerMark({ mark }: { mark: Mark | undefined }) {
  if (mark === undefined) return <span class="muted">–</span>;
  return <span class={`owner-mark fill-${mark.colour}`}>{mark.letters}</span>;
}
