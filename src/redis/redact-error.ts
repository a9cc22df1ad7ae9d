// Cleans a server's error about a failed script for logs and answers: the first line, without any value. A message can
// quote keys and arguments, so a word is kept only if it looks like one of the server's own.

/** The client appends the whole command, with keys and arguments. */
const COMMAND = ', command was: ';
/** After this, the server quotes its arguments or prints a stack trace. */
const QUOTES = /, with args|stack traceback|[\r\n]/;
const LONGEST = 200;

/** An English word or an error code. No token is so short, and no key consists of letters only. */
const WORD = `(?:[A-Za-z][a-z]{0,13}(?:[-'][a-z]{1,13})?|[A-Z]{1,14}(?:_[A-Z]{1,14}){0,3})`;
const SERVERS_OWN = [
  String.raw`\(?${WORD}(?:\(${WORD}\))?`,
  // A position in the script.
  String.raw`@?user_script(?::\d{1,5})?`,
  String.raw`line:\d{1,5}(?:\(column:\d{1,5}\))?`,
  // The name of a function, a variable or a piece of the script.
  String.raw`\(?'[A-Za-z_.]{1,20}'`,
  `'?(?:<eof>|allow-key-locking)'?`,
  String.raw`#\d`,
].map((own) => new RegExp(`^${own}[).,:;]{0,2}$`));

/** The message of an error without the command that the client appends. */
export const withoutCommand = (message: string): string => message.split(COMMAND, 1)[0] ?? '';

/** The server's own words of a message; `…` replaces the rest. */
export function wordsOf(message: string): string {
  const [unquoted = ''] = withoutCommand(message).trim().split(QUOTES, 1);
  const words = unquoted
    .slice(0, 10 * LONGEST)
    .trim()
    .split(/\s+/);
  const kept = words.map((word) => (SERVERS_OWN.some((own) => own.test(word)) ? word : '…'));
  const text = kept.filter((word, i) => word !== '…' || kept[i - 1] !== '…').join(' ');
  return text.length <= LONGEST ? text : `${text.slice(0, LONGEST - 1)}…`;
}
