import { Heading } from "../components/basics";
import { link } from "../router";

export function NotFound() {
  return (
    <>
      <Heading title="No such view">There is no such view</Heading>
      <p>The address names none of the views above.</p>
      <p>
        <a class="button" href={link("cluster")}>
          Go to the cluster
        </a>
      </p>
    </>
  );
}
