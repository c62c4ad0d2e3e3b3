/** Every protocol that Yardmaster speaks, by the name that the catalog's `provider` gives it. */
import type { ProviderAdapter } from './adapter.ts'
import { createArkAdapter } from './ark/adapter.ts'
import type { Caller } from './call.ts'
import { createKlingAdapter } from './kling/adapter.ts'
import { createOpenAiAdapter } from './openai/adapter.ts'

/** The adapters, all over one client. */
export function createProviders(caller: Caller): ReadonlyMap<string, ProviderAdapter> {
  const adapters = [createArkAdapter(caller), createKlingAdapter(caller), createOpenAiAdapter(caller)]
  return new Map(adapters.map((adapter) => [adapter.name, adapter]))
}
