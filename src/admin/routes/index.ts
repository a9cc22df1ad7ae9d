// All groups of admin routes. A new one is a file here and a line in this list.
import type { AdminApp, AdminServices } from '../services.ts';
import { addCounterRoutes } from './counters.ts';
import { addExplainRoutes } from './explain.ts';
import { addHistoryRoutes } from './history.ts';
import { addImportExportRoutes } from './import-export.ts';
import { addKeyRoutes } from './keys.ts';
import { addLimitRoutes } from './limits.ts';
import { addListRoutes } from './lists.ts';
import { addOpenApiRoutes } from './openapi.ts';
import { addPublishRoutes } from './publish.ts';
import { addRecordRoutes } from './records.ts';
import { addRouteRoutes } from './routes.ts';
import { addRuleRoutes } from './rules.ts';
import { addSettingsRoutes } from './settings.ts';
import { addSmokeRoutes } from './smoke.ts';
import { addTenantRoutes } from './tenants.ts';
import { addTierRoutes } from './tiers.ts';
import { addTrafficRoutes } from './traffic.ts';
import { addUserRoutes } from './users.ts';
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
