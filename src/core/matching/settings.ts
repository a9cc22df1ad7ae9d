// What holds for all rules together: one row in Postgres, published with them.

/** `log`: every rule only records what it would have done. */
export const ENFORCEMENTS = ['on', 'log'] as const;
export type Enforcement = (typeof ENFORCEMENTS)[number];

export interface Settings {
  readonly enforcement: Enforcement;
}

export const SETTINGS_DEFAULTS = { enforcement: 'on' } as const satisfies Settings;
