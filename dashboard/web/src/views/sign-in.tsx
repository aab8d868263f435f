// Where the server shows a viewer only what their own rights allow, it asks for their token.

import { useState } from "preact/hooks";
import { Heading, Notice } from "../components/basics";

export function SignIn({
  reason,
  onToken,
}: {
  reason: string;
  onToken: (token: string) => void;
}) {
  const [value, setValue] = useState("");
  return (
    <main id="main" class="sign-in">
      <div class="card">
        <Heading title="Sign in">Sign in</Heading>
        {reason !== "" && (
          <Notice kind="warn">
            <p>
              <bdi>{reason}</bdi>
            </p>
          </Notice>
        )}
        <p>
          This dashboard shows what your own rights in the cluster allow. Paste a token of yours;
          this tab keeps it until it is closed, and sends it to this server only.
        </p>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (value.trim() !== "") onToken(value.trim());
          }}
        >
          <label for="token">Token</label>
          <input
            id="token"
            type="password"
            autocomplete="off"
            spellcheck={false}
            value={value}
            onInput={(event) => setValue(event.currentTarget.value)}
          />
          <button type="submit" class="button button-main">
            Sign in
          </button>
        </form>
        <p class="muted">
          A token of a ServiceAccount: <code>kubectl create token NAME -n NAMESPACE</code>
        </p>
      </div>
    </main>
  );
}
