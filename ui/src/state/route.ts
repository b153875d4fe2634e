// The address is the state: the page, and what it is filtered by. Back and forward, and a shared link, just work.
import { computed, signal } from "@preact/signals";

const BASE = "/ui";
const location_ = signal(window.location.pathname + window.location.search);

window.addEventListener("popstate", () => {
  location_.value = window.location.pathname + window.location.search;
});

/** The parts of the page's path: ["jobs", "abc", "logs"]. */
export const path = computed(() =>
  (location_.value.split("?")[0] ?? "").slice(BASE.length).split("/").filter(Boolean).map(decodeURIComponent),
);
export const params = computed(() => new URLSearchParams(location_.value.split("?")[1] ?? ""));

/** The address of a page. A tenant that is looked into goes along. */
export function href(to: string): string {
  const tenant = params.value.get("tenant");
  if (!tenant || /[?&]tenant=/.test(to)) return BASE + to;
  return `${BASE}${to}${to.includes("?") ? "&" : "?"}tenant=${encodeURIComponent(tenant)}`;
}

export function go(to: string, options: { replace?: boolean; as?: "is" } = {}): void {
  const full = options.as === "is" ? BASE + to : href(to);
  if (full === location_.value) return;
  window.history[options.replace ? "replaceState" : "pushState"]({}, "", full);
  location_.value = full;
}

/** Sets parameters of the page that is shown; an empty value takes one away. */
export function setParams(values: Record<string, string>, options: { replace?: boolean } = { replace: true }): void {
  const next = new URLSearchParams(params.value);
  for (const [key, value] of Object.entries(values)) {
    if (value) next.set(key, value);
    else next.delete(key);
  }
  const text = next.toString().replaceAll("%2C", ",");
  go(`/${path.value.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`, { ...options, as: "is" });
}

/** Plain clicks on links of ours change the page in place; all others are the browser's. */
export function followLinks(root: HTMLElement): void {
  root.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = (event.target as Element).closest<HTMLAnchorElement>("a[href]");
    if (!link || link.target || link.hasAttribute("download") || link.origin !== window.location.origin) return;
    if (!link.pathname.startsWith(`${BASE}/`) && link.pathname !== BASE) return;
    event.preventDefault();
    go(link.pathname.slice(BASE.length) + link.search, { as: "is" });
    window.scrollTo(0, 0);
  });
}
