// Ways in which Workers KV can fail on demand, for all isolates at once.

export interface KvFaults {
  /**
   * throw: the read fails. hang: the read never gets an answer, even after the faults are cleared. null: the key is
   * missing, as before a write has reached this place. garbage: a text that nobody wrote.
   */
  readonly read?: 'throw' | 'hang' | 'null' | 'garbage';
  readonly write?: 'throw';
}

export interface KvFaultSwitch {
  /** Replaces all faults set before. */
  set(faults: KvFaults): Promise<void>;
  clear(): Promise<void>;
}

/** `controlUrl` is where the Worker in front of KV takes its orders. */
export function createKvFaultSwitch(controlUrl: string): KvFaultSwitch {
  const set = async (faults: KvFaults) => {
    const answer = await fetch(controlUrl, { method: 'PUT', body: JSON.stringify(faults) });
    if (!answer.ok) throw new Error(`the KV in front of the isolates answered ${answer.status}`);
  };
  return { set, clear: () => set({}) };
}
