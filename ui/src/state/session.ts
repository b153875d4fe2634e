// Who looks: known by the cookie, which only the server reads.
import { signal } from "@preact/signals";
import { acting, call, get, Problem } from "../api/client";
import type { WhoAmI } from "../api/types";
import { go, params, path } from "./route";

export type Session = { state: "asking" } | { state: "out"; why: string } | { state: "in"; who: WhoAmI };

export const session = signal<Session>({ state: "asking" });

export function may(permission: string): boolean {
  const now = session.value;
  return now.state === "in" && permission in now.who.permissions;
}

/** Begins: with the secret of a login link, if the address has one, or with the session that the browser has. */
export async function begin(): Promise<void> {
  const secret = /^#login=(\S+)$/.exec(window.location.hash)?.[1];
  if (secret) {
    // Gone from the address before anything else: it must not stay in the history.
    window.history.replaceState({}, "", window.location.pathname + window.location.search);
    await logIn(secret, "This link was used before, or is too old. Make a new one: `ares ui`.");
    return;
  }
  if (path.value[0] === "login" && (await comeBack())) return;
  await look("");
}

const BACK = "back";

/** Goes to the provider, and comes back to the page that was asked for. */
export async function logInWith(provider: string): Promise<void> {
  try {
    const begun = await call<{ url: string }>("POST", "/v1/auth/logins", { provider });
    window.sessionStorage.setItem(BACK, window.location.pathname + window.location.search);
    window.location.assign(begun.url);
  } catch (error) {
    session.value = { state: "out", why: told(error as Problem) };
  }
}

/** From the provider, with a code or a refusal in the address. False: with neither. */
async function comeBack(): Promise<boolean> {
  const given = params.value;
  const [code, state, refused] = [given.get("code"), given.get("state"), given.get("error")];
  const back = window.sessionStorage.getItem(BACK) ?? "";
  window.sessionStorage.removeItem(BACK);
  // A code must not stay in the history; a path of another place is no page of ours.
  go(/^\/ui(\/|$)/.test(back) ? back.slice("/ui".length) || "/" : "/", { replace: true, as: "is" });
  if (refused) {
    const why = given.get("error_description") ?? refused;
    session.value = { state: "out", why: `The provider did not let you in: ${why.slice(0, 300)}` };
    return true;
  }
  if (!code || !state) return false;
  try {
    await call("POST", "/v1/auth/sessions", { code, state });
  } catch (error) {
    session.value = { state: "out", why: told(error as Problem) };
    return true;
  }
  await look("The browser did not keep the session's cookie: allow cookies for this address.");
  return true;
}

const told = (problem: Problem) => `${problem.message} ${problem.fix ?? ""}`;

async function look(why: string): Promise<void> {
  try {
    session.value = { state: "in", who: await get<WhoAmI>("/v1/whoami") };
  } catch (error) {
    const told = error instanceof Problem && error.status !== 401 ? `${error.title}. ${error.fix}` : why;
    session.value = { state: "out", why: told };
  }
}

export async function logIn(secret: string, refused: string): Promise<void> {
  try {
    await call("POST", "/v1/me/browser-session", undefined, { headers: { authorization: `Bearer ${secret}` } });
  } catch (error) {
    const problem = error as Problem;
    session.value = { state: "out", why: problem.status === 401 ? refused : told(problem) };
    return;
  }
  await look("The browser did not keep the session's cookie: allow cookies for this address.");
}

export async function logOut(): Promise<void> {
  try {
    await call("DELETE", "/v1/me/browser-session");
  } finally {
    acting.tenant = "";
    session.value = { state: "out", why: "You are logged out." };
  }
}

/** A session that ended while a page was open. */
export function ended(): void {
  if (session.value.state === "in") session.value = { state: "out", why: "Your session has ended. Log in again." };
}
