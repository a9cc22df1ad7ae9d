// The question of the matcher in SQL: which rules apply to each request, with which limit and cost.
import { sql } from 'drizzle-orm';

export const FUNCTIONS = [
  // One text for all spellings: lower case, no slash at the end, parameters without their names.
  sql`create function slot_of(resource text) returns text language sql immutable as $$
    select regexp_replace(
      regexp_replace(lower(resource), '/(:[^/]+|\\{[^/]+\\})(?=/|$)', '/{}', 'g'), '(.)/$', '\\1') $$`,
  // A prefix is the text before its star, alone or with more segments. All other characters mean themselves.
  sql`create function pattern_of(slot text) returns text language sql immutable as $$
    select '^' || replace(
        regexp_replace(regexp_replace(slot, '/?\\*$', ''), '([.+*?()|^$\\[\\]\\\\])', '\\\\\\1', 'g'), '{}', '[^/]+')
      || case when slot like '%/*' then '(/.*)?$' when slot like '%*' then '' else '$' end $$`,
  // Whether the first matches everything that the second one matches.
  sql`create function contains(wide text, narrow text) returns boolean language sql immutable as $$
    select case when wide like '%*' then replace(regexp_replace(narrow, '/\\*$', ''), '*', '%') ~ pattern_of(wide)
      else narrow not like '%*' and narrow ~ pattern_of(wide) end $$`,
  // Of two resources that match one path, the more specific one sorts first: names, then parameters, then the star.
  sql`create function outline_of(slot text) returns text language sql immutable as $$
    select replace(replace(regexp_replace(replace(
      regexp_replace(slot, '/\\*$', '#2'), '/{}', '#1'), '/[^/#]+', '0', 'g'), '#', ''), '/', '') collate "C" $$`,
  sql`create function has_pattern(names text[]) returns boolean language sql immutable as $$
    select exists (select from unnest(names) as one where one like '%*') $$`,
  // Null names nobody.
  sql`create function names_id(names text[], id text) returns boolean language sql immutable as $$
    select names = '{}' or coalesce((select bool_or(id like replace(one, '*', '%')) from unnest(names) as one), false) $$`,
  // FNV-1a over the characters, then the finalizer of MurmurHash3. Numeric, because products take 64 bits.
  sql`create function hash_of(data text) returns numeric language plpgsql immutable as $$
    declare
      state bigint := 2166136261;
      letter text;
    begin
      foreach letter in array regexp_split_to_array(data, '') loop
        state := mod((state # ascii(letter))::numeric * 16777619, 4294967296);
      end loop;
      state := mod((state # (state >> 16))::numeric * 2246822507, 4294967296);
      state := mod((state # (state >> 13))::numeric * 3266489909, 4294967296);
      return state # (state >> 16);
    end $$`,
];

export const QUESTION = (asked: string) => sql`
  with requests as (
    select number, "matchPath" as path, method, claims, host, now, ip, "userId" as "user", "apiKeyId" as "apiKey", "tenantId" as tenant,
      coalesce((select name from weir.tiers where name = tier), (select name from weir.tiers where is_default)) as tier
    from jsonb_to_recordset(${asked}::jsonb) as request (
      number int, "matchPath" text, method text, host text, now timestamptz, ip text, "userId" text, "apiKeyId" text, "tenantId" text, tier text, claims jsonb)
  ),
  slots as (
    select rules.*, slot_of(one) as slot,
      -- The more specific rule sorts first.
      array[subjects = '{}', has_pattern(subjects), tenants = '{}', has_pattern(tenants), tiers = '{}', methods = '{}', hosts = '{}'] as rank,
      case action when 'multiply' then action
      else (select string_agg(part, ' ' order by part) from unnest("by") as part) end as by_parts
    from weir.rules, unnest(case resources when '{}' then array[resource] else resources end) as one where enabled
  ),
  -- All of whose resources are among those of the rule that multiplies, or narrower.
  multiplied as materialized (
    select own.id, other.id as by_id from weir.rules as own, weir.rules as other
    where other.action = 'multiply' and other.scope in (own.scope, 'all') and own.enabled and other.enabled and not exists (
      select from slots as narrow where narrow.id = own.id and not exists (
        select from slots as wide where wide.id = other.id and contains(wide.slot, narrow.slot)))
  ),
  winners as (
    select distinct on (number, scope, by_parts, slot, action = 'log') requests.number, requests.path, requests.method,
      requests.tier, requests."user", requests."apiKey", requests.tenant, requests.claims, slots.*
    from requests join slots on path ~ pattern_of(slot) and path !~ '^/_weir(/|$)'
    where (methods = '{}' or method = any(methods) or (method = 'HEAD' and 'GET' = any(methods)))
      and (tiers = '{}' or requests.tier = any(tiers))
      and names_id(tenants, tenant)
      and names_id(subjects, case scope
        when 'user' then "user" when 'apiKey' then "apiKey" when 'tenant' then tenant when 'ip' then ip end)
      and (hosts = '{}' or exists (select from unnest(hosts) as one where host like replace(one, '*', '%')))
      and coalesce(valid_from <= now, true) and coalesce(now < valid_until, true)
      and (percent = 100 or hash_of(id || ' ' || coalesce(case scope
        when 'user' then 'user:' || "user" when 'apiKey' then 'apiKey:' || "apiKey" when 'tenant' then 'tenant:' || tenant
      end, 'ip:' || ip)) * 100 < percent * 4294967296)
    order by number, scope, by_parts, slot, action = 'log', priority, rank, id
  ),
  applying as (
    select distinct on (number, id) * from winners where action not in ('allow', 'multiply') and not exists (
      select from winners as other where other.number = winners.number
        and (case when other.scope = winners.scope then other.slot <> winners.slot else other.scope = 'all'
          and (other.slot <> winners.slot or (other.priority, other.rank) <= (winners.priority, winners.rank)) end)
        and (other.replaces or other.action = 'allow') and (winners.action = 'log' or other.action <> 'log')
        and contains(winners.slot, other.slot))
  ),
  limited as (
    select number, applying.name, applying."by", applying.bound_times, coalesce((
        select (one ->> 'cost')::int from jsonb_array_elements(costs) with ordinality as list (one, place)
        where path ~ pattern_of(slot_of(one ->> 'resource')) and (not one ? 'methods'
          or one -> 'methods' ? method or (method = 'HEAD' and one -> 'methods' ? 'GET'))
        order by outline_of(slot_of(one ->> 'resource')), one ? 'methods' desc, place limit 1), cost) as cost,
      case when claimed >= 1 then least(claimed, (line ->> 'limitMax')::numeric)
        when own.limits ? (line ->> 'limitName') then (own.limits ->> (line ->> 'limitName'))::bigint
        when tiers.limits ? (line ->> 'limitName') then (tiers.limits ->> (line ->> 'limitName'))::bigint
        else (line ->> 'limit')::bigint end as "limit", (
        select times from winners as other where other.number = applying.number and other.action = 'multiply'
          and exists (select from multiplied where by_id = other.id and multiplied.id = applying.id)
          -- Others may share an address. A bound is counted by the scope.
          and (other.scope <> 'all' and other.tenants = '{}' or (
            select bool_and(parts && array_remove(array[
              case when applying."user" is not null then 'user' end,
              case when applying."apiKey" is not null then 'apiKey' end,
              case when applying.tenant is not null then 'tenant' end], null))
            from (values (applying."by"), (array[applying.scope])) as counted (parts)
            where case when applying."by" = '{}' then parts <> '{}'
              else parts = applying."by" or 'header:X-Model' = any(applying."by") end))
        order by priority, rank, scope = 'all', id limit 1) as factor
    from applying left join weir.tiers on tiers.name = applying.tier left join weir.tenants as own on own.id = applying.tenant
      cross join jsonb_array_elements(case applying.limits when '[]'
        then jsonb_build_array(jsonb_build_object('limit', applying."limit", 'limitName', limit_name, 'limitClaim', limit_claim, 'limitMax', limit_max))
        else applying.limits end) as line
      cross join lateral (select case when claims ->> (line ->> 'limitClaim') ~ '^[0-9]+$'
        then (claims ->> (line ->> 'limitClaim'))::numeric end as claimed) as said
  )
  select number, name || suffix || ': ' || case when factor is null then "limit" * times else greatest(1, floor("limit" * times * factor)) end || ' for ' || cost as line from limited
  cross join lateral (
    select '' as suffix, 1 as times union all select ' bound', bound_times where 'header:X-Model' = any("by")) as counter
  where "limit" is not null`;
