// The settings for all rules: one row in Postgres, published with the rules.

/** `log`: every rule only records what it would have done. */
export const ENFORCEMENTS = ['on', 'log'] as const;
export type Enforcement = (typeof ENFORCEMENTS)[number];

/** `ignored`: rules for `/login` apply to `/login.json`, too. */
export const FILE_EXTENSIONS = ['part', 'ignored'] as const;
export type FileExtensions = (typeof FILE_EXTENSIONS)[number];

export interface Settings {
  readonly enforcement: Enforcement;
  readonly fileExtensions: FileExtensions;
}

export const SETTINGS_DEFAULTS = { enforcement: 'on', fileExtensions: 'part' } as const satisfies Settings;
