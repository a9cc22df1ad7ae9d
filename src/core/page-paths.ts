// The views of the page that the Worker renders itself. The front door routes them by these names.
import { OWN_PREFIX } from './matching/resource.ts';

export const PLAIN_VIEWS = ['overview', 'rules', 'violators', 'health'] as const;
export type PlainView = (typeof PLAIN_VIEWS)[number];

export const plainPath = (view: PlainView): string => `${OWN_PREFIX}/plain/${view}`;
