// One run of a script: what it is given, and what it may do.
package main

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

type run struct {
	session    *session
	script     *script
	keys, argv []string
	isReadOnly bool
}

const flagIsSet = "in Lua scripts when the 'allow-key-locking' flag is set"

func (r *run) execute() reply {
	L := machines.Get().(*machine)
	value, err := L.run(r.script.proto, map[string]lua.LValue{
		"KEYS": textTable(L.LState, r.keys),
		"ARGV": textTable(L.LState, r.argv),
		"redis": L.SetFuncs(L.NewTable(), map[string]lua.LGFunction{
			"call": r.call, "pcall": r.pcall, "error_reply": errorReply, "status_reply": statusReply, "sha1hex": sha1hex,
		}),
	})
	if err != nil {
		return failure("ERR Error running script: %s", err)
	}
	return fromLua(value, 0)
}

func textTable(L *lua.LState, values []string) *lua.LTable {
	table := L.CreateTable(len(values), 0)
	for _, value := range values {
		table.Append(lua.LString(value))
	}
	return table
}

func (r *run) call(L *lua.LState) int {
	answer := r.command(L)
	if answer.isFailure() {
		L.RaiseError("%s", answer.text)
	}
	L.Push(toLua(L, answer))
	return 1
}

func (r *run) pcall(L *lua.LState) int {
	L.Push(toLua(L, r.command(L)))
	return 1
}

func (r *run) command(L *lua.LState) reply {
	args := make([]string, L.GetTop())
	if len(args) == 0 {
		return failure("ERR Please specify at least one argument for this redis.call() call")
	}
	for i := range args {
		value := L.Get(i + 1)
		if value.Type() != lua.LTString && value.Type() != lua.LTNumber {
			return failure("ERR Lua redis lib command arguments must be strings or integers")
		}
		args[i] = lua.LVAsString(value)
	}
	if problem := r.problemOf(args); problem != "" {
		return failure("%s", problem)
	}
	return r.session.ask(args...)
}

// problemOf says why a script must not run this command; "" if it may.
func (r *run) problemOf(args []string) string {
	name := strings.ToUpper(args[0])
	known := r.session.commands[name]
	switch {
	case notForwarded[name] || known.flags["noscript"]:
		return "ERR This Redis command is not allowed from script"
	case r.isReadOnly && known.flags["write"]:
		return "READONLY Write commands are not allowed from read-only scripts"
	case !r.script.locksKeys():
		return ""
	case databaseWide[name]:
		return "ERR Database-wide commands are not allowed " + flagIsSet
	}
	for _, key := range r.session.keysOf(args) {
		if !contains(r.keys, key) {
			return "ERR Dynamic keys are not allowed " + flagIsSet
		}
	}
	return ""
}

func contains(keys []string, wanted string) bool {
	for _, key := range keys {
		if key == wanted {
			return true
		}
	}
	return false
}
