// Rewrites Redis's error of a failed script as Upstash, which runs scripts on gopher-lua, would say it. The texts are
// those in upstash/redis-js (functions.integration.test.ts) and in reports of its users.

const RUNNING = 'ERR Error running script: ';

/** Errors that no script has raised are the same in both. */
export function asUpstashSays(message: string): string {
  const compiling = /^ERR Error compiling script \(new function\): \w+:(\d+): .*?(?: near '(.*)')?$/s.exec(
    message,
  );
  if (compiling) return syntaxError(compiling[1], compiling[2]);
  // Redis 7 and later name the place last, Redis 6 first.
  const [, words, line] = /^(.*) script: \w{40}, on @\w+:(\d+)\.$/s.exec(message) ?? [];
  if (words !== undefined) return runtimeError(line, words);
  const [, earlier, said] =
    /^ERR Error running script \(call to \w+\): @\w+:(\d+): (.*)$/s.exec(message) ?? [];
  return said === undefined ? message : runtimeError(earlier, said);
}

/** Redis does not report the column. */
function syntaxError(line = '1', near = '<eof>'): string {
  const place = near === '<eof>' ? 'at EOF' : `line:${line}(column:1) near '${near}'`;
  return `${RUNNING}@user_script ${place}: syntax error`;
}

function runtimeError(line = '1', words: string): string {
  const place = `@user_script:${line}:`;
  const plain = words.replace(/^(ERR )?@?\w+: ?\d+: /, '');
  // A code in front means that a command raised the error.
  const raisedIn = /^[A-Z]+ /.test(plain) ? "\t[G]: in function 'call'\n" : '';
  return `${RUNNING}${place} ${plain}\nstack traceback:\n${raisedIn}\t${place} in main chunk\n\t[G]: ?`;
}
