// One connection for all tabs of a browser: the tab that holds the lock listens, and tells the others what changed.
// Pages ask again for what they show when it changed; without a connection they ask every few seconds all the same.
import { signal } from "@preact/signals";
import { session } from "./session";

/** Jobs that changed within the last moment; "*" when it is not known which. */
export type Changed = ReadonlySet<string>;

const NAME = "ares-live";
const GATHER_MS = 250;
const AGAIN_MS = 3000;
const listeners = new Set<(changed: Changed) => void>();
export const connected = signal(false);

export function onChange(listener: (changed: Changed) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(changed: Changed): void {
  for (const listener of listeners) listener(changed);
}

export function startLive(): void {
  const others = new BroadcastChannel(NAME);
  others.onmessage = (event: MessageEvent<{ jobs?: string[]; connected?: boolean }>) => {
    if (event.data.connected !== undefined) connected.value = event.data.connected;
    if (event.data.jobs) tell(new Set(event.data.jobs));
  };
  const say = (now: boolean) => {
    connected.value = now;
    others.postMessage({ connected: now });
  };
  const lead = () => new Promise<void>(() => listen(others, say));
  if (navigator.locks) void navigator.locks.request(NAME, lead);
  else void lead();
}

function listen(others: BroadcastChannel, say: (connected: boolean) => void): void {
  let gathered = new Set<string>();
  const pass = () => {
    if (gathered.size === 0) return;
    const jobs = gathered;
    gathered = new Set();
    others.postMessage({ jobs: [...jobs] });
    tell(jobs);
  };
  window.setInterval(pass, GATHER_MS);
  const open = () => {
    if (session.value.state !== "in") {
      window.setTimeout(open, AGAIN_MS);
      return;
    }
    const socket = new WebSocket(
      `${window.location.protocol === "https:" ? "wss" : "ws"}://${window.location.host}/v1/events`,
    );
    socket.onopen = () => {
      say(true);
      // What happened while there was no connection is not known.
      gathered.add("*");
    };
    socket.onmessage = (event: MessageEvent<string>) => {
      const told = JSON.parse(event.data) as { event?: { job: string } };
      if (told.event) gathered.add(told.event.job);
    };
    socket.onclose = () => {
      say(false);
      window.setTimeout(open, AGAIN_MS);
    };
  };
  open();
}
