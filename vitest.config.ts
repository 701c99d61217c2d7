import { defineConfig } from "vitest/config";

/** Pure tests need no database; service and system tests get a real one (test/support/global-set-up.ts). */
export default defineConfig({
  test: {
    testTimeout: 30_000,
    hookTimeout: 120_000,
    projects: [
      { extends: true, test: { name: "pure", include: ["test/{unit,golden,property,rules}/**/*.test.ts"] } },
      {
        extends: true,
        test: {
          name: "service",
          include: ["test/{service,system}/**/*.test.ts"],
          globalSetup: ["test/support/global-set-up.ts"],
        },
      },
    ],
  },
});
