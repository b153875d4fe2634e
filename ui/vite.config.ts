import { defineConfig } from "vite";

// Everything is hashed and loaded by address: the page's policy allows no inline script or style.
export default defineConfig({
  base: "/ui/",
  build: {
    outDir: "../src/ares/edge/dashboard/static",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { proxy: { "/v1": { target: "http://127.0.0.1:8642", ws: true } } },
});
