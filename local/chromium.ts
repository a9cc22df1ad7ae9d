// Finds a real Chromium for the tests of the page, or installs it.
import { findOrInstall, type Machine } from './packages.ts';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** The path of the program. `CHROMIUM` overrides it. */
export function findOrInstallChromium(machine: Machine): Promise<string> {
  const named = (machine.env ?? process.env)['CHROMIUM'];
  return findOrInstall(machine, {
    name: 'Chromium',
    find: (binary) => named || NAMES.map(binary).find((path) => path !== undefined),
    apt: ['chromium'],
    brew: [],
    hint: 'install Chromium ("apt-get install chromium"), or name a Chrome with CHROMIUM=/path, and run this again',
  });
}
