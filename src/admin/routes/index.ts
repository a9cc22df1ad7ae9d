// All groups of admin routes. A new one is a file here and a line in this list.
import type { AdminApp, AdminServices } from '../app.ts';
import { addSmokeRoutes } from '../smoke.ts';
import { addKeyRoutes, addListRoutes, addTenantRoutes, addTierRoutes, addUserRoutes } from './callers.ts';
import { addCounterRoutes } from './counters.ts';
import { addExplainRoutes } from './explain.ts';
import { addHistoryRoutes } from './history.ts';
import { addImportExportRoutes } from './import-export.ts';
import { addLimitRoutes } from './limits.ts';
import { addOpenApiRoutes } from './openapi.ts';
import { addRecordRoutes } from './records.ts';
import { addRouteRoutes, addRuleRoutes } from './rules.ts';
import { addPublishRoutes, addSettingsRoutes } from './settings.ts';
import { addTrafficRoutes } from './traffic.ts';
import { addWouldDenyRoutes } from './would-deny.ts';

export type AddRoutes = (app: AdminApp, services: AdminServices) => void;

export const ROUTE_GROUPS: readonly AddRoutes[] = [
  addRuleRoutes,
  addTierRoutes,
  addTenantRoutes,
  addUserRoutes,
  addKeyRoutes,
  addListRoutes,
  addRouteRoutes,
  addSettingsRoutes,
  addHistoryRoutes,
  addExplainRoutes,
  addLimitRoutes,
  addCounterRoutes,
  addImportExportRoutes,
  addPublishRoutes,
  addRecordRoutes,
  addWouldDenyRoutes,
  addSmokeRoutes,
  addTrafficRoutes,
  // Last: it describes all the others.
  addOpenApiRoutes,
];
