// The script that Redis runs, and its SHA-1. local/script.ts puts it together from the files of lua/counters.
import text from '../../lua/counters.lua';
import { digest, toHex } from '../core/digest.ts';

export interface Script {
  readonly text: string;
  /** The SHA-1 of the exact text, by which Redis knows the script. */
  readonly sha: string;
}

export const loadScript = async (): Promise<Script> => ({ text, sha: toHex(await digest('SHA-1', text)) });
