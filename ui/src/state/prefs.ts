// How this person likes it: kept in this browser, and nothing else is.
import { effect, signal } from "@preact/signals";

type Theme = "system" | "dark" | "light";
type Zone = "local" | "utc";

const KEY = "ares-prefs";

function kept(): { theme: Theme; zone: Zone } {
  try {
    const found = JSON.parse(window.localStorage.getItem(KEY) ?? "{}") as { theme?: Theme; zone?: Zone };
    return { theme: found.theme ?? "system", zone: found.zone ?? "local" };
  } catch {
    return { theme: "system", zone: "local" };
  }
}

const first = kept();
export const theme = signal<Theme>(first.theme);
export const zone = signal<Zone>(first.zone);

effect(() => {
  if (theme.value === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = theme.value;
  try {
    window.localStorage.setItem(KEY, JSON.stringify({ theme: theme.value, zone: zone.value }));
  } catch {
    // A browser that keeps nothing forgets it with the tab.
  }
});
