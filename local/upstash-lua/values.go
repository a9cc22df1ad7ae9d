// Replies as values of Lua and the other way round, as Redis converts them.
package main

import (
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// A table can hold itself.
const deepest = 100

var lineEnds = strings.NewReplacer("\r", " ", "\n", " ")

func toLua(L *lua.LState, r reply) lua.LValue {
	switch {
	case r.null:
		return lua.LFalse
	case r.kind == ':':
		number, _ := strconv.ParseInt(r.text, 10, 64)
		return lua.LNumber(number)
	case r.kind == '$':
		return lua.LString(r.text)
	case r.kind == '+':
		return field(L, "ok", r.text)
	case r.kind == '-':
		return field(L, "err", r.text)
	}
	table := L.CreateTable(len(r.items), 0)
	for i, item := range r.items {
		table.RawSetInt(i+1, toLua(L, item))
	}
	return table
}

func field(L *lua.LState, name, text string) *lua.LTable {
	table := L.NewTable()
	table.RawSetString(name, lua.LString(text))
	return table
}

// fromLua cuts numbers to integers, and ends an array at its first nil.
func fromLua(value lua.LValue, depth int) reply {
	switch value := value.(type) {
	case lua.LString:
		return reply{kind: '$', text: string(value)}
	case lua.LNumber:
		return integer(int64(value))
	case lua.LBool:
		if value {
			return integer(1)
		}
	case *lua.LTable:
		return fromTable(value, depth+1)
	}
	return null
}

func fromTable(table *lua.LTable, depth int) reply {
	if depth > deepest {
		return failure("ERR reached lua stack limit")
	}
	if text, isText := table.RawGetString("err").(lua.LString); isText {
		return reply{kind: '-', text: lineEnds.Replace(string(text))}
	}
	if text, isText := table.RawGetString("ok").(lua.LString); isText {
		return reply{kind: '+', text: lineEnds.Replace(string(text))}
	}
	items := []reply{}
	for i := 1; ; i++ {
		value := table.RawGetInt(i)
		if value == lua.LNil {
			return reply{kind: '*', items: items}
		}
		items = append(items, fromLua(value, depth))
	}
}

func errorReply(L *lua.LState) int {
	text := strings.TrimPrefix(L.CheckString(1), "-")
	// The first word is the code of an error.
	if !strings.Contains(text, " ") {
		text = "ERR " + text
	}
	L.Push(field(L, "err", text))
	return 1
}

func statusReply(L *lua.LState) int {
	L.Push(field(L, "ok", L.CheckString(1)))
	return 1
}

func sha1hex(L *lua.LState) int {
	L.Push(lua.LString(sha1Hex(L.CheckString(1))))
	return 1
}
