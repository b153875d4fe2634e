// The way in: a link from the command line, or a token.
import { useEffect, useState } from "preact/hooks";
import { get } from "../api/client";
import { Command } from "../parts/basic";
import { logIn, logInWith, session } from "../state/session";

export function LoginPage() {
  const [token, setToken] = useState("");
  const [busy, setBusy] = useState(false);
  const [providers, setProviders] = useState<string[]>([]);
  const now = session.value;
  useEffect(() => {
    // Without an answer the other ways in are left.
    get<{ browser: string[] }>("/v1/auth")
      .then((found) => setProviders(found.browser))
      .catch(() => setProviders([]));
  }, []);
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
      {providers.map((name) => (
        <button key={name} type="button" class="main wide" onClick={() => void logInWith(name)}>
          Log in with {name}
        </button>
      ))}
      {providers.length ? <p class="or">or</p> : null}
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
