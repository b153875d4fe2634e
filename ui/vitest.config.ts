import { defineConfig } from "vitest/config";

export default defineConfig({ test: { isolate: false, fileParallelism: false, environment: "happy-dom", include: ["test/**/*.test.{ts,tsx}"] } });
