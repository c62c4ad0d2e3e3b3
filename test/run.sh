#!/usr/bin/env bash
# Everything that must hold before a change may land: style, types, import rules, and all tests. Every step runs, so that
# one look shows all that is wrong. Ends with a line "N passed, N failed" and status 1 where anything failed.
set -u
cd "$(dirname "$0")/.." || exit 1
export PATH="$PWD/node_modules/.bin:$PATH"
passed=0
failed=0

step() {
  printf '\n== %s\n' "$1"
  shift
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

step 'style (biome)' biome check --error-on-warnings .
step 'types (tsc)' tsc --noEmit
step 'import rules (dependency-cruiser)' depcruise --config .dependency-cruiser.cjs src

report=$(mktemp)
trap 'rm -f "$report"' EXIT
printf '\n== tests (vitest)\n'
vitest run --reporter=default --reporter=json --outputFile.json="$report" "$@"
status=$?
counts=$(node -e '
  const report = JSON.parse(require("node:fs").readFileSync(process.argv[1], "utf8"))
  const files = report.testResults.filter((file) => file.status === "failed" && file.assertionResults.length === 0)
  console.log(report.numPassedTests, report.numFailedTests + files.length)
' "$report" 2>/dev/null) || counts='0 1'
passed=$((passed + ${counts% *}))
failed=$((failed + ${counts#* }))
# A run that failed without a failed test (an unhandled error, say) is a failure all the same.
if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi

printf '\n%s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
