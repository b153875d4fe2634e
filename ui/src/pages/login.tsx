// The way in: a link from the command line, or a token.
import { useState } from "preact/hooks";
import { Command } from "../parts/basic";
import { logIn, session } from "../state/session";

export function LoginPage() {
  const [token, setToken] = useState("");
  const [busy, setBusy] = useState(false);
  const now = session.value;
  const enter = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    await logIn(token.trim(), "This token is not accepted: it is wrong, has expired or was revoked.");
    setToken("");
    setBusy(false);
  };
  return (
    <main class="login">
      <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
        <path d="M16 3l3.2 9.8L29 16l-9.8 3.2L16 29l-3.2-9.8L3 16l9.8-3.2z" />
      </svg>
      <h1>Ares</h1>
      {now.state === "out" && now.why ? (
        <p class="stale" role="alert">
          {now.why}
        </p>
      ) : null}
      <p>Where you use the command line, get a link that logs you in:</p>
      <Command text="ares ui" />
      <p class="or">or paste an API token</p>
      <form onSubmit={enter}>
        <label for="token">API token</label>
        <input
          id="token"
          type="password"
          autoComplete="off"
          spellcheck={false}
          required
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <button type="submit" class="main" disabled={busy || !token.trim()}>
          {busy ? "Logging in …" : "Log in"}
        </button>
      </form>
      <p class="dim small">
        The token is traded for a session and not kept. The session ends with it, or after 12 hours.
      </p>
    </main>
  );
}
