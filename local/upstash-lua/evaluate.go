// The commands that have to do with scripts: EVAL and its like, and SCRIPT.
package main

import (
	"strconv"
	"strings"
)

var evaluations = set("EVAL", "EVAL_RO", "EVALSHA", "EVALSHA_RO")
var scriptVerbs = set("LOAD", "EXISTS", "FLUSH")

func runsScripts(args []string) bool {
	name := strings.ToUpper(args[0])
	return evaluations[name] || name == "SCRIPT" && len(args) > 1 && scriptVerbs[strings.ToUpper(args[1])]
}

// locker locks what a script uses while it runs, and returns what unlocks it.
type locker func(called *script, keys []string, isReadOnly bool) func()

func (s *session) runCommand(args []string, lock locker) reply {
	name := strings.ToUpper(args[0])
	if name == "SCRIPT" {
		return s.script(strings.ToUpper(args[1]), args[2:])
	}
	if len(args) < 3 {
		return failure("ERR wrong number of arguments for '%s' command", strings.ToLower(name))
	}
	keys, argv, problem := splitArguments(args[2], args[3:])
	if problem != "" {
		return failure("%s", problem)
	}
	s.server.scripts.count(name)
	called, problem := s.find(name, args[1])
	if problem != "" {
		return failure("%s", problem)
	}
	isReadOnly := strings.HasSuffix(name, "_RO") || called.flags["no-writes"]
	defer lock(called, keys, isReadOnly)()
	return (&run{session: s, script: called, keys: keys, argv: argv, isReadOnly: isReadOnly}).execute()
}

func (s *session) find(name, textOrSHA string) (*script, string) {
	if strings.HasPrefix(name, "EVALSHA") {
		if called := s.server.scripts.find(textOrSHA); called != nil {
			return called, ""
		}
		return nil, "NOSCRIPT No matching script. Please use EVAL."
	}
	called, err := s.server.scripts.load(textOrSHA)
	if err != nil {
		return nil, err.Error()
	}
	return called, ""
}

func splitArguments(count string, rest []string) (keys, argv []string, problem string) {
	size, err := strconv.Atoi(count)
	switch {
	case err != nil:
		return nil, nil, "ERR value is not an integer or out of range"
	case size < 0:
		return nil, nil, "ERR Number of keys can't be negative"
	case size > len(rest):
		return nil, nil, "ERR Number of keys can't be greater than number of args"
	}
	return rest[:size], rest[size:], ""
}

func (s *session) script(verb string, args []string) reply {
	scripts := s.server.scripts
	scripts.count("script|" + verb)
	switch {
	case verb == "FLUSH":
		scripts.flush()
		return statusOK
	case verb == "EXISTS" && len(args) > 0:
		known := make([]reply, len(args))
		for i, sha := range args {
			known[i] = integer(0)
			if scripts.find(sha) != nil {
				known[i] = integer(1)
			}
		}
		return reply{kind: '*', items: known}
	case verb == "LOAD" && len(args) == 1:
		if _, err := scripts.load(args[0]); err != nil {
			return failure("%s", err)
		}
		return reply{kind: '$', text: sha1Hex(args[0])}
	}
	return failure("ERR wrong number of arguments for 'script|%s' command", strings.ToLower(verb))
}
