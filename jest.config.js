const preset = require('@jupyterlab/testing/lib/jest-config');

const config = preset(__dirname);

module.exports = {
  ...config,
  reporters: ['default'],
  // A machine that does other things as well is slow, and not wrong.
  testTimeout: 60_000,
  roots: ['<rootDir>/labextension/test'],
  // JupyterLab's packages are ES modules, beside those that its preset names.
  transformIgnorePatterns: config.transformIgnorePatterns.map(pattern =>
    pattern.replace('(?!', '(?!@jupyterlab/|')
  ),
  testRegex: String.raw`\.spec\.tsx?$`,
  transform: {
    ...config.transform,
    '^.+\\.tsx?$': [
      'ts-jest/legacy',
      // Types are checked by `jlpm types:check`, once and for all files.
      { tsconfig: 'labextension/test/tsconfig.json', diagnostics: false }
    ]
  }
};
