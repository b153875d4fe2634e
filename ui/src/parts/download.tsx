// A file of the API to keep. A plain link, unless another tenant is looked into: that is said in a header, which no
// link can send.
import type { ComponentChildren } from "preact";
import { acting, getText } from "../api/client";

/** Hands text to the browser as a file to keep. */
export function save(text: string, name: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}

export function Download({ path, name, children }: { path: string; name: string; children: ComponentChildren }) {
  const fetched = async (event: Event) => {
    if (!acting.tenant) return;
    event.preventDefault();
    save(await getText(path), name);
  };
  return (
    <a href={path} download={name} onClick={fetched}>
      {children}
    </a>
  );
}
