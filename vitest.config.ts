import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    // Two cores: more workers than that only make the clock-bound ones late.
    maxWorkers: 2,
    globalSetup: ['test/store/global-setup.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
})
