// Who may import whom. Each rule says why; `npm run boundaries` checks them.
const only = (name, comment, from, to) => ({ name, comment, severity: 'error', from, to })

module.exports = {
  forbidden: [
    only(
      'core-is-pure',
      'core decides; values in, values out. An import of a library, of Node or of another folder would bring in a clock, chance or I/O.',
      { path: '^src/core/', pathNot: '\\.test\\.ts$' },
      { pathNot: '^src/core/' },
    ),
    only(
      'store-knows-core-only',
      'SQL must not know protocols or HTTP: runtime joins them.',
      { path: '^src/store/' },
      { path: '^src/', pathNot: '^src/(core|store)/' },
    ),
    only(
      'providers-know-core-only',
      'An adapter that reads the database would make a submission depend on more than its input.',
      { path: '^src/providers/' },
      { path: '^src/', pathNot: '^src/(core|providers)/' },
    ),
    only(
      'providers-are-strangers',
      'One provider’s table of faults must never explain another’s answer.',
      { path: '^src/providers/([^/]+)/' },
      { path: '^src/providers/([^/]+)/', pathNot: '^src/providers/$1/' },
    ),
    only(
      'api-and-console-never-call-a-provider',
      'A provider is called by runtime alone, after a commit.',
      { path: '^src/(api|console)/' },
      { path: '^src/(providers|simulator)/' },
    ),
    only(
      'runtime-is-below-api',
      'runtime must run without HTTP.',
      { path: '^src/runtime/' },
      { path: '^src/(api|console|cli|simulator)/' },
    ),
    only(
      'catalog-is-below-runtime',
      'The catalog reads and writes configuration; it never dispatches.',
      { path: '^src/catalog/' },
      { path: '^src/', pathNot: '^src/(core|store|catalog)/' },
    ),
    only(
      'simulator-shares-nothing',
      'What checks the adapters must not repeat their mistakes.',
      { path: '^src/simulator/' },
      { path: '^src/', pathNot: '^src/simulator/' },
    ),
    only(
      'nobody-imports-the-simulator',
      'It is a program of its own, started by the command line.',
      { path: '^src/', pathNot: '^src/(simulator|cli)/' },
      { path: '^src/simulator/' },
    ),
    only('no-cycles', 'A cycle has no reading order.', {}, { circular: true }),
    only(
      'tests-are-not-imported',
      'Production code must not lean on test code.',
      { path: '^src/', pathNot: '\\.test\\.ts$' },
      { path: '(^test/|\\.test\\.ts$)' },
    ),
    only(
      'no-undeclared-packages',
      'What is imported must be pinned in package.json.',
      { path: '^(src|bin)/' },
      { dependencyTypes: ['npm-no-pkg', 'npm-unknown'] },
    ),
    only(
      'no-dev-packages-in-production',
      'npm ci --omit=dev must be enough to serve.',
      { path: '^src/', pathNot: '\\.test\\.ts$' },
      { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['type-only'] },
    ),
    only('no-unresolvable', 'A typo, or a missing file.', {}, { couldNotResolve: true }),
  ],
  options: {
    parser: 'swc',
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
    },
  },
}
