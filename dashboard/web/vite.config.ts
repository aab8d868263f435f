import { defineConfig } from "vite";

// The bundle is committed, so that users need no Node: it has no source maps and no dates, and
// tests/dashboard builds it anew and compares. Paths are relative, for servers below a prefix.
export default defineConfig({
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../walras_dashboard/static",
    emptyOutDir: true,
    target: ["chrome123", "firefox121", "safari17.5"],
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: true,
  },
  server: { proxy: { "/api": "http://127.0.0.1:8090" } },
});
