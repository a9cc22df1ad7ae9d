// A gopher-lua that runs one script after the other. A new one for each run would cost ten times as much.
// It has the options that gopher-lua has if nobody sets any: 5,120 values in its registry, 256 calls on its
// stack.
package main

import (
	"sync"

	lua "github.com/yuin/gopher-lua"
)

// The libraries that scripts on Upstash are known to have.
var libraries = []struct {
	name string
	open lua.LGFunction
}{
	{lua.BaseLibName, lua.OpenBase},
	{lua.TabLibName, lua.OpenTable},
	{lua.StringLibName, lua.OpenString},
	{lua.MathLibName, lua.OpenMath},
}

// Of the base library: what reaches files or the terminal.
var removed = []string{"dofile", "loadfile", "require", "module", "print", "_printregs"}

type machine struct {
	*lua.LState
	// What the globals and each library hold before a script has run.
	pristine map[*lua.LTable]map[lua.LValue]lua.LValue
}

var machines = sync.Pool{New: func() interface{} { return newMachine() }}

func newMachine() *machine {
	L := lua.NewState(lua.Options{SkipOpenLibs: true})
	for _, library := range libraries {
		L.Push(L.NewFunction(library.open))
		L.Push(lua.LString(library.name))
		L.Call(1, 0)
	}
	for _, name := range removed {
		L.SetGlobal(name, lua.LNil)
	}
	m := &machine{L, map[*lua.LTable]map[lua.LValue]lua.LValue{}}
	m.note(L.Env)
	L.Env.ForEach(func(_, value lua.LValue) {
		if table, isTable := value.(*lua.LTable); isTable {
			m.note(table)
		}
	})
	return m
}

func (m *machine) note(table *lua.LTable) {
	content := map[lua.LValue]lua.LValue{}
	table.ForEach(func(key, value lua.LValue) { content[key] = value })
	m.pristine[table] = content
}

// run calls a compiled script with these globals and returns what it returns. No script sees what another one
// has left behind.
func (m *machine) run(proto *lua.FunctionProto, globals map[string]lua.LValue) (lua.LValue, error) {
	for name, value := range globals {
		m.SetGlobal(name, value)
	}
	// The version of 2017 has no function that makes this of a compiled script.
	m.Push(&lua.LFunction{Proto: proto, Env: m.Env})
	if err := m.PCall(0, 1, nil); err != nil {
		// What an error has left on the stack is gone with this machine.
		m.Close()
		return nil, err
	}
	value := m.Get(-1)
	m.SetTop(0)
	m.clean()
	machines.Put(m)
	return value, nil
}

func (m *machine) clean() {
	for table, content := range m.pristine {
		var strange []lua.LValue
		table.ForEach(func(key, value lua.LValue) {
			if content[key] != value {
				strange = append(strange, key)
			}
		})
		for _, key := range strange {
			table.RawSet(key, lua.LNil)
		}
		for key, value := range content {
			if table.RawGet(key) != value {
				table.RawSet(key, value)
			}
		}
	}
}
