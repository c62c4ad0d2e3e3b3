/** The catalog may import no adapter, so that it has a list of its own; it must say what the adapters say. */
import { describe, expect, it } from 'vitest'
import { KNOWN_PROVIDERS } from '../../src/catalog/known-providers.ts'
import type { Caller } from '../../src/providers/call.ts'
import { createProviders } from '../../src/providers/registry.ts'

const nobody: Pick<Caller, never> = {}

describe('providers that a channel can name', () => {
  it('are those that have an adapter, each with what it makes', () => {
    const adapters = [...createProviders(nobody as Caller).values()]
    const made = adapters.map((adapter) => [
      adapter.name,
      [...(adapter.submitVideo ? ['video'] : []), ...(adapter.generateImage ? ['image'] : [])],
    ])
    expect(Object.fromEntries(made)).toEqual(KNOWN_PROVIDERS)
  })
})
