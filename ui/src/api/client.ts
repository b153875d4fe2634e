// One way to ask the server. The session is in a cookie that no script reads; the header says that our page asks.

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly title: string,
    readonly detail: string,
    readonly fix: string,
  ) {
    super(detail || title);
  }
}

/** The tenant that a caller with a wide role looks into; empty: its own. */
export const acting = { tenant: "" };

export async function call<T>(method: string, path: string, body?: unknown, options: CallOptions = {}): Promise<T> {
  const headers: Record<string, string> = { "x-ares-session": "1", ...options.headers };
  if (acting.tenant) headers["x-ares-tenant"] = acting.tenant;
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer: Response;
  try {
    answer = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: options.signal,
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "unreachable", "The server does not answer", "", "Look whether it runs: `ares doctor`.");
  }
  if (!answer.ok) throw await problemOf(answer);
  if (answer.status === 204) return undefined as T;
  return (options.text ? await answer.text() : await answer.json()) as T;
}

export interface CallOptions {
  signal?: AbortSignal;
  headers?: Record<string, string>;
  text?: boolean;
}

export const get = <T>(path: string, signal?: AbortSignal) => call<T>("GET", path, undefined, { signal });
export const getText = (path: string, signal?: AbortSignal) =>
  call<string>("GET", path, undefined, { signal, text: true });

async function problemOf(answer: Response): Promise<Problem> {
  try {
    const told = (await answer.json()) as Record<string, string>;
    return new Problem(answer.status, told.code ?? "", told.title ?? "", told.detail ?? "", told.fix ?? "");
  } catch {
    return new Problem(answer.status, "", `The server answered ${answer.status}`, "", "Try again.");
  }
}

/** A query string of what is set. Lists become repeated keys. */
export function query(values: Record<string, string | number | boolean | readonly string[] | undefined>): string {
  const found = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    if (value === undefined || value === "") continue;
    for (const item of Array.isArray(value) ? value : [value]) found.append(key, String(item));
  }
  const text = found.toString();
  return text ? `?${text}` : "";
}
