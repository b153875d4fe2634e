// Who looks: known by the cookie, which only the server reads.
import { signal } from "@preact/signals";
import { acting, call, get, Problem } from "../api/client";
import type { WhoAmI } from "../api/types";

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
  await look("");
}

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
    session.value = { state: "out", why: problem.status === 401 ? refused : `${problem.message} ${problem.fix ?? ""}` };
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
